"""In which rows of a log a word is: files beside it that spare a search of every row.

They are disposable, like snapshots: a range of rows that no usable piece covers is searched. A
piece is a sorted table of hashes, so what it names are candidates: look at the rows.
"""

import json
import os
import re
import struct
import zlib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import attrs

from eventlog.record import Head
from eventlog.snapshots import BadSnapshot, check_belongs
from eventlog.store import LogReader
from eventlog.whole_file import left_drafts, write_whole

DIRECTORY = "index"
FORMAT = 1
BLOCK = 4096
"""Words a block: what is read, and checked, to find one."""

_NAME = re.compile(r"rows-([0-9]+)-([0-9]+)\.index\Z")
_DIGEST_BYTES = 16
_ENTRY_BYTES = 12
_fence = struct.Struct("<QI")

Mark = int
"""A word's hash and the row's place behind the first of its piece, as one number that sorts."""


Block = tuple[Sequence[int], Sequence[int]]
"""Hashes in order, and the place of each."""


class BadPiece(ValueError):
    """A file of the index that is not what was written, or not for this log."""


def mark(word: bytes, place: int) -> Mark:
    """``place`` counts rows from the first of the piece, from 0."""
    return _hash(word) << 32 | place


def _hash(word: bytes) -> int:
    return int.from_bytes(blake2b(word, digest_size=8).digest(), "big")


@attrs.frozen
class Piece:
    """The words of the rows ``first`` to ``last``."""

    first: int
    last: int
    path: Path


