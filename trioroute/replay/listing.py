"""The requests of some time that went somewhere, were of somebody, or ended somehow.

For who knows when and where something went wrong, but no request id.
"""

from collections.abc import Callable, Collection, Iterable
from typing import get_args

import attrs

from trioroute.events.words import Outcome, Reason, RefusalCode
from trioroute.nearest import hint, nearest
from trioroute.policy.keys import digest_key
from trioroute.replay.clock import local_iso
from trioroute.replay.lives import DELAYED, Lives, Wanted
from trioroute.replay.log_end import log_end
from trioroute.replay.names import models_near_end, replicas_now, session_hint
from trioroute.replay.read import ENDINGS, BadQuestion, NotFound, Source, decision_name
from trioroute.replay.requested import Listed, StoodStillRow
from trioroute.replay.stood import listed_words, stood_rows
from trioroute.replay.usual import NOTHING, TOO_FEW, usual_of
from trioroute.row_index import models_of, searched

ENDS_ROWS = 200_000
"""So many rows after the span are looked at for the ends of its requests."""

STANDSTILL_MAX_MS = 600_000
"""So long behind the span a standstill that began in it is looked for."""

STANDSTILLS_SHOWN = 5

FIELDS = ("model", "replica", "key", "session", "reason", "outcome", "attempt", "status")
"""What requests may be chosen by."""

OUTCOMES = tuple(dict.fromkeys((*get_args(Outcome), "failed", "refused", "running", DELAYED)))
"""How a request ends for its client; ``failed`` is any end that is a failure of the service,
``delayed`` any good one that came late (``usual``)."""

ATTEMPTS = (*(one for one in OUTCOMES if one not in ("refused", DELAYED)), "any")
"""How one attempt ends; ``failed`` is any that did not go well, tried again elsewhere or not."""

REASONS = (*get_args(Reason), *get_args(RefusalCode))

_WORDS = {"outcome": OUTCOMES, "attempt": ATTEMPTS, "reason": REASONS}


def parse_where(words: Iterable[str]) -> dict[str, str]:
    """Of ``KEY=VALUE``. Raises BadQuestion, naming what may be said."""
    where = dict[str, str]()
    for word in words:
        name, is_, value = word.partition("=")
        if not is_ or not value or name not in FIELDS:
            near = nearest(name, FIELDS) if name not in FIELDS else name
            meant = f"; did you mean {near}={value or 'VALUE'}?" if near else ""
            raise BadQuestion(f"{word!r}: write KEY=VALUE with one of {', '.join(FIELDS)}{meant}")
        if name in where:
            raise BadQuestion(f"{name} is given twice: a request has one")
        known = _WORDS.get(name)
        if known is not None and value not in known:
            said = f"no {name} is {value!r}; it is one of {', '.join(known)}"
            raise BadQuestion(said + hint(value, known))
        where[name] = value
    return where


