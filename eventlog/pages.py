"""Where a segment is damaged, by its bytes: what SQLite only calls malformed.

Reads the file format itself (sqlite.org/fileformat2.html, sections 1.3 and 1.6): the header, and
the tree of pages that leads to the rows. It is asked only after SQLite could not read rows of a
file without a write-ahead log, which has newer versions of pages.
"""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import attrs

from eventlog.schema import APPLICATION_ID, PAGE_BYTES, PAGE_SIZES

INNER, LEAF = 5, 13
LAST_ROW = (1 << 63) - 1
_HEADER_BYTES = 100
_OF_A_TREE = frozenset({2, 5, 10, 13})
"""With what pages of tables and indexes begin."""

_LOOKED_AT = 1000
"""How many pages are enough to tell their size."""

_FIRST_OF_ROWS = 4
"""Pages 1 to 3 hold the schema and which migrations made it."""

_CONSTANT: tuple[tuple[int, tuple[bytes, ...], str], ...] = (
    (0, (b"SQLite format 3\0",), "the name of the format"),
    (18, (b"\1", b"\2"), "the write version"),
    (19, (b"\1", b"\2"), "the read version"),
    (20, (b"\0",), "the reserved space of each page"),
    (21, (b"\x40\x20\x20",), "the payload fractions"),
    (44, (b"\0\0\0\4",), "the schema format"),
    (52, (bytes(4),), "the vacuum mode"),
    (56, (b"\0\0\0\1",), "the text encoding"),
    (60, (b"\0\0\0\1",), "the log format"),
    (68, (APPLICATION_ID.to_bytes(4),), "the application id"),
)
"""What each segment's header holds, and where."""


@attrs.frozen
class Fault:
    """A page that is not what was written, at byte ``offset``; rows ``first`` to ``last`` are
    reached through it alone. ``lying`` of them are in other pages that are whole."""

    offset: int
    what: str
    first: int
    last: int
    lying: int = 0


def header_fault(path: Path) -> tuple[int, str] | None:
    """The first byte of the header that no segment has, and what it tells; None if none is wrong.

    Raises OSError.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
        size = file.seek(0, 2)
    if len(header) < _HEADER_BYTES:
        return len(header), f"the file ends after {len(header)} bytes"
    for offset, values, what in _CONSTANT:
        if not any(header.startswith(value, offset) for value in values):
            return offset, f"{what} in the file's header is damaged"
    page_size, pages = _page_size(header), int.from_bytes(header[28:32])
    if page_size not in PAGE_SIZES:
        return 16, "the page size in the file's header is damaged"
    if size < pages * page_size:
        return size, f"the file ends at byte {size}, by its header it has {pages * page_size}"
    if size > pages * page_size:
        return 28, "the number of pages in the file's header is damaged"
    return None


def page_bytes_of(path: Path) -> int:
    """The size of a segment's pages, also where its header does not tell. Raises OSError."""
    with _pages(path) as pages:
        return pages.size


def _page_size(header: bytes) -> int:
    return int.from_bytes(header[16:18])


def _likely_page_size(data: mmap.mmap) -> int:
    """By which most pages begin as those of trees do."""
    for size in sorted(PAGE_SIZES):
        begins = data[size : _LOOKED_AT * size : size]
        if sum(kind in _OF_A_TREE for kind in begins) > len(begins) * 3 // 4:
            return size
    return PAGE_BYTES


def table_faults(path: Path, root: int, first: int, last: int, *, scan: bool) -> Iterator[Fault]:
    """The damaged pages between the table's page ``root`` and its rows ``first`` to ``last``, in
    order. With ``scan`` the whole file is read for rows that lie in other pages. Memory grows by
    one number a page. Raises OSError."""
    with _pages(path) as pages:
        for number, low, high in pages.broken(root, first, last):
            fault = Fault((number - 1) * pages.size, pages.name(number, root), low, high)
            if scan and high > low:
                fault = attrs.evolve(fault, lying=pages.lying(low, high))
            yield fault


def lying_rows(path: Path, first: int, last: int) -> int:
    """How many of these rows are in whole pages, whatever leads to them. Raises OSError."""
    with _pages(path) as pages:
        return pages.lying(first, last)


def last_lying_row(path: Path) -> int:
    """The last row in a whole page, whatever leads to it; 0 if there is none. Raises OSError."""
    with _pages(path) as pages:
        return max(pages.rows(), default=0)


