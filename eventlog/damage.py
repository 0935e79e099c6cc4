"""What SQLite could not read of a segment, told by the page that is damaged."""

import mmap
import re
from pathlib import Path

from eventlog.chain import is_chain
from eventlog.errors import LogDamaged
from eventlog.pages import LAST_ROW, header_fault, lying_rows, page_bytes_of, table_faults
from eventlog.segments import SegmentReader

_PAGE_NAMED = re.compile(r"\bpage (\d+)", re.IGNORECASE)

RECOVER = "`sqlite3 FILE .recover` reads them"


def place_of(path: Path, chain: bytes) -> tuple[str, int | None]:
    """The file and byte where a row's chain value is stored; it is unique, so it marks the row."""
    if not is_chain(chain):
        return "", None
    for part in (path, path.with_name(path.name + "-wal")):
        try:
            with part.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as m:
                offset = m.find(chain)
        except (OSError, ValueError):
            continue
        if offset >= 0:
            return str(part), offset
    return "", None


def place_of_damage(
    path: Path, reader: SegmentReader | None, first: int, last: int, reason: str, *, scan: bool
) -> tuple[int | None, str]:
    """The byte of the first damaged page that leads to rows ``first`` to ``last``, and the reason
    with what it is and, if the whole file may be read for it (``scan``), how many of the rows are
    whole all the same.

    ``reader`` is None where SQLite cannot even open the file. Nothing more is known of a file with
    a write-ahead log: that has newer versions of its pages.
    """
    try:
        if has_frames(path):
            return None, reason
        header = header_fault(path)
        if header is not None:
            offset, what = header
            return offset, f"{reason}: {what}{lying(path, first, last, scan=scan)}"
        root = 0 if reader is None else _root(reader)
        if not root:
            what = "its first page, which holds the schema, is damaged"
            return 0, f"{reason}: {what}{lying(path, first, last, scan=scan)}"
        found = [
            fault
            for fault in table_faults(path, root, first, last, scan=scan)
            if fault.first <= last and fault.last >= first
        ]
    except OSError as error:
        return None, f"{reason} ({error})"
    if not found:
        return None, reason
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    count = sum(fault.lying for fault in found)
    return found[0].offset, f"{reason}: {found[0].what}{more} is damaged{_words(count)}"


def lying(path: Path, first: int, last: int, *, scan: bool) -> str:
    """Words for how many of these rows lie in the file although nothing leads to them, empty for
    none. Raises OSError."""
    return _words(lying_rows(path, first, last)) if scan and not has_frames(path) else ""


def page_named(path: Path, words: str) -> int | None:
    """The byte at which the page begins that SQLite names; or of the header, if that is damaged."""
    try:
        header = None if has_frames(path) else header_fault(path)
    except OSError:
        return None
    if header is not None:
        return header[0]
    named = _PAGE_NAMED.search(words)
    return None if named is None else (int(named[1]) - 1) * page_bytes_of(path)


def what_is_amiss(path: Path, reader: SegmentReader, trouble: str) -> tuple[str, int | None]:
    """Of a file whose rows were all read in order, and of which SQLite says ``trouble``: the
    reason, and the byte at which the damaged page begins."""
    try:
        root = 0 if has_frames(path) else _root(reader)
        faults = () if not root else table_faults(path, root, 0, LAST_ROW, scan=False)
        fault = next(iter(faults), None)
    except OSError:
        fault = None
    if fault is None:
        reason = f"file: its rows can be read, an index or free space cannot: {trouble}"
        return reason, page_named(path, trouble)
    reason = (
        f"file: its rows can be read one after another, but {fault.what} is damaged, so that a "
        f"search for one of them may not find it: {trouble}"
    )
    return reason, fault.offset


def has_frames(path: Path) -> bool:
    """Whether a write-ahead log beside the file holds anything. Raises OSError."""
    wal = path.with_name(path.name + "-wal")
    return wal.exists() and wal.stat().st_size > 0


def _root(reader: SegmentReader) -> int:
    try:
        return reader.root()
    except LogDamaged:
        return 0


def _words(count: int) -> str:
    return f"; {count} of these rows lie in whole pages, {RECOVER}" if count else ""
