"""The requests of some time that went somewhere, were of somebody, or ended somehow.

For who knows when and where something went wrong, but no request id.
"""

from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from typing import get_args

import attrs

from eventlog.record import Record
from trioroute.events import Dispatched, Event, Failed, Orphaned, Refused, Released
from trioroute.events.words import Outcome
from trioroute.policy.keys import digest_key
from trioroute.replay.clock import local_iso, parse_point, parse_span
from trioroute.replay.followed import end_of
from trioroute.replay.read import ENDINGS, BadQuestion, NotFound, Source, decision_name
from trioroute.replay.told import Listed, RequestRow
from trioroute.replay.words import NOT_FAILED
from trioroute.row_index import models_of, searched

ROWS_MAX = 200
"""Lines of an answer; what else was found is counted."""

AROUND_MS = 60_000
"""``around`` a time: so long before it and after it."""

ENDS_ROWS = 200_000
"""So many rows after the span are looked at for the ends of its requests."""

NAMES_MAX = 1000
"""Names of one sort that are remembered, to tell the nearest to a wrong one."""

FIELDS = ("model", "replica", "key", "session", "reason", "outcome")
"""What requests may be chosen by."""

OUTCOMES = tuple(dict.fromkeys((*get_args(Outcome), "failed", "refused", "unknown", "running")))
"""How an attempt ends, or a request that was never sent; ``failed`` is any that did not go well."""

_WELL = {*NOT_FAILED, "running"}
_AROUND = "around "


def parse_time(text: str, last_ms: int, first_ms: int = 0) -> tuple[int, int]:
    """Of ``around TIME``, or as ``parse_span``. Raises BadQuestion."""
    if text.startswith(_AROUND):
        at_ms = parse_point(text.removeprefix(_AROUND), last_ms, first_ms)
        return at_ms - AROUND_MS, at_ms + AROUND_MS
    if text.strip() == "around":
        raise BadQuestion('around which time? write it in quotes: --requests "around 14:03"')
    return parse_span(text, last_ms, first_ms)


