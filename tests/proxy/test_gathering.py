"""Bodies in pieces are whole at the end, and in memory once."""

import random
import tracemalloc

import pytest

from trioroute.proxy.serving.gathering import ROOM_BYTES, Gathered

SIZES = (0, 1, 1000, ROOM_BYTES - 1, ROOM_BYTES, ROOM_BYTES + 1, 3 * ROOM_BYTES, 20 * ROOM_BYTES)


@pytest.mark.parametrize("size", SIZES)
def test_what_came_in_pieces_is_whole(size: int) -> None:
    chance = random.Random(size)
    body = chance.randbytes(size)
    for told in (0, size, 5, size + 7):
        gathered = Gathered(told)
        at = 0
        while at < size:
            to = min(size, at + chance.choice((1, 100, 65536, 262144, ROOM_BYTES)))
            gathered.add(memoryview(body)[at:to])
            at = to
            assert gathered.size == at
        assert gathered.whole() == body


@pytest.mark.parametrize("told", [0, 40 * ROOM_BYTES])
def test_it_is_handed_over_without_a_copy(told: int) -> None:
    piece = bytes(256 * 1024)
    tracemalloc.start()
    try:
        gathered = Gathered(told)
        for _ in range(160):
            gathered.add(piece)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        whole = gathered.whole()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(whole) == 40 * ROOM_BYTES
    assert peak - held < ROOM_BYTES


def test_a_length_that_is_only_told_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        gathered = Gathered(1 << 40)
        gathered.add(bytes(1000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert gathered.whole() == bytes(1000)
    assert peak < 100_000


def test_where_the_kernel_promises_nothing_it_grows_bit_by_bit() -> None:
    gathered = Gathered(1 << 62)
    body = bytes(range(256)) * 20_000
    for at in range(0, len(body), 100_000):
        gathered.add(body[at : at + 100_000])
    assert gathered.whole() == body
