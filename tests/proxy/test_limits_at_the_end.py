"""A limit of time that strikes when the answer, or its last word, is there already."""

import gzip

import h2.config
import h2.connection
import h2.events
import pytest

from tests.proxy.replies import DONE, LAST, chunk, error, says, stream_head, token
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
            ended = h2.events.StreamEnded if outcome == "ok" else h2.events.StreamReset
            assert isinstance(events[-1], ended)
            assert released.outcome == outcome
            assert (b'"error"' in body) == (outcome == "idle_timeout")
        else:
            assert isinstance(events[-1], h2.events.StreamReset)
            assert released.outcome == "idle_timeout"
    assert not caplog.records


OWING = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % (
    len(EVENTS) + 9
)
LAST_WORDS = {
    "done": DONE,
    "messages": b'event: message_stop\ndata: {"type": "message_stop"}\n\n',
    "responses": b'data: {"type": "response.completed", "response": {"output": []}}\n\n',
}


@pytest.mark.parametrize("word", LAST_WORDS.values(), ids=LAST_WORDS)
@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
@pytest.mark.parametrize("limit", ["idle_ms", "total_ms"])
async def test_a_replica_that_is_silent_behind_its_last_word_did_answer(
    word: bytes, http2: bool, limit: str
) -> None:
    """The client is told a clean end: it has all there is."""
    script = says(stream_head(), chunk(token("a")), chunk(word), hang=True)
    async with whole(script, timeouts={limit: 150}) as rig:
        if http2:
            async with client(rig.port) as raw:
                events = await _h2_ask(raw)
            assert isinstance(events[-1], h2.events.StreamEnded)
            body = b"".join(e.data for e in events if isinstance(e, h2.events.DataReceived))
        else:
            body = (await rig.ask(STREAMED)).body
        assert body == token("a") + word
        assert (await rig.released()).outcome == "ok"


@pytest.mark.parametrize(
    ("head", "body", "outcome"),
    [
        (stream_head(), chunk(token("a", "[DONE]")), "idle_timeout"),
        (stream_head(), chunk(error(500)), "upstream_error"),
        (OWING, EVENTS, "ok"),
        (stream_head("content-encoding: gzip"), chunk(gzip.compress(DONE)), "idle_timeout"),
    ],
    ids=["quoted", "error", "bytes are owed", "unreadable"],
)
async def test_a_replica_that_is_silent_elsewhere_is_told_as_a_cut(
    head: bytes, body: bytes, outcome: str
) -> None:
    async with whole(says(head, body, hang=True), timeouts={"idle_ms": 100}) as rig:
        await rig.broken(STREAMED)
        assert (await rig.released()).outcome == outcome


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
