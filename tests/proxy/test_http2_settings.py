"""HTTP/2: SETTINGS of a client that would make its connection dear."""

import h2.errors
import hpack
import pytest
from h2.settings import SettingCodes

from tests.proxy.asker import asking
from tests.proxy.serving import chunk, serving
from tests.proxy.test_frames import frame
from trioroute.proxy.serving import streams
from trioroute.proxy.serving.asgi import Receive, Scope, Send
from trioroute.proxy.serving.http2_state import resizes
from trioroute.proxy.serving.peer_settings import TABLE_BYTES, PeerSettings

Codes = h2.errors.ErrorCodes
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


async def test_settings_and_sizes_that_cost_more_than_any_use_end_the_connection() -> None:
    """A whole frame of either stood on the event loop for 10 ms and for 200."""
    head = hpack.Encoder().encode([(":method", "GET"), (":path", "/"), (":scheme", "http")])
    fine = setting(*((code, 1) for code in range(0x10, 0x10 + 100)))
    async with serving(new_header) as server:
        for sent, code in (
            (setting(*((code, 1) for code in range(0x10, 0x10 + 101))), Codes.ENHANCE_YOUR_CALM),
            (frame(1, b"\x20" * 16_000 + head, 3, 5), Codes.PROTOCOL_ERROR),
            (frame(1, b"\x3f\xe1\x1f" * 5_000 + head, 3, 5), Codes.PROTOCOL_ERROR),
        ):
            async with asking(server) as asker:
                await asker.ask("/")
                await asker.read_whole(1)
                await asker.raw.send(sent)
                await asker.read(lambda: False)
                assert [told for _, told in asker.h2.farewells] == [code]
        async with asking(server) as asker:
            await asker.raw.send(fine)
            asker.h2.encoder.header_table_size = 0
            asker.h2.encoder.header_table_size = TABLE_BYTES
            await asker.read_whole(await asker.ask("/kept"))
        assert server.refusals == ["invalid_request"]


@pytest.mark.parametrize(
    ("block", "count"),
    [(b"", 0), (b"\x82", 0), (b"\x20", 1), (b"\x20\x3f\xe1\x1f\x82", 2), (b"\x3f\xff", 1)],
)
def test_the_sizes_that_a_head_begins_with_are_counted(block: bytes, count: int) -> None:
    assert resizes(block) == count
    assert resizes(b"\x20" * 9 + block) == 9