def parse_where(words: Iterable[str]) -> dict[str, str]:
    """Of ``KEY=VALUE``. Raises BadQuestion, naming what may be said."""
    where = dict[str, str]()
    for word in words:
        name, is_, value = word.partition("=")
        if not is_ or not value or name not in FIELDS:
            near = get_close_matches(name, FIELDS, 1)
            hint = f"; did you mean {near[0]}={value or 'VALUE'}?" if near else ""
            raise BadQuestion(f"{word!r}: write KEY=VALUE with one of {', '.join(FIELDS)}{hint}")
        if name in where:
            raise BadQuestion(f"{name} is given twice: a request has one")
        if name == "outcome" and value not in OUTCOMES:
            near = get_close_matches(value, OUTCOMES, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise BadQuestion(f"no outcome is {value!r}; it is one of {', '.join(OUTCOMES)}{hint}")
        where[name] = value
    return where


@attrs.define
class _List:
    """``sessions`` are the digests of the session that is asked for. ``seen``: what other names
    there were, by field."""

    where: dict[str, str]
    sessions: Collection[str]
    rows: list[RequestRow] = attrs.field(factory=list)
    open: dict[tuple[str, int], RequestRow] = attrs.field(factory=dict)
    left_out: int = 0
    seen: dict[str, dict[str, None]] = attrs.field(factory=dict)

    def take(self, record: Record, event: Event | None, to_ms: int) -> None:
        if isinstance(event, Dispatched | Refused):
            if record.at_ms <= to_ms:
                self._begin(record, event)
        elif isinstance(event, Released | Failed):
            self._end(record, event, event.dispatch)
        elif isinstance(event, Orphaned):
            for number in event.dispatches:
                self._end(record, event, number)

    def _begin(self, record: Record, event: Dispatched | Refused) -> None:
        sent = event if isinstance(event, Dispatched) else None
        place = (record.stream, record.version)
        row = RequestRow(
            at_ms=record.at_ms,
            request_id=event.request_id,
            decision=None if sent is None else decision_name(*place),
            model=event.model,
            key=event.key,
            session=None if sent is None else sent.session,
            replica=None if sent is None else sent.replica,
            reason=event.code if isinstance(event, Refused) else event.reason,
            attempt=None if sent is None else sent.attempt,
            outcome="refused" if sent is None else "running",
        )
        if not self._is_of(row):
            return
        if sent is None:
            self._keep(row)
        else:
            self.open[place] = row

    def _is_of(self, row: RequestRow) -> bool:
        """Whether it is as asked for, but for how it ends."""
        for name, wanted in self.where.items():
            if name == "outcome":
                continue
            found = getattr(row, name)
            if found == wanted or (name == "session" and found in self.sessions):
                continue
            if found is not None:
                names = self.seen.setdefault(name, {})
                if len(names) < NAMES_MAX:
                    names[found] = None
            return False
        return True

    def _end(self, record: Record, event: Event, number: int) -> None:
        row = self.open.pop((record.stream, number), None)
        if row is not None:
            end = end_of(event, number, row.at_ms, record.at_ms)
            outcome = "running" if end is None else end.outcome
            self._keep(attrs.evolve(row, end=end, outcome=outcome))

    def _keep(self, row: RequestRow) -> None:
        wanted = self.where.get("outcome", row.outcome)
        if wanted != row.outcome and (wanted != "failed" or row.outcome in _WELL):
            return
        if len(self.rows) < ROWS_MAX:
            self.rows.append(row)
        else:
            self.left_out += 1

    def finish(self) -> None:
        for row in self.open.values():
            self._keep(row)
        self.rows.sort(key=lambda row: row.at_ms)


def list_requests(
    source: Source,
    span: tuple[int, int],
    where: dict[str, str],
    secret: bytes | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Listed:
    """The attempts that began in ``span`` (milliseconds, both ends too) and the refusals in it,
    chosen by ``where`` (see ``FIELDS``); of very many those that ended first.

    ``secret`` finds a session by its raw key. Raises NotFound, naming the nearest; CannotRead.
    """
    from_ms, to_ms = span
    begin, until = source.reader.last_until(from_ms - 1), source.reader.last_until(to_ms)
    found = _List(where, _digests(source, where.get("session"), secret))
    rest = min(source.reader.head().seq, until + ENDS_ROWS)
    for kinds, after, last in (
        (("Dispatched", "Refused", *ENDINGS), begin, until),
        (ENDINGS, until, rest),
    ):
        for record in searched(source.reader, kinds, ("{",), after, last):
            if kinds is ENDINGS and not found.open:
                break
            found.take(record, source.event(record), to_ms)
            if progress is not None and record.seq % 1000 == 0:
                progress(record.seq - begin, last - begin)
    found.finish()
    if not found.rows:
        raise NotFound(_nothing(source, span, where, found.seen))
    return Listed(
        from_ms=from_ms,
        to_ms=to_ms,
        where=where,
        requests=tuple(found.rows),
        left_out=found.left_out,
    )


def _digests(source: Source, session: str | None, secret: bytes | None) -> Collection[str]:
    if session is None or secret is None:
        return ()
    models = models_of(source.reader, source.index, source.event)
    return {digest_key(secret, "session", model, session) for model in models}


def _nothing(
    source: Source, span: tuple[int, int], where: dict[str, str], seen: dict[str, dict[str, None]]
) -> str:
    asked = f" with {' and '.join(f'{name}={value}' for name, value in where.items())}"
    text = (
        f"no request{asked if where else ''} is between {local_iso(span[0])} and "
        f"{local_iso(span[1])}"
    )
    for name, names in seen.items():
        near = get_close_matches(where[name], names, 1)
        if near:
            return f"{text}; did you mean {name}={near[0]}?"
    if not where or not seen:
        end = source.last()
        first = next(source.kept(0, end.seq, lambda _: None), end)
        text += f"; the log holds {local_iso(first.at_ms)} to {local_iso(end.at_ms)}"
    for name, names in seen.items():
        if name != "session":
            return f"{text}; there are {name} {', '.join(list(names)[:10])}"
    return text
