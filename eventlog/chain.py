"""The hash chain: every row's hash covers the row and all rows before it.

chain(n) = blake2b-128(chain(n-1) · five signed 64-bit integers seq, version, schema, at_ms, seen ·
16-bit length of stream, 16-bit length of kind, 32-bit length of body · stream · kind · body), all
big-endian, texts in UTF-8; chain(0) is 16 zero bytes. Without a key: it proves that nothing was
changed by accident or without rewriting everything after it; compare heads kept elsewhere for more.
"""

import struct
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from eventlog.errors import LogDamaged, gap
from eventlog.record import Entry, Head, Record
from eventlog.store import LogReader

CHAIN_BYTES = 16

_fixed = struct.Struct(">qqqqqHHI").pack
_new_hash = blake2b(digest_size=CHAIN_BYTES).copy  # a copy costs less than one with arguments


def _link(previous: bytes, fixed: bytes, stream: bytes, kind: bytes, body: bytes) -> bytes:
    """The chain of a row after ``previous``; ``fixed`` are its integers and lengths."""
    link = _new_hash()
    link.update(b"".join((previous, fixed, stream, kind, body)))
    return link.digest()


def chain_entries(head: Head, stream: str, expected: int, entries: Sequence[Entry]) -> list[bytes]:
    """The chain values of ``entries`` appended to ``stream`` at ``expected`` after ``head``.

    Raises ValueError for an integer beyond 64 bits or a name beyond 64 KiB.
    """
    chains = []
    chain, seq, version, name = head.chain, head.seq, expected, stream.encode()
    for entry in entries:
        seq += 1
        version += 1
        kind, body = entry.kind.encode(), entry.body
        lengths = len(name), len(kind), len(body)
        try:
            fixed = _fixed(seq, version, entry.schema, entry.at_ms, entry.seen, *lengths)
        except struct.error as exc:
            raise ValueError(f"entry {version} of {stream!r} ({entry.kind}): {exc}") from exc
        chain = _link(chain, fixed, name, kind, body)
        chains.append(chain)
    return chains


def check_body(kind: str, body: bytes) -> None:
    """Raise ValueError unless ``body`` is UTF-8: stores keep it as text for people to read."""
    if body.isascii():  # nearly always, and fifty times cheaper than decoding
        return
    try:
        body.decode()
    except UnicodeDecodeError as exc:
        raise ValueError(f"the body of a {kind!r} entry is not UTF-8: {exc}") from exc


def check_entries(stream: str, entries: Sequence[Entry], expected: int) -> None:
    """Raise ValueError for what no store takes: nothing, a negative version, bytes not UTF-8."""
    if not entries:
        raise ValueError(f"nothing to append to {stream!r}")
    if expected < 0:
        raise ValueError(f"expected version {expected} of {stream!r}: versions begin at 0 = empty")
    for entry in entries:
        check_body(entry.kind, entry.body)


def is_chain(value: object) -> bool:
    """Whether a stored value can be a row's chain: a damaged row may hold anything."""
    return isinstance(value, bytes) and len(value) == CHAIN_BYTES


def verify_chain(
    records: Iterable[Record], start: Head | None = None, *, where: str = "the log"
) -> Head:
    """Check that ``records`` follow ``start`` without gap and unchanged; returns the last head.

    ``start`` is the head before the first record, ``Head()`` for a whole log; with None the first
    record's own chain is taken on trust (a log whose beginning was retired).
    Raises LogDamaged naming the first bad row, with a reason of ``order``, ``gap`` or ``chain``.
    """
    known = start is not None
    head = start if start is not None else Head()
    seq, chain = head.seq, head.chain
    for record in records:
        if known and record.seq != seq + 1:
            raise _misplaced(record.seq, seq, where)
        found = _link_of(chain, record, where)  # the first of an unknown start: if it can be
        seq, chain = record.seq, record.chain
        if known and found != chain:
            raise LogDamaged(where, seq, "chain: the row or one before it was changed")
        known = True
    return Head(seq, chain)


def was_changed(reader: LogReader, seq: int) -> bool:
    """Whether row ``seq`` is not what was written behind the one before it.

    False as well where that cannot be told: the one before it is missing, or was retired.
    Raises StoreFailed, StoreClosed.
    """
    try:
        rows = reader.read(max(0, seq - 2), min(seq, 2))
    except LogDamaged:
        return False
    if [row.seq for row in rows] != [seq - 1, seq][-min(seq, 2) :]:
        return False
    before = Head(rows[0].seq, rows[0].chain) if seq > 1 else Head()
    if not is_chain(before.chain):
        return False
    try:
        verify_chain(rows[-1:], before)
    except LogDamaged:
        return True
    return False


def _misplaced(found: int, after: int, where: str) -> LogDamaged:
    if found <= after:
        return LogDamaged(where, found, f"order: it comes after {after}")
    return gap(where, after + 1, found)


def _link_of(previous: bytes, record: Record, where: str) -> bytes:
    try:
        stream, kind, body = record.stream.encode(), record.kind.encode(), record.body
        fixed = _fixed(
            record.seq,
            record.version,
            record.schema,
            record.at_ms,
            record.seen,
            len(stream),
            len(kind),
            len(body),
        )
        return _link(previous, fixed, stream, kind, body)
    except (
        struct.error,
        TypeError,
        AttributeError,
    ) as exc:  # SQLite keeps any type in a damaged row
        raise LogDamaged(where, record.seq, f"chain: a value is of another type ({exc})") from exc