@contextmanager
def _pages(path: Path) -> Iterator["_Pages"]:
    with path.open("rb") as file:
        if not file.seek(0, 2):
            yield _Pages(b"", PAGE_BYTES)
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            size = _page_size(data[:_HEADER_BYTES])
            yield _Pages(data, size if size in PAGE_SIZES else _likely_page_size(data))


@attrs.frozen
class _Pages:
    data: mmap.mmap | bytes
    size: int

    @property
    def count(self) -> int:
        return len(self.data) // self.size

    def of_kind(self, number: int) -> int:
        return self.data[self._begin(number)]

    def name(self, number: int, root: int) -> str:
        if number == root:
            return "the first page of its table"
        return {INNER: "an inner page of its table", LEAF: "a page of rows"}.get(
            self.of_kind(number), "a page of its table"
        )

    def broken(self, root: int, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Pages that cannot be right, with the rows of ``first`` to ``last`` below them."""
        waiting = [(root, root, 0, LAST_ROW)]
        seen: set[int] = set()
        while waiting:
            number, above, low, high = waiting.pop()
            if high < first or low > last:
                continue
            rows = max(low, first), min(high, last)
            if not 1 < number <= self.count or number in seen:
                yield above, *rows  # it points out of the file, or to where others point
                continue
            seen.add(number)
            keys = self._keys(number)
            if keys and (keys[0] > high or keys[-1] < low):
                yield above, *rows  # it points to rows of elsewhere
            elif not keys or keys[0] < low or keys[-1] > high:
                yield number, *rows
            elif self.of_kind(number) == INNER:
                waiting += reversed(self._children(number, keys, low, high))

    def _children(
        self, number: int, keys: list[int], low: int, high: int
    ) -> list[tuple[int, int, int, int]]:
        """The pages below an inner one, each with this one and with the rows below it."""
        begin = self._begin(number)
        cells = self._cells(number) or []
        below = [int.from_bytes(self.data[cell : cell + 4]) for cell in cells]
        below.append(int.from_bytes(self.data[begin + 8 : begin + 12]))
        lows, highs = [low, *(key + 1 for key in keys)], [*keys, high]
        return [(page, number, a, b) for page, a, b in zip(below, lows, highs, strict=True)]

    def _keys(self, number: int) -> list[int] | None:
        """The rows of a page, or the last ones below its cells; None if it is damaged."""
        cells = self._cells(number)
        if cells is None:
            return None
        kind = self.of_kind(number)
        keys = [self._key(cell, kind) for cell in cells]
        return keys if all(before < after for before, after in pairwise(keys)) else None

    def _cells(self, number: int) -> list[int] | None:
        """Where the cells of a page begin; None if it is none of the table's or is damaged."""
        kind, begin = self.of_kind(number), self._begin(number)
        if kind not in (INNER, LEAF):
            return None
        header = 12 if kind == INNER else 8
        count = int.from_bytes(self.data[begin + 3 : begin + 5])
        array = begin + header
        if not count or header + 2 * count > self.size:
            return None
        told = [int.from_bytes(self.data[at : at + 2]) for at in range(array, array + 2 * count, 2)]
        if any(not header + 2 * count <= cell <= self.size - 4 for cell in told):
            return None
        return [begin + cell for cell in told]

    def _key(self, cell: int, kind: int) -> int:
        """The row that a cell is of, or the last one below it."""
        at = cell + 4 if kind == INNER else self._varint(cell)[1]
        return self._varint(at)[0]

    def _varint(self, at: int) -> tuple[int, int]:
        value = 0
        for byte in self.data[at : at + 8]:
            at += 1
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                return value, at
        return value << 8 | (self.data[at] if at < len(self.data) else 0), at + 1

    def lying(self, low: int, high: int) -> int:
        """How many of these rows are in whole pages of rows, wherever in the file."""
        return min(sum(low <= row <= high for row in self.rows()), high - low + 1)

    def rows(self) -> Iterator[int]:
        """The rows of all whole pages of rows, in the order of the pages."""
        for number in range(_FIRST_OF_ROWS, self.count + 1):
            if self.of_kind(number) == LEAF:
                yield from self._keys(number) or ()

    def _begin(self, number: int) -> int:
        return (number - 1) * self.size
