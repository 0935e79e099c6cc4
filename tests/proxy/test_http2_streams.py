"""HTTP/2: what is wrong with one request ends that one, and none of its neighbours."""

from collections.abc import Sequence

import h2.errors
import pytest
from hpack import Encoder
from hyperframe.frame import DataFrame, HeadersFrame

from tests.proxy.asker import Asker, asking
from tests.proxy.serving import Recorder, Serving, echo, eventually, serving
from tests.proxy.test_http2 import Shelf

MOST = 100
"""Requests at once, hypercorn's own setting."""
FINE = {":method": "POST", ":path": "/", ":scheme": "http", ":authority": "t"}
Heads = Sequence[tuple[bytes, bytes]]


def head(extra: Heads = (), **pseudo: bytes) -> Heads:
    said = {name.encode(): value.encode() for name, value in FINE.items()}
    said.update({b":" + name.encode(): value for name, value in pseudo.items()})
    return [*said.items(), *extra]


async def say(asker: Asker, fields: Heads, body: bytes | None = None, depends_on: int = 0) -> int:
    """A request in frames that h2 would not send; its heads are in terms of those before."""
    stream = asker.next
    encoder, asker.h2.encoder = asker.h2.encoder, Encoder()
    asker.h2.send_headers(stream, list(FINE.items()))  # as if it were fine: h2 waits for an answer
    asker.h2.clear_outbound_data_buffer()
    asker.h2.encoder = encoder
    asker.next += 2
    begins = HeadersFrame(stream, data=asker.h2.encoder.encode(fields), flags=["END_HEADERS"])
    if depends_on:
        begins.flags.add("PRIORITY")
        begins.depends_on, begins.stream_weight = depends_on, 3
    if body is None:
        begins.flags.add("END_STREAM")
    data = begins.serialize()
    if body is not None:
        data += DataFrame(stream, data=body, flags=["END_STREAM"]).serialize()
    await asker.raw.send(data)
    return stream


async def broken(asker: Asker, stream: int) -> None:
    await asker.read(lambda: stream in asker.broken)


async def test_the_request_over_the_limit_is_refused_and_the_others_are_served() -> None:
    """RFC 9113 section 5.1.2: it may be sent again."""
    shelf = Shelf()
    shelf.hold()
    async with serving(shelf) as server, asking(server) as asker:
        streams = [await asker.ask(f"/{number}") for number in range(MOST)]
        late = await asker.ask("/late")
        await asker.read(lambda: late in asker.broken)
        await shelf.reaches(MOST)
        shelf.let_go()
        await asker.read_whole(*streams)
        await asker.read_whole(await asker.ask("/behind"))
        assert asker.broken == {late: h2.errors.ErrorCodes.REFUSED_STREAM}
        assert shelf.begun == MOST + 1


MALFORMED: dict[str, tuple[Heads, bytes | None]] = {
    "upper case": (head([(b"X-Upper", b"1")]), None),
    "connection": (head([(b"connection", b"close")]), b"x"),
    "no number": (head([(b"content-length", b"abc")]), b"x"),
    "too little": (head([(b"content-length", b"9")]), b"x"),
    "too much": (head([(b"content-length", b"3")]), b"x" * 16_000),
    "no path": ([pair for pair in head() if pair[0] != b":path"], None),
}


@pytest.mark.parametrize("what", MALFORMED)
async def test_a_malformed_request_is_reset_alone(what: str) -> None:
    """RFC 9113 section 8.1.1. Its head is in the table that those behind it refer to."""
    app = Recorder()
    fields, body = MALFORMED[what]
    async with serving(app) as server, asking(server) as asker:
        for _ in range(3):
            bad = await say(asker, [*fields, (b"x-new", what.encode())], body)
            await broken(asker, bad)
            assert asker.broken[bad] == h2.errors.ErrorCodes.PROTOCOL_ERROR
        kept = await say(asker, head([(b"x-new", what.encode())]), b"kept")
        await asker.read_whole(kept)
        assert asker.bodies[kept] == b"kept"
        assert (b"x-new", what.encode()) in app.scopes[-1]["headers"]
        assert server.refusals == ["invalid_request"] * 3


