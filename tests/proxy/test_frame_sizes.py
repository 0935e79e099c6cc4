"""What an HTTP/2 client can make the server keep before it has a request."""

import h2.errors
import h2.events
import pytest

from tests.proxy.serving import client, echo, serving
from tests.proxy.test_frames import FLOODS, PREFACE, SETTINGS, frame, h2_connection, last_word
from trioroute.proxy.serving.frames import FRAME_BYTES, FrameMeter

BLOCK_BYTES = 64 * 1024
Codes = h2.errors.ErrorCodes


def header(size: int, kind: int = 0, flags: int = 0) -> bytes:
    """Of a frame that says so; nothing of it follows."""
    return size.to_bytes(3, "big") + bytes((kind, flags)) + (1).to_bytes(4, "big")


def taken(meter: FrameMeter, data: bytes) -> int:
    return sum(map(len, meter.steps(data)))


@pytest.mark.parametrize("kind", [0, 1, 4, 6, 9, 0xBB])
def test_a_frame_that_says_it_is_too_large_ends_with_its_header(kind: int) -> None:
    meter = FrameMeter(0.0, BLOCK_BYTES)
    begun = PREFACE + header(FRAME_BYTES) + bytes(FRAME_BYTES)
    assert taken(meter, begun) == len(begun)
    assert meter.error == 0
    assert taken(meter, header(FRAME_BYTES + 1, kind)[:8]) == 8
    assert meter.error == 0
    assert taken(meter, header(FRAME_BYTES + 1, kind)[8:] + bytes(1000)) == 1
    assert meter.error == Codes.FRAME_SIZE_ERROR


def test_headers_that_go_on_past_their_limit_are_ended() -> None:
    meter = FrameMeter(0.0, BLOCK_BYTES)
    block = header(FRAME_BYTES, 1) + bytes(FRAME_BYTES)
    more = header(FRAME_BYTES, 9) + bytes(FRAME_BYTES)
    taken(meter, PREFACE)
    for _ in range(3):
        taken(meter, block + more * 3)
        assert meter.error == 0
    assert taken(meter, header(1, 9) + b"x") == 9
    assert meter.error == Codes.ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (header(0xFFFFFF) + b"x", Codes.FRAME_SIZE_ERROR),
        (header(FRAME_BYTES + 1, 6), Codes.FRAME_SIZE_ERROR),
        (
            frame(1, bytes(FRAME_BYTES), 1) + frame(9, bytes(FRAME_BYTES), 1) * 3 + header(1, 9),
            Codes.ENHANCE_YOUR_CALM,
        ),
    ],
    ids=["16 MiB", "a byte too many", "headers without end"],
)
async def test_who_begins_what_is_never_taken_is_sent_away_at_once(sent: bytes, code: int) -> None:
    async with serving(echo) as server, client(server.port) as c:
        connection = h2_connection()
        await c.send(connection.data_to_send() + FLOODS["PING"] + sent)
        assert await last_word(c, connection) == code
        assert server.refusals == ["invalid_request"]


async def test_the_limit_is_the_one_that_was_told() -> None:
    async with serving(echo) as server, client(server.port) as c:
        connection = h2_connection()
        await c.send(PREFACE + SETTINGS)
        while b"\x00\x05\x00\x00" not in c.buffer:
            assert await c.fill()
        connection.receive_data(c.buffer)
        assert connection.max_outbound_frame_size == FRAME_BYTES
