"""Inflating takes time by what is sent and by what comes out, never by their square."""

import gzip
import struct
import zlib

import pytest
import zstandard

from tests.proxy.work import assert_linear
from trioroute.proxy.inflate import INFLATE, MEMBERS_MAX, SLICE_BYTES, Damaged, TooLong

LIMIT = 64 << 20
EMPTY_MEMBER = gzip.compress(b"", mtime=0)
"""Without the time: names of tests are made of it, and must be the same in every process."""
EMPTY_BLOCK = b"\0\0\0\xff\xff"
EMPTY_FRAME = zstandard.ZstdCompressor().compress(b"")
SKIPPED_FRAME = struct.pack("<II", 0x184D2A50, 0)


@pytest.mark.parametrize(
    ("coding", "head", "piece"),
    [
        (b"gzip", b"", EMPTY_MEMBER),
        (b"gzip", b"", gzip.compress(b"x" * 5000, mtime=0)),
        (b"gzip", EMPTY_MEMBER[:10], EMPTY_BLOCK),
        (b"deflate", b"\x78\x9c", EMPTY_BLOCK),
        (b"deflate", b"", zlib.compress(b"")),
        (b"zstd", b"", EMPTY_FRAME),
        (b"zstd", b"", zstandard.ZstdCompressor().compress(b"x")),
        (b"zstd", b"", SKIPPED_FRAME),
        (b"br", b"", b"\x06"),
    ],
)
def test_many_small_pieces_take_no_more_than_their_bytes(
    coding: bytes, head: bytes, piece: bytes
) -> None:
    def read(size: int) -> None:
        try:
            INFLATE[coding](head + piece * (size // len(piece)), LIMIT)
        except Damaged:
            return

    assert_linear(read, 250_000)


def test_of_a_body_of_many_members_little_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    touched: list[int] = []
    of_zlib = zlib.decompressobj

    class Counted:
        def __init__(self, window: int) -> None:
            self._inner = of_zlib(window)

        def decompress(self, data: memoryview, limit: int) -> bytes:
            touched.append(len(data))
            return self._inner.decompress(data, limit)

        @property
        def eof(self) -> bool:
            return self._inner.eof

        @property
        def unused_data(self) -> bytes:
            return self._inner.unused_data

    monkeypatch.setattr(zlib, "decompressobj", Counted)
    with pytest.raises(Damaged, match=f"more than {MEMBERS_MAX} members"):
        INFLATE[b"gzip"](EMPTY_MEMBER * 50_000, LIMIT)
    assert sum(touched) <= MEMBERS_MAX * SLICE_BYTES


def test_members_up_to_the_bound_are_read_wherever_the_slices_end() -> None:
    texts = [bytes([65 + n % 26]) * (n * 37 % 5000) for n in range(MEMBERS_MAX)]
    body = b"".join(gzip.compress(text, 1 if n % 2 else 0) for n, text in enumerate(texts))
    assert len(body) > 3 * SLICE_BYTES
    whole = b"".join(texts)
    assert INFLATE[b"gzip"](body, len(whole)) == whole
    with pytest.raises(TooLong):
        INFLATE[b"gzip"](body, len(whole) - 1)
    with pytest.raises(Damaged, match="too early"):
        INFLATE[b"gzip"](body[:-1], LIMIT)
    with pytest.raises(Damaged, match="members"):
        INFLATE[b"gzip"](body + EMPTY_MEMBER, LIMIT)


def test_a_member_may_end_where_a_slice_ends() -> None:
    filler = gzip.compress(b"x" * (SLICE_BYTES - 23), 0)
    assert len(filler) == SLICE_BYTES
    assert INFLATE[b"gzip"](filler * 2, LIMIT) == b"x" * 2 * (SLICE_BYTES - 23)