def list_requests(
    source: Source,
    span: tuple[int, int],
    where: dict[str, str],
    secret: bytes | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Listed:
    """The requests that came in ``span`` (milliseconds, both ends too), or their attempts, chosen
    by ``where`` (see ``FIELDS``); of very many those that ended first.

    ``secret`` finds a session by its raw key. Raises NotFound, naming the nearest; CannotRead.
    """
    from_ms, to_ms = span
    begin, until = source.reader.last_until(from_ms - 1), source.reader.last_until(to_ms)
    models = _models(source, where, secret)
    asks = where.get("outcome") == DELAYED
    usuals = usual_of(source, from_ms, to_ms) if asks else NOTHING
    stood_still = _standstills(source, span, begin, until) if asks else ()
    found = Lives(Wanted(where, _digests(models, where, secret), usuals), to_ms)
    kinds = ("Dispatched", "Refused", *ENDINGS)
    rest = min(source.reader.head().seq, until + ENDS_ROWS)
    for after, last in ((begin, until), (until, rest)):
        for record in searched(source.reader, kinds, ("",), after, last):
            if record.seq > until and not found.open:
                break
            if record.seq <= until or found.concerns(record):
                found.take(record, source.event(record))
            if progress is not None and record.seq % 1000 == 0:
                progress(record.seq - begin, last - begin)
    end = log_end(source) if found.open and rest == source.reader.head().seq else None
    if end is not None:
        found.cut(end)
    found.finish()
    if not found.rows:
        if asks and not usuals.by:
            raise NotFound(f"which requests were delayed is not known: {TOO_FEW}")
        nothing = _Nothing(source, span, where, found.seen, secret, models).words()
        raise NotFound("; ".join((nothing, *map(listed_words, stood_still[:1]))))
    return Listed(
        from_ms=from_ms,
        to_ms=to_ms,
        where=where,
        requests=tuple(found.rows),
        left_out=found.left_out,
        usual=usuals.told(),
        stood_still=stood_still,
    )


def rows_read(source: Source, span: tuple[int, int]) -> tuple[int, int]:
    """What ``list_requests`` reads of the log: rows behind the first number, to the second one."""
    reader = source.reader
    return reader.last_until(span[0] - 1), reader.last_until(span[1]) + ENDS_ROWS


def _standstills(
    source: Source, span: tuple[int, int], begin: int, until: int
) -> tuple[StoodStillRow, ...]:
    """Those that reach into a span, the longest ones first; each is logged behind itself."""
    beyond = source.reader.last_until(span[1] + STANDSTILL_MAX_MS)
    found = list[StoodStillRow]()
    for record, event in stood_rows(source, begin, max(until, beyond)):
        if record.at_ms - event.for_ms <= span[1]:
            place = decision_name(record.stream, record.version)
            found.append(StoodStillRow(at_ms=record.at_ms, place=place, for_ms=event.for_ms))
            if len(found) > 2 * STANDSTILLS_SHOWN:
                found = _longest(found)
    return tuple(_longest(found))


def _longest(rows: list[StoodStillRow]) -> list[StoodStillRow]:
    return sorted(rows, key=lambda one: (-one.for_ms, one.at_ms))[:STANDSTILLS_SHOWN]


def _models(source: Source, where: dict[str, str], secret: bytes | None) -> list[str]:
    """Those that a raw key of a session may belong to."""
    if "session" not in where or secret is None:
        return []
    return models_of(source.reader, source.index, source.event)


def _digests(models: list[str], where: dict[str, str], secret: bytes | None) -> Collection[str]:
    if secret is None or "session" not in where:
        return ()
    return {digest_key(secret, "session", model, where["session"]) for model in models}


@attrs.frozen
class _Nothing:
    """Why nothing was found. ``seen``: what else requests of the span were of, by field."""

    source: Source
    span: tuple[int, int]
    where: dict[str, str]
    seen: dict[str, dict[str, None]]
    secret: bytes | None
    models: list[str]

    def words(self) -> str:
        asked = " and ".join(f"{name}={value}" for name, value in self.where.items())
        text = (
            f"no {'attempt' if 'attempt' in self.where else 'request'}"
            f"{f' with {asked}' if asked else ''} is between {local_iso(self.span[0])} and "
            f"{local_iso(self.span[1])}"
        )
        for name, names in self.seen.items():
            return text + self._of(name, self.where[name], names)
        end = self.source.last()
        first = next(self.source.kept(0, end.seq, lambda _: None), end)
        return f"{text}; the log holds {local_iso(first.at_ms)} to {local_iso(end.at_ms)}"

    def _of(self, name: str, value: str, names: dict[str, None]) -> str:
        """``names``: what there was instead of ``value``."""
        if name == "session":
            return session_hint(self.source, value, self.secret, self.models, "session=")
        there = ", ".join(list(names)[:10]) or "none"
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        said = f"; what came then had {name} {there}{more}"
        known = self._known(name)
        if value in known:
            return f"{said}: {value} is known to the log, but none came for it then"
        return said + hint(value, {**names, **known}, f"{name}=")

    def _known(self, name: str) -> dict[str, None]:
        """What the log knows beyond the span."""
        if name == "model":
            return models_near_end(self.source)
        return dict.fromkeys(sorted(replicas_now(self.source))) if name == "replica" else {}
