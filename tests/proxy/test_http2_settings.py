"""HTTP/2: SETTINGS of a client that would make its connection dear."""

import hpack
import pytest
from h2.settings import SettingCodes

from tests.proxy.asker import asking
from tests.proxy.serving import chunk, serving
from tests.proxy.test_frames import frame
from trioroute.proxy.serving import streams
from trioroute.proxy.serving.asgi import Receive, Scope, Send
from trioroute.proxy.serving.peer_settings import TABLE_BYTES, PeerSettings

TABLE = SettingCodes.HEADER_TABLE_SIZE


async def new_header(scope: Scope, receive: Receive, send: Send) -> None:
    """An entry of the table with each answer."""
    headers = [(b"x-path", scope["raw_path"]), (b"x-pad", scope["raw_path"] * 20)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await chunk(send, b"", more=False)


def setting(*pairs: tuple[int, int]) -> bytes:
    return frame(4, b"".join(k.to_bytes(2, "big") + v.to_bytes(4, "big") for k, v in pairs))


@pytest.fixture
def encoders(monkeypatch: pytest.MonkeyPatch) -> list[hpack.Encoder]:
    """Of the connections that were served."""
    made: list[hpack.Encoder] = []
    begin = streams.Streams.__init__

    def noting(self: streams.Streams, *args: object, **named: object) -> None:
        begin(self, *args, **named)  # type: ignore[arg-type] # passed on as they are
        made.append(self.connection.encoder)

    monkeypatch.setattr(streams.Streams, "__init__", noting)
    return made


async def test_a_huge_header_table_is_not_taken_up(encoders: list[hpack.Encoder]) -> None:
    async with serving(new_header) as server, asking(server) as asker:
        asker.h2.decoder.max_allowed_table_size = 2**32 - 1
        await asker.raw.send(setting((TABLE, 2**32 - 1)))
        for n in range(60):
            await asker.read_whole(await asker.ask(f"/{n}"))
            assert asker.heads[2 * n + 1]["x-path"] == f"/{n}"
        table = encoders[0].header_table
        assert table.maxsize == TABLE_BYTES
        assert 0 < len(table.dynamic_entries) < 120


@pytest.mark.parametrize(
    "sizes", [(0,), (100,), (100, 100), (0, 5000, 9000), (2**32 - 1, 0, 2**32 - 1), (64, 4096, 128)]
)
async def test_a_table_that_changes_its_size_is_told_of(sizes: tuple[int, ...]) -> None:
    """By its least and its last size between two answers (RFC 7541 section 4.2): a client whose
    decoder went along would otherwise read other headers."""
    async with serving(new_header) as server, asking(server) as asker:
        for n in range(3):
            await asker.read_whole(await asker.ask(f"/{n}"))
        for size in sizes:
            asker.h2.decoder.header_table_size = min(size, asker.h2.decoder.header_table_size)
            asker.h2.decoder.max_allowed_table_size = size
            await asker.raw.send(setting((TABLE, size)))
        for n in range(3, 9):
            stream = await asker.ask(f"/{n}")
            await asker.read_whole(stream)
            assert asker.heads[stream]["x-path"] == f"/{n}"
            assert asker.heads[stream]["x-pad"] == f"/{n}" * 20


def test_settings_without_a_meaning_are_not_kept() -> None:
    kept = PeerSettings(client=True)
    before = dict(kept)
    kept.update(dict.fromkeys(range(0x10, 0xFFFF), 1))
    kept.acknowledge()
    assert dict(kept) == before
    kept.update({int(SettingCodes.INITIAL_WINDOW_SIZE): 70_000})
    kept.acknowledge()
    assert kept.initial_window_size == 70_000
