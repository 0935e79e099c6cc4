"""Content codings of request bodies (RFC 9110 8.4), read into a copy that stays under a limit."""

import io
import zlib
from collections.abc import Callable
from functools import partial

import brotli
import zstandard


class Damaged(Exception):
    """The bytes are not what their coding says."""


class TooLong(Exception):
    """The copy would grow over the limit: a bomb, or a prompt beyond ``server.max_body_bytes``."""


Inflate = Callable[[bytes, int], bytes]

EARLY = "it ends too early"
SLICE_BYTES = 16 * 1024
MEMBERS_MAX = 100
"""gzip and pigz make one. An empty one takes 20 bytes and 3 µs, so a body could hold millions."""


def _zlib(body: bytes, limit: int, window: int) -> bytes:
    """Several gzip members may follow each other (RFC 1952 2.2), MEMBERS_MAX at most.

    Read in slices: at each end zlib copies what is left of what it was given.
    """
    given = memoryview(body)
    plain: list[bytes] = []
    size = at = 0
    for _ in range(MEMBERS_MAX):
        inflate = zlib.decompressobj(window)
        while not inflate.eof:
            piece = given[at : at + SLICE_BYTES]
            if not piece:
                raise Damaged(EARLY)
            try:
                more = inflate.decompress(piece, limit + 1 - size)
            except zlib.error as error:
                raise Damaged(str(error)) from error
            at += len(piece) - len(inflate.unused_data)
            size += len(more)
            if size > limit:
                raise TooLong
            plain.append(more)
        if at == len(given):
            return b"".join(plain)
    raise Damaged(f"it has more than {MEMBERS_MAX} members")


def _brotli(body: bytes, limit: int) -> bytes:
    inflate = brotli.Decompressor()
    plain = b""
    try:
        while not inflate.is_finished():
            more = inflate.process(body, output_buffer_limit=limit + 1 - len(plain))
            body = b""
            plain += more
            _check(plain, limit)
            if not more and not inflate.is_finished():
                raise Damaged(EARLY)
    except brotli.error as error:
        raise Damaged(str(error)) from error
    return plain


def _zstd(body: bytes, limit: int) -> bytes:
    """A window beyond 8 MiB is refused (RFC 9659): it is memory before it is a byte of text."""
    inflate = zstandard.ZstdDecompressor(max_window_size=8 << 20)
    try:
        with inflate.stream_reader(io.BytesIO(body), read_across_frames=True) as reader:
            plain = reader.read(limit + 1)
    except zstandard.ZstdError as error:
        raise Damaged(str(error)) from error
    _check(plain, limit)
    if not plain:
        raise Damaged(EARLY)
    return plain


def _check(plain: bytes, limit: int) -> None:
    if len(plain) > limit:
        raise TooLong


INFLATE: dict[bytes, Inflate] = {
    b"gzip": partial(_zlib, window=31),
    b"x-gzip": partial(_zlib, window=31),
    b"deflate": partial(_zlib, window=15),
    b"br": _brotli,
    b"zstd": _zstd,
}
"""By the names of content-encoding. zlib's window bits: 31 reads a gzip header, 15 a zlib one."""
