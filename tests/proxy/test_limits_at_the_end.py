"""A limit of time that strikes when the answer, or its last word, is there already."""

import h2.config
import h2.connection
import h2.events
import pytest

from tests.proxy.replies import DONE, LAST, chunk, says, stream_head, token
from tests.proxy.serving import RawClient, client
from tests.proxy.whole import CHAT, Whole, chat, request, whole
from trioroute.proxy import first_event, relay
from trioroute.proxy.upstream.message import UpstreamStream

STREAMED = chat(stream=True)
EVENTS = token("a") + DONE


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> list[Whole]:
    """The idle limit of everything open strikes in the turn in which the replica's end is read."""
    rigs: list[Whole] = []
    read = first_event.next_chunk

    async def strikes(stream: UpstreamStream) -> bytes | None:
        following = await read(stream)
        if following is None:
            for watched in rigs[0].desk.watch._open:
                watched.broken = "idle"
                watched.scope.cancel()
        return following

    monkeypatch.setattr(relay, "next_chunk", strikes)
    return rigs


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(
    "pieces", [(chunk(EVENTS), LAST), (chunk(EVENTS) + LAST,)], ids=["end apart", "end at once"]
)
async def test_a_response_that_is_complete_with_the_client_is_whole(
    pieces: tuple[bytes, ...], late: list[Whole], caplog: pytest.LogCaptureFixture
) -> None:
    async with whole(says(stream_head(), *pieces)) as rig:
        late.append(rig)
        assert (await rig.ask(STREAMED)).body == EVENTS
        assert (await rig.released()).outcome == "ok"
    assert not caplog.records


@pytest.mark.parametrize(
    ("told", "outcome"), [(EVENTS, "ok"), (token("a"), "idle_timeout")], ids=["done", "half"]
)
@pytest.mark.parametrize("apart", [True, False])
async def test_over_http2_it_is_ended_as_the_log_says(
    told: bytes, outcome: str, apart: bool, late: list[Whole], caplog: pytest.LogCaptureFixture
) -> None:
    """Hypercorn waits for the client behind the last byte, and may be cancelled there."""
    pieces = (chunk(told), LAST) if apart else (chunk(told) + LAST,)
    async with whole(says(stream_head(), *pieces)) as rig:
        late.append(rig)
        async with client(rig.port) as raw:
            events = await _h2_ask(raw)
        body = b"".join(e.data for e in events if isinstance(e, h2.events.DataReceived))
        released = await rig.released()
        if apart:
            assert body.startswith(told)
            assert isinstance(events[-1], h2.events.StreamReset)
            assert released.outcome == outcome
            assert (b'"error"' in body) == (outcome == "idle_timeout")
        else:
            assert isinstance(events[-1], h2.events.StreamReset)
            assert released.outcome == "idle_timeout"
    assert not caplog.records


async def test_a_replica_that_is_silent_behind_its_last_word_did_answer() -> None:
    script = says(stream_head(), chunk(token("a")), chunk(DONE), hang=True)
    async with whole(script, timeouts={"idle_ms": 100}) as rig:
        _, body = await rig.broken(STREAMED)
        assert body == EVENTS
        assert (await rig.released()).outcome == "ok"


async def _h2_ask(raw: RawClient) -> list[h2.events.Event]:
    _, _, body = request(STREAMED).partition(b"\r\n\r\n")
    connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    connection.initiate_connection()
    headers = {":method": "POST", ":path": CHAT, ":scheme": "http", ":authority": "t"}
    headers["content-type"] = "application/json"
    connection.send_headers(1, list(headers.items()))
    connection.send_data(1, body, end_stream=True)
    await raw.send(connection.data_to_send())
    events: list[h2.events.Event] = []
    while not any(isinstance(e, h2.events.StreamEnded | h2.events.StreamReset) for e in events):
        assert await raw.fill(), "the connection closed"
        events += connection.receive_data(raw.buffer)
        raw.buffer = b""
        await raw.send(connection.data_to_send())
    return events