async def test_a_body_that_is_no_good_gives_its_window_back() -> None:
    """That of the connection, 64 KiB for all its requests."""
    async with serving(echo) as server, asking(server) as asker:
        for _ in range(6):
            bad = await say(asker, head([(b"content-length", b"3")]), b"x" * 16_000)
            await broken(asker, bad)
        kept = await asker.ask("/kept", b"x" * 16_000)
        await asker.read_whole(kept)


async def test_a_request_that_depends_on_itself_is_reset_alone() -> None:
    async with serving(echo) as server, asking(server) as asker:
        bad = await say(asker, head(), b"x", depends_on=asker.next)
        await broken(asker, bad)
        await asker.read_whole(await asker.ask("/kept"))


UNREADABLE: dict[str, Heads] = {
    "path": head(path=b"/v1/mod\xff"),
    "method": head(method="É".encode()),
    "connect": [(b":method", b"CONNECT"), (b":authority", b"a:1")],
}


async def three_run(server: Serving, shelf: Shelf, asker: Asker) -> list[int]:
    shelf.hold()
    streams = [await asker.ask(f"/{number}") for number in range(3)]
    await shelf.reaches(3)
    return streams


@pytest.mark.parametrize("what", UNREADABLE)
async def test_a_head_that_cannot_be_read_is_answered_and_harms_no_neighbour(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = Shelf()
    async with serving(shelf) as server, asking(server) as asker:
        streams = await three_run(server, shelf, asker)
        for body in (None, b"x" * 16_000):
            bad = await say(asker, UNREADABLE[what], body)
            await asker.read_whole(bad)
            assert asker.heads[bad][":status"] == "400"
            assert b"invalid_request" in asker.bodies[bad]
        shelf.let_go()
        await asker.read_whole(*streams)
        assert server.refusals == ["invalid_request"] * 2
        assert not [gone for _, gone in shelf.ends if gone]
    assert not caplog.records


async def test_a_refusal_that_finds_no_window_resets_its_request() -> None:
    async with serving(echo) as server, asking(server, window=10) as asker:
        bad = await say(asker, UNREADABLE["path"])
        await broken(asker, bad)
        assert asker.broken[bad] == h2.errors.ErrorCodes.PROTOCOL_ERROR
        await asker.read_whole(await asker.ask("/kept"))


async def test_what_the_server_library_falls_over_ends_one_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def falls(self: object, event: object) -> None:
        raise UnboundLocalError("raw_path")

    shelf = Shelf()
    async with serving(shelf) as server, asking(server) as asker:
        streams = await three_run(server, shelf, asker)
        with monkeypatch.context() as patch:
            patch.setattr("hypercorn.protocol.http_stream.HTTPStream.handle", falls)
            lost = await asker.ask("/lost")
            await asker.read(lambda: lost in asker.broken)
        shelf.let_go()
        await asker.read_whole(*streams)
        assert asker.broken == {lost: h2.errors.ErrorCodes.INTERNAL_ERROR}
    assert "Traceback" not in caplog.text


async def test_a_connection_error_leaves_its_requests_without_a_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What ends the connection is the client's doing, to all that ran."""
    shelf = Shelf()
    async with serving(shelf) as server, asking(server) as asker:
        await three_run(server, shelf, asker)
        await asker.raw.send(HeadersFrame(99, data=b"\xff" * 9, flags=["END_HEADERS"]).serialize())
        await eventually(lambda: len(shelf.ends) == 3)
        await asker.read(lambda: False)
        assert asker.h2.farewells == [(5, h2.errors.ErrorCodes.PROTOCOL_ERROR)]
    assert all(gone for _, gone in shelf.ends)
    assert not caplog.records
