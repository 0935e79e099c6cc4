"""HTTP/2: frames that are a fault of one stream end that one, others the connection."""

from collections.abc import Callable

import h2.errors
import pytest
from hyperframe.frame import HeadersFrame

from tests.proxy.asker import Asker, Settings, asking
from tests.proxy.serving import echo, serving
from tests.proxy.test_frames import frame
from tests.proxy.test_http2 import Shelf
from tests.proxy.test_http2_streams import Heads, say

Codes = h2.errors.ErrorCodes
PRIORITY, WINDOW_UPDATE = 2, 8
NO_WINDOW, RESERVED_BIT = bytes(4), b"\x80\0\0\0"


def trailers(asker: Asker, stream: int, fields: Heads, *, end: bool = True) -> bytes:
    flags = ["END_HEADERS", "END_STREAM"] if end else ["END_HEADERS"]
    return HeadersFrame(stream, data=asker.h2.encoder.encode(fields), flags=flags).serialize()


def on_itself(stream: int) -> bytes:
    return frame(PRIORITY, stream.to_bytes(4, "big") + b"\x10", stream)


BAD_TRAILERS: dict[str, Heads] = {
    "pseudo-header": [(b":path", b"/other"), (b"x-new", b"1")],
    "status": [(b":status", b"100"), (b"x-new", b"1")],
    "upper case": [(b"X-Upper", b"1"), (b"x-new", b"1")],
    "connection": [(b"connection", b"close"), (b"x-new", b"1")],
    "no end": [(b"x-fine", b"1"), (b"x-new", b"1")],
}


@pytest.mark.parametrize("what", BAD_TRAILERS)
async def test_malformed_trailers_reset_their_request_alone(what: str) -> None:
    """RFC 9113 section 8.1. They are in the table that heads behind them refer to."""
    async with serving(echo) as server, asking(server) as asker:
        bad = await asker.ask("/bad", b"x", more=True)
        runs = await asker.ask("/runs", b"kept", more=True)
        await asker.raw.send(trailers(asker, bad, BAD_TRAILERS[what], end=what != "no end"))
        await asker.read(lambda: bad in asker.broken)
        await asker.go_on(runs, b"!", more=False)
        behind = await asker.ask("/behind", b"behind")
        await asker.read_whole(runs, behind)
        assert asker.broken == {bad: Codes.PROTOCOL_ERROR}
        assert (asker.bodies[runs], asker.bodies[behind]) == (b"kept!", b"behind")
        assert server.refusals == ["invalid_request"]


ONE_STREAM: dict[str, tuple[Callable[[int], bytes], int]] = {
    "no window": (lambda stream: frame(WINDOW_UPDATE, NO_WINDOW, stream), Codes.PROTOCOL_ERROR),
    "reserved": (lambda stream: frame(WINDOW_UPDATE, RESERVED_BIT, stream), Codes.PROTOCOL_ERROR),
    "on itself": (on_itself, Codes.PROTOCOL_ERROR),
    "short": (lambda stream: frame(PRIORITY, bytes(4), stream), Codes.FRAME_SIZE_ERROR),
    "long": (lambda stream: frame(PRIORITY, bytes(6), stream), Codes.FRAME_SIZE_ERROR),
}


@pytest.mark.parametrize("what", ONE_STREAM)
async def test_a_frame_that_is_its_streams_fault_resets_that_one(what: str) -> None:
    """RFC 9113 sections 6.3 and 6.9; RFC 7540 section 5.3.1 for what depends on itself."""
    make, code = ONE_STREAM[what]
    shelf = Shelf()
    shelf.hold()
    async with serving(shelf) as server, asking(server) as asker:
        bad, runs = await asker.ask("/bad"), await asker.ask("/runs")
        await shelf.reaches(2)
        await asker.raw.send(make(bad))
        await asker.read(lambda: bad in asker.broken)
        shelf.let_go()
        await asker.read_whole(runs, await asker.ask("/behind"))
        assert asker.broken == {bad: code}
        assert ("/bad", True) in shelf.ends


@pytest.mark.parametrize("what", ONE_STREAM)
async def test_the_same_for_a_stream_that_is_over_is_passed_over(what: str) -> None:
    make, _ = ONE_STREAM[what]
    async with serving(echo) as server, asking(server) as asker:
        over = await asker.ask("/over")
        await asker.read_whole(over)
        await asker.raw.send(make(over))
        await asker.read_whole(await asker.ask("/behind"))
        assert not asker.broken
        assert not asker.h2.farewells


async def test_a_priority_may_come_before_its_stream() -> None:
    """And would be reset too early."""
    async with serving(echo) as server, asking(server) as asker:
        await asker.raw.send(on_itself(7) + frame(PRIORITY, bytes(4), 9))
        await asker.read_whole(await asker.ask("/behind"))
        assert not asker.broken


async def test_the_first_bit_of_a_window_means_nothing() -> None:
    async with serving(echo) as server, asking(server, window=0) as asker:
        stream = await asker.ask("/", b"12345")
        asker.h2.increment_flow_control_window(5, stream)
        asker.h2.clear_outbound_data_buffer()
        await asker.raw.send(frame(WINDOW_UPDATE, b"\x80\0\0\x05", stream))
        await asker.read_whole(stream)
        assert asker.bodies[stream] == b"12345"


WHOLE_CONNECTION = {
    "no window for all": (frame(WINDOW_UPDATE, NO_WINDOW, 0), Codes.PROTOCOL_ERROR),
    "no window before it begins": (frame(WINDOW_UPDATE, NO_WINDOW, 99), Codes.PROTOCOL_ERROR),
    "a window of five bytes": (frame(WINDOW_UPDATE, bytes(5), 1), Codes.FRAME_SIZE_ERROR),
    "unreadable trailers": (frame(1, b"\xff" * 9, 1, 5), Codes.PROTOCOL_ERROR),
    "a PING for a stream": (frame(6, bytes(8), 1), Codes.PROTOCOL_ERROR),
    "a PRIORITY for none": (frame(PRIORITY, bytes(5), 0), Codes.PROTOCOL_ERROR),
    "inside a head": (
        HeadersFrame(5, data=b"\x82").serialize() + frame(WINDOW_UPDATE, NO_WINDOW, 1),
        Codes.PROTOCOL_ERROR,
    ),
}


@pytest.mark.parametrize("what", WHOLE_CONNECTION)
async def test_what_is_the_fault_of_the_connection_ends_it(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    sent, code = WHOLE_CONNECTION[what]
    async with serving(echo) as server, asking(server) as asker:
        await asker.ask("/", b"x", more=True)
        await asker.raw.send(sent)
        await asker.read(lambda: False)
        assert [said for _, said in asker.h2.farewells] == [code]
    assert not caplog.records


async def test_no_extended_connect_is_offered_and_one_is_told_so() -> None:
    """RFC 8441 section 3: a browser that reads the offer opens its websockets by it."""
    shelf = Shelf()
    async with serving(shelf) as server, asking(server) as asker:
        for protocol in (b"websocket", b"connect-udp"):
            head = [(b":method", b"CONNECT"), (b":protocol", protocol), (b":scheme", b"http")]
            stream = await say(asker, [*head, (b":path", b"/"), (b":authority", b"t")], b"x")
            await asker.read_whole(stream)
            assert asker.heads[stream][":status"] == "501"
        assert not asker.h2.remote_settings.get(Settings.ENABLE_CONNECT_PROTOCOL)
        assert server.refusals == ["no_websocket"] * 2
        await asker.read_whole(await asker.ask("/behind"))
    assert shelf.begun == 1