class WordIndex:
    """The pieces of a log directory, in ``LOG/index/rows-<first>-<last>.index``.

    A file is a line of JSON, a line with a digest of that line and the fences, the fences (of each
    block its first hash and its CRC), and the blocks: hashes in order, then the rows' places.
    ``words`` names which words of a row are in it; a piece of other words is not used.
    """

    def __init__(self, log: Path, words: str) -> None:
        self._directory = log / DIRECTORY
        self._words = words

    def pieces(self) -> list[Piece]:
        """All of them in order, of two that overlap the longer one; nothing is read."""
        try:
            names = os.listdir(self._directory)  # noqa: PTH208  # names only
        except OSError:
            return []
        found = [
            Piece(int(match[1]), int(match[2]), self._directory / name)
            for name in names
            if (match := _NAME.match(name))
        ]
        kept: list[Piece] = []
        for piece in sorted(found, key=lambda one: (one.first, -one.last)):
            if not kept or piece.first > kept[-1].last:
                kept.append(piece)
        return kept

    def write(self, first: int, last: Head, marks: Sequence[Mark], notes: Sequence[str]) -> Piece:
        """Keep the ``marks``, in any order, of the rows ``first`` to ``last``; ``notes`` are told
        with them. Raises OSError."""
        told = {
            "format": FORMAT,
            "words": self._words,
            "first": first,
            "last": last.seq,
            "chain": last.chain.hex(),
            "count": len(marks),
            "notes": list(notes),
        }
        head = json.dumps(told).encode() + b"\n"
        ordered = sorted(marks)
        blocks = [_block(ordered[n : n + BLOCK]) for n in range(0, len(ordered), BLOCK)]
        fences = b"".join(
            _fence.pack(ordered[n * BLOCK] >> 32, zlib.crc32(block))
            for n, block in enumerate(blocks)
        )
        path = self._directory / f"rows-{first}-{last.seq}.index"
        write_whole(path, b"".join((head, _digest(head + fences), b"\n", fences, *blocks)))
        return Piece(first, last.seq, path)

    def open(self, piece: Piece, reader: LogReader) -> "OpenPiece":
        """Raises BadPiece, and what the reader raises."""
        try:
            file = piece.path.open("rb")
        except OSError as exc:
            raise BadPiece(f"cannot be read: {exc}") from exc
        try:
            return self._opened(piece, reader, file)
        except (OSError, ValueError, TypeError, KeyError, RecursionError, struct.error) as exc:
            file.close()
            raise BadPiece(f"damaged: {exc}") from exc
        except BaseException:
            file.close()
            raise

    def _opened(self, piece: Piece, reader: LogReader, file: BinaryIO) -> "OpenPiece":
        head, digest = file.readline(), file.readline()
        told = json.loads(head)
        if (told["format"], told["words"]) != (FORMAT, self._words):
            raise BadPiece("it was made by a release that looks for other words")
        if (told["first"], told["last"]) != (piece.first, piece.last):
            raise BadPiece("its name is that of other rows")
        count = told["count"]
        blocks = -(-count // BLOCK)
        size = file.tell() + blocks * _fence.size + count * _ENTRY_BYTES
        if size != os.fstat(file.fileno()).st_size:  # before so much is read
            raise BadPiece("it is of another length")
        fences = file.read(blocks * _fence.size)
        if digest.strip() != _digest(head + fences):
            raise BadPiece("its digest is another one")
        try:
            check_belongs(reader, Head(told["last"], bytes.fromhex(told["chain"])))
        except BadSnapshot as exc:
            raise BadPiece(str(exc)) from exc
        table = list(_fence.iter_unpack(fences))
        return OpenPiece(
            piece,
            tuple(told["notes"]),
            file,
            count,
            [first for first, _ in table],
            [crc for _, crc in table],
            file.tell(),
        )

    def keep_only(self, pieces: Collection[Piece]) -> None:
        """Remove all others, and drafts that a crash left behind. Raises OSError."""
        kept = {piece.path for piece in pieces}
        there = [path for path in self._directory.glob("*.index") if _NAME.match(path.name)]
        for path in (*there, *left_drafts(self._directory)):
            if path not in kept:
                path.unlink(missing_ok=True)


@attrs.frozen
class OpenPiece:
    """One that is whole and of this log. ``notes`` are what was told with it."""

    piece: Piece
    notes: tuple[str, ...]
    _file: BinaryIO
    _count: int
    _firsts: list[int]
    _crcs: list[int]
    _begin: int

    def rows(self, words: Iterable[bytes]) -> list[int]:
        """The seqs of rows that have one of the words, and rarely of others, in order. Raises
        BadPiece."""
        found: set[int] = set()
        read: dict[int, Block] = {}
        for wanted in sorted({_hash(word) for word in words}):
            found.update(self._places(wanted, read))
        return [self.piece.first + place for place in sorted(found)]

    def _places(self, wanted: int, read: dict[int, Block]) -> Iterator[int]:
        """``read``: the block that was read last, which many words may be in."""
        block = max(0, bisect_left(self._firsts, wanted) - 1)
        while block < len(self._firsts) and self._firsts[block] <= wanted:
            if block not in read:
                read.clear()
                read[block] = self._read(block)
            hashes, places = read[block]
            at = bisect_left(hashes, wanted)
            while at < len(hashes) and hashes[at] == wanted:
                yield places[at]
                at += 1
            if at < len(hashes):
                return
            block += 1

    def _read(self, block: int) -> Block:
        size = min(BLOCK, self._count - block * BLOCK)
        try:
            self._file.seek(self._begin + block * BLOCK * _ENTRY_BYTES)
            data = self._file.read(size * _ENTRY_BYTES)
        except OSError as exc:
            raise BadPiece(f"cannot be read: {exc}") from exc
        if zlib.crc32(data) != self._crcs[block]:
            raise BadPiece(f"damaged: block {block} has another checksum")
        hashes = struct.unpack_from(f"<{size}Q", data)
        return hashes, struct.unpack_from(f"<{size}I", data, 8 * size)

    def close(self) -> None:
        """Let go of the file. May be called again."""
        self._file.close()


def _block(marks: Sequence[Mark]) -> bytes:
    hashes = struct.pack(f"<{len(marks)}Q", *[one >> 32 for one in marks])
    return hashes + struct.pack(f"<{len(marks)}I", *[one & 0xFFFFFFFF for one in marks])


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).hexdigest().encode()
