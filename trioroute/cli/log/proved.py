"""Rows that are written out, each proved by its chain value: damage must not go on as data."""

from collections.abc import Iterator

import attrs
import orjson

from eventlog import Head, LogDamaged, Record
from eventlog.chain import is_chain, verify_chain
from eventlog.store import LogReader
from trioroute.replay.calendar import FIRST_MS, LAST_MS
from trioroute.replay.clock import utc_iso
from trioroute.replay.words import plural

PAGE = 1000

NAMED_MAX = 5
"""So many changed rows are named."""


@attrs.define
class Proved:
    """``changed`` are the first rows found that are not what was written behind the one before,
    ``count`` is how many there are."""

    reader: LogReader
    changed: list[int] = attrs.field(factory=list)
    count: int = 0

    def rows(self, after: int, until: int) -> Iterator[tuple[Record, bool]]:
        """The rows with ``after < seq <= until``, each with whether it is proved. The first one is
        not where the row before it was retired. Raises what the reader raises."""
        before = self.reader.read(after - 1, 1) if after else []
        head = Head() if not after else Head(after, before[0].chain) if before else None
        while after < until:
            page = self.reader.read(after, min(PAGE, until - after))
            if not page:
                return
            if head is not None and page[0].seq != head.seq + 1:
                head = None  # what was before is retired
            last: Head | None
            try:
                last = verify_chain(page, head)
            except LogDamaged:
                yield from self._one_by_one(page, head)
                chain = page[-1].chain
                last = Head(page[-1].seq, chain) if is_chain(chain) else None
            else:
                yield page[0], head is not None
                yield from ((row, True) for row in page[1:])
            head, after = last, page[-1].seq

    def _one_by_one(self, page: list[Record], head: Head | None) -> Iterator[tuple[Record, bool]]:
        for row in page:
            good = head is not None
            try:
                verify_chain([row], head)
            except LogDamaged:
                good = False
                self.count += 1
                if len(self.changed) < NAMED_MAX:
                    self.changed.append(row.seq)
            yield row, good
            head = Head(row.seq, row.chain) if is_chain(row.chain) else None

    def words(self) -> str:
        """Which rows were changed; empty for none."""
        if not self.count:
            return ""
        named = ", ".join(map(str, self.changed))
        more = f" and {self.count - len(self.changed)} more" if self.count > NAMED_MAX else ""
        are = "is not as it was" if self.count == 1 else "are not as they were"
        return (
            f"{plural(self.count, 'row')} (seq {named}{more}) {are} written, or the chain value of "
            "the row before: trioroute log verify tells where"
        )


def line(row: Record) -> bytes:
    """One row that is proved as a line; kind and stream are plain words, so nothing in them needs
    quoting, and its body is JSON."""
    return b'{"seq":%d,"stream":"%s","version":%d,"kind":"%s","schema":%d,"at":"%s",' % (
        row.seq,
        row.stream.encode(),
        row.version,
        row.kind.encode(),
        row.schema,
        utc_iso(row.at_ms).encode(),
    ) + b'"at_ms":%d,"seen":%d,"chain":"%s","body":%s}\n' % (
        row.at_ms,
        row.seen,
        row.chain.hex().encode(),
        row.body,
    )


def line_of_any(row: Record) -> bytes:
    """The same of a row that may hold anything: null stands for a time that no clock says, a
    body that is no object, and a value of another type."""
    whole = attrs.asdict(row)
    told: dict[str, object] = {
        name: whole[name] if isinstance(whole[name], type_) else None
        for name, type_ in _TYPES.items()
    }
    at_ms = told["at_ms"]
    timely = isinstance(at_ms, int) and FIRST_MS <= at_ms <= LAST_MS
    told["at"] = utc_iso(row.at_ms) if timely else None
    told["chain"] = row.chain.hex() if is_chain(row.chain) else None
    told["body"] = body_of(row)
    return orjson.dumps({name: told[name] for name in _ORDER}) + b"\n"


def body_of(row: Record) -> dict[str, object] | None:
    """The body of a row that may hold anything; None where it is no object."""
    try:
        body = orjson.loads(row.body)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


_TYPES = {"seq": int, "stream": str, "version": int, "kind": str, "schema": int} | {
    "at_ms": int,
    "seen": int,
}
_ORDER = ("seq", "stream", "version", "kind", "schema", "at", "at_ms", "seen", "chain", "body")
