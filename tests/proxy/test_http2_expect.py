"""HTTP/2: bodies that are answered for before they come, by 100 or by their refusal."""

from collections.abc import Sequence

import h2.errors
import h2.events
import httpx
import pytest

from tests.proxy.asker import Asker, asking
from tests.proxy.serving import PATIENCE_S, Recorder, echo, serving
from tests.proxy.test_http2 import Shelf
from tests.proxy.test_http2_streams import MOST
from trioroute.proxy.serving.hub import Headers
from trioroute.proxy.serving.limits import ServerLimits
from trioroute.proxy.serving.refusal import Refusal

LIMITS = ServerLimits(body_bytes=1000)
NO_ERROR = h2.errors.ErrorCodes.NO_ERROR
EXPECT = (b"expect", b"100-Continue")
Heads = Sequence[tuple[bytes, bytes]]


def length(size: int) -> tuple[bytes, bytes]:
    return (b"content-length", b"%d" % size)


async def begin(asker: Asker, *extra: tuple[bytes, bytes], path: bytes = b"/") -> int:
    """The head of a POST; its body may follow."""
    stream = asker.next
    asker.next += 2
    head = [(b":method", b"POST"), (b":path", path), (b":scheme", b"http"), (b":authority", b"t")]
    asker.h2.send_headers(stream, [*head, *extra])
    await asker.raw.send(asker.h2.data_to_send())
    return stream


async def all_broken(asker: Asker, streams: list[int]) -> None:
    await asker.read(lambda: asker.broken.keys() >= set(streams))


async def told_to_go_on(asker: Asker) -> list[int]:
    """Reads until it is."""
    told: list[int] = []
    while not told:
        assert await asker.raw.fill()
        data, asker.raw.buffer = asker.raw.buffer, b""
        for event in asker.h2.receive_data(data):
            if isinstance(event, h2.events.InformationalResponseReceived):
                assert [str(value) for _, value in event.headers] == ["100"]
                told.append(event.stream_id)
    return told


@pytest.mark.parametrize("extra", [(), (length(5),)], ids=["no length", "length"])
async def test_who_waits_for_a_word_is_told_to_go_on(extra: Heads) -> None:
    app = Recorder()
    async with serving(app, LIMITS) as server, asking(server) as asker:
        stream = await begin(asker, EXPECT, *extra)
        assert await told_to_go_on(asker) == [stream]
        await asker.go_on(stream, b"12345", more=False)
        await asker.read_whole(stream)
        assert asker.heads[stream][":status"] == "200"
        assert asker.bodies[stream] == b"12345"
        assert not asker.broken


async def test_who_waits_for_no_word_hears_none() -> None:
    """Nor who has no body: a 100 is for who sends one then."""
    heard: list[h2.events.Event] = []
    async with serving(echo) as server, asking(server) as asker:
        head = [
            (b":method", b"GET"),
            (b":path", b"/"),
            (b":scheme", b"http"),
            (b":authority", b"t"),
        ]
        asker.h2.send_headers(1, [*head, EXPECT], end_stream=True)
        asker.h2.send_headers(3, [*head, (b"expect", b"other")])
        asker.h2.send_data(3, b"x", end_stream=True)
        await asker.raw.send(asker.h2.data_to_send())
        while len(asker.whole) < 2:
            assert await asker.raw.fill()
            data, asker.raw.buffer = asker.raw.buffer, b""
            for event in asker.h2.receive_data(data):
                heard += [event] * isinstance(event, h2.events.InformationalResponseReceived)
                asker._take(event)
    assert not heard
    assert not asker.broken


def closed(path: bytes, headers: Headers) -> Refusal | None:
    return Refusal(401, "invalid_api_key", "no key") if path == b"/closed" else None


REFUSED: dict[str, tuple[Heads, bytes, str]] = {
    "too long": ((length(1001),), b"/", "413"),
    "the door": ((length(9),), b"/closed", "401"),
    "malformed": ((length(9), (b"x", b"\x01")), b"/", "400"),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_who_waits_for_a_word_and_is_refused_is_told_to_send_nothing(what: str) -> None:
    """RST_STREAM, NO_ERROR, behind the whole answer (RFC 9113 section 8.1): the stream of a body
    that does not come would have no end, and its place be taken."""
    extra, path, status = REFUSED[what]
    shelf = Shelf()
    async with serving(shelf, LIMITS, door=closed) as server, asking(server) as asker:
        for _ in range(2):  # as many as may run at once
            asked = [await begin(asker, EXPECT, *extra, path=path) for _ in range(MOST)]
            await asker.read_whole(*asked)
            await all_broken(asker, asked)
            assert {asker.heads[stream][":status"] for stream in asked} == {status}
        assert set(asker.broken.values()) == {NO_ERROR}
        assert shelf.begun == 0
        await asker.read_whole(await asker.ask("/kept"))


async def test_a_length_over_the_limit_is_refused_before_the_body() -> None:
    """And what is sent all the same is taken, for a client that reads no answer before."""
    app = Recorder()
    async with serving(app, LIMITS) as server, asking(server) as asker:
        stream = await begin(asker, length(16_000))
        await asker.read_whole(stream)
        assert asker.heads[stream][":status"] == "413"
        assert b"16000 bytes" in asker.bodies[stream]
        await asker.go_on(stream, b"x" * 16_000, more=False)
        await asker.read_whole(await asker.ask("/kept"))
        assert not asker.broken
        assert server.refusals == ["body_too_large"]
        assert len(app.scopes) == 1


@pytest.mark.parametrize("size", [2_000, 50_000, 1_000_000])
async def test_a_client_library_reads_the_refusal_of_what_it_sends(size: int) -> None:
    """It would raise over a reset while it sends."""
    async with serving(echo, LIMITS) as server:
        http = httpx.AsyncClient(http1=False, http2=True, base_url=server.url, timeout=PATIENCE_S)
        async with http:
            for _ in range(3):
                answer = await http.post("/", content=b"x" * size)
                assert answer.status_code == 413
