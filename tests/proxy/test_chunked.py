"""Chunked bodies in many small pieces: read in steps that are short, bounded, and not too many."""

import pytest
import trio

from tests.proxy.serving import client, echo, serving
from trioroute.proxy.serving.chunked import FRAMING_BYTES, STEP_LINES, ChunkedBody
from trioroute.proxy.serving.refusal import Refusal
from trioroute.proxy.serving.wire import CALLS_PER_CHECKPOINT

LIMIT = 1 << 20
ONE = b"1\r\nx\r\n"
MOST_ONES = FRAMING_BYTES // 4
"""Chunks of one byte that are surely let through."""
HEAD = b"POST / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n"


def fed(data: bytes, piece: int = 65536) -> tuple[ChunkedBody, int]:
    """The body after all of the data, and the steps that it took."""
    chunks = ChunkedBody(LIMIT)
    steps = 0
    for at in range(0, len(data), piece):
        chunks.feed(data[at : at + piece])
        steps += 1
        while chunks.crowded:
            chunks.feed(b"")
            steps += 1
    return chunks, steps


def test_a_step_takes_few_chunks_however_many_came() -> None:
    chunks = ChunkedBody(LIMIT)
    chunks.feed(ONE * 10_000)
    taken = [10_000 - len(chunks.rest()) // len(ONE)]
    while chunks.crowded:
        chunks.feed(b"")
        taken.append(10_000 - len(chunks.rest()) // len(ONE) - sum(taken))
    assert max(taken) == STEP_LINES
    assert sum(taken) == 10_000


@pytest.mark.parametrize("piece", [1, 7, 8192, 65536])
def test_small_chunks_make_the_same_body_however_they_come(piece: int) -> None:
    body = bytes(range(256)) * 40
    data = b"".join(b"2\r\n%b\r\n" % body[at : at + 2] for at in range(0, len(body), 2))
    chunks, _ = fed(data + b"0\r\nx-t: 1\r\n\r\nrest", piece)
    assert chunks.done
    assert chunks.body() == body
    assert b"rest".startswith(chunks.rest())


def test_large_chunks_take_one_step_a_receive() -> None:
    data = (b"4000\r\n" + b"x" * 0x4000 + b"\r\n") * 60
    _, steps = fed(data)
    assert steps == -(-len(data) // 65536)


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("a byte in each chunk", ONE * (3 * MOST_ONES)),
        ("extensions", (b"1;" + b"e" * 1000 + b"\r\nx\r\n") * 80),
    ],
)
def test_more_framing_than_body_is_refused(what: str, data: bytes) -> None:
    with pytest.raises(Refusal, match="too many chunks of a few bytes") as refused:
        fed(data)
    assert refused.value.status == 400, what


def test_framing_as_long_as_the_body_is_let_through() -> None:
    chunks, _ = fed(b"5\r\nhello\r\n" * (LIMIT // 5) + b"0\r\n\r\n")
    assert chunks.done
    chunks, _ = fed(ONE * MOST_ONES + b"0\r\n\r\n")
    assert chunks.body() == b"x" * MOST_ONES


class Turns(trio.abc.Instrument):
    """Counts the turns of the event loop."""

    count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


@pytest.mark.usefixtures("either_way")
async def test_others_run_between_the_steps_of_a_body(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    lines_by_turn: dict[int, int] = {}
    line = ChunkedBody._line

    def counting(self: ChunkedBody, position: int) -> int:
        lines_by_turn[turns.count] = lines_by_turn.get(turns.count, 0) + 1
        return line(self, position)

    monkeypatch.setattr(ChunkedBody, "_line", counting)
    trio.lowlevel.add_instrument(turns)
    async with serving(echo) as server, client(server.port) as c:
        await c.send(HEAD + ONE * 12_000 + b"0\r\n\r\n")
        assert (await c.reply()).body == b"x" * 12_000
    trio.lowlevel.remove_instrument(turns)
    assert sum(lines_by_turn.values()) >= 12_000
    # Receives that bring less than a step are followed by the next one, a few times.
    assert max(lines_by_turn.values()) <= CALLS_PER_CHECKPOINT // 2 * STEP_LINES


@pytest.mark.usefixtures("either_way")
async def test_a_client_of_many_small_chunks_is_told_why() -> None:
    async with serving(echo) as server, client(server.port) as c:
        await c.send(HEAD + ONE * 30_000)
        reply = await c.reply()
        assert reply.status == 400
        assert b"too many chunks" in reply.body
        assert server.refusals == ["invalid_request"]
