"""What concerns one replica or one session: for walking through a log, and for watching it grow."""

from collections import OrderedDict
from collections.abc import Collection
from pathlib import Path

import attrs

from eventlog.record import Record
from trioroute import events as e
from trioroute.nearest import nearest
from trioroute.policy.keys import digest_key
from trioroute.replay.names import replicas_ever, replicas_now, session_hint
from trioroute.replay.read import NotFound, Source, quoted
from trioroute.replay.session import read_secret
from trioroute.row_index import SESSION, models_of, rows_with, session_word

KNOWN_MAX = 10_000
"""Dispatches that are remembered, so that their ends need no look-up."""

_REPLICA_FIELDS = ("replica", "home", "to", "previous")


@attrs.define
class Only:
    """``words``: a replica's name, or the digests of a session; ``name``: as it was asked for."""

    source: Source
    name: str
    replica: bool
    words: Collection[str]
    _known: OrderedDict[tuple[str, int], bool] = attrs.field(factory=OrderedDict)

    @property
    def sort(self) -> str:
        return "replica" if self.replica else "session"

    def concerns(self, record: Record, event: e.Event) -> bool:
        """Whether a row is about it: a decision, its end, a pin, the replica's health. Scrapes are
        about all replicas, and so about none."""
        if isinstance(event, e.Released | e.Failed):
            return self._dispatched(record.stream, event.dispatch)
        if isinstance(event, e.Orphaned):
            return any(self._dispatched(record.stream, number) for number in event.dispatches)
        if isinstance(event, e.Dispatched):
            self._remember((record.stream, record.version), self._ran(event))
        return self._names(event)

    def texts(self) -> tuple[str, ...]:
        """How it stands in the bodies of rows, but in those of ends."""
        return tuple(quoted(word) for word in self.words)

    def _names(self, event: e.Event) -> bool:
        if self.replica:
            return any(getattr(event, field, None) in self.words for field in _REPLICA_FIELDS)
        if isinstance(event, e.Dispatched):
            return event.session in self.words
        if isinstance(event, e.Bound | e.Spilled | e.Rebound | e.Unbound):
            return event.kind == "session" and event.key in self.words
        return False

    def _dispatched(self, stream: str, number: int) -> bool:
        """Whether a dispatch was of it; one that left its pin's replica did not run there."""
        known = self._known.get((stream, number))
        if known is None:
            record = self.source.at(stream, number)
            event = None if record is None else self.source.event(record)
            known = isinstance(event, e.Dispatched) and self._ran(event)
            self._remember((stream, number), known)
        return known

    def _ran(self, event: e.Dispatched) -> bool:
        return (event.replica if self.replica else event.session) in self.words

    def _remember(self, place: tuple[str, int], found: bool) -> None:
        self._known[place] = found
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)


def only_of(source: Source, log: Path, name: str) -> Only:
    """What ``name`` means: a replica of the log, or a session by its raw key or its digest.

    Raises NotFound, naming the nearest; CannotRead.
    """
    if name in replicas_now(source):
        return Only(source, name, True, {name})
    keys, models, secret = [name], list[str](), read_secret(log)
    if secret is not None:
        models = models_of(source.reader, source.index, source.event)
        keys += [digest_key(secret, "session", model, name) for model in models]
    session = Only(source, name, False, keys)
    words = {session_word(one): quoted(one) for one in keys}
    for record in rows_with(source.reader, source.index, SESSION, words):
        event = source.event(record)
        if event is not None and session.concerns(record, event):
            return session
    replicas = replicas_ever(source)
    if name in replicas:
        return Only(source, name, True, {name})
    near = nearest(name, replicas)
    if near is None:
        hint = session_hint(source, name, secret, models)
    else:
        hint = f"; did you mean {near!r}?"
    known = ", ".join(list(replicas)[:20])
    raise NotFound(
        f"no replica and no session {name!r} is in the log; its replicas are {known}{hint}"
    )
