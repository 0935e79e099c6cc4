"""The story of a session: where it went, and what became of its pin."""

from collections import deque
from collections.abc import Collection
from pathlib import Path

import attrs

from eventlog.record import Record
from trioroute.events import (
    Bound,
    Dispatched,
    Failed,
    Orphaned,
    Rebound,
    Released,
    Spilled,
    Unbound,
)
from trioroute.policy.keys import digest_key
from trioroute.replay.find import Rows
from trioroute.replay.names import session_hint
from trioroute.replay.read import (
    ENDINGS,
    STREAM_PREFIX,
    CannotRead,
    NotFound,
    Source,
    decision_name,
    quoted,
)
from trioroute.replay.stood import stood_in
from trioroute.replay.told import DecisionRow, Line, SessionTold
from trioroute.replay.words import pin_words
from trioroute.row_index import SESSION, models_of, rows_with, session_word

LINES_MAX = 1000
"""Decisions and pin events that are told of a session, the last ones; the rest is counted."""

Place = tuple[str, int]

KEY_FILE = "key"


def read_secret(log: Path) -> bytes | None:
    """The secret of the log's digests, None if it is not there or not ours to read.

    ``log`` is the directory or a file in it. Raises CannotRead for one that is no secret.
    """
    file = (log if log.is_dir() else log.parent) / KEY_FILE
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise CannotRead(f"{file} does not hold a key: expected hexadecimal digits") from None


@attrs.define
class _Story:
    """What was found of a session so far. ``keys`` are the digests that mean it."""

    keys: Collection[str]
    seen: dict[str, None] = attrs.field(factory=dict)
    rows: Rows = attrs.field(factory=lambda: Rows(LINES_MAX))
    begun: dict[Place, int] = attrs.field(factory=dict)
    lines: deque[Line] = attrs.field(factory=lambda: deque(maxlen=LINES_MAX))
    left_out: int = 0

    def dispatch(self, record: Record, event: Dispatched) -> None:
        if event.session is not None and event.session in self.keys:
            self.seen[event.session] = None
            self.rows.add(record, event)
            self.begun[record.stream, record.version] = record.seq

    def find_ends(self, source: Source) -> None:
        """How each of the decisions ended: looked for after it."""
        for place in list(self.rows.open):
            stream, number = place
            for record in source.mentioning(ENDINGS, (str(number),), self.begun[place]):
                event = source.event(record) if record.stream == stream else None
                if isinstance(event, Released | Failed | Orphaned):
                    self.rows.end(record, event)
                if place not in self.rows.open:
                    break
        self.rows.cut(source)

    def pin(self, record: Record, event: Bound | Spilled | Rebound | Unbound) -> None:
        if event.key not in self.keys or event.kind != "session":
            return
        self.left_out += len(self.lines) == LINES_MAX
        number = event.dispatch if event.dispatch is not None else record.version
        self.lines.append(
            Line(
                at_ms=record.at_ms,
                place=decision_name(record.stream, number),
                event=record.kind,
                text=pin_words(event),
            )
        )


def tell_session(source: Source, key: str, secret: bytes | None) -> SessionTold:
    """All of a session, by its raw key (needs ``secret``) or by a digest of it.

    One raw key has a digest for each model, for pins are per pool. Raises NotFound, CannotRead.
    """
    keys, models = [key], list[str]()
    if secret is not None:
        models = models_of(source.reader, source.index, source.event)
        keys += [digest_key(secret, "session", model, key) for model in models]
    story = _Story(keys)
    words = {session_word(one): quoted(one) for one in keys}
    for record in rows_with(source.reader, source.index, SESSION, words):
        event = source.event(record)
        if isinstance(event, Dispatched):
            story.dispatch(record, event)
        elif isinstance(event, Bound | Spilled | Rebound | Unbound):
            story.pin(record, event)
    if not story.rows.rows and not story.lines:
        near = session_hint(source, key, secret, models)
        raise NotFound(_not_found(key, secret) + near)
    story.find_ends(source)
    return SessionTold(
        keys=tuple(story.seen),
        decisions=tuple(story.rows.rows),
        pin_events=tuple(story.lines),
        left_out=story.rows.left_out + story.left_out,
        stood=stood_in(source, map(_under_way, story.rows.rows)),
    )


def _under_way(row: DecisionRow) -> tuple[str, int, int]:
    """Its router, and from when to when it ran; without an end, as it was sent."""
    stream = STREAM_PREFIX + row.decision.rpartition("/")[0]
    return stream, row.at_ms, row.at_ms if row.end is None else row.end.at_ms


def _not_found(key: str, secret: bytes | None) -> str:
    if secret is None:
        return (
            f"no session with the digest {key!r} is in the log; to find one by its raw key, the "
            f"file {KEY_FILE!r} must lie beside the log and be readable (its owner's, mode 0600)"
        )
    return (
        f"no session {key!r} is in the log, neither as a raw key nor as a digest; a decision "
        "shows its session's digest (replay --decision)"
    )
