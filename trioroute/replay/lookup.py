"""Decisions of a request or a session of a running router: the newest ones, within bounds."""

from collections.abc import Collection
from typing import Any

import attrs

from eventlog.record import Record
from trioroute.events import Dispatched, Refused
from trioroute.policy.keys import digest_key
from trioroute.replay.names import name_hint
from trioroute.replay.read import NotFound, Source, decision_name, quoted
from trioroute.replay.refused import tell_refused
from trioroute.replay.told import as_json
from trioroute.row_index import newest_with, request_word, session_word

FOUND_MAX = 50
"""Decisions that one look gives."""

SEARCHED_MAX = 500_000
"""Rows that no index covers and a look passes by at most. Their index is made every 20,000 rows."""

REFUSED_MAX = 3
"""Refusals of one id that are told: each is folded to."""

FIELDS = ("request_id", "model", "replica", "reason", "attempt")


@attrs.define
class _Found:
    """What a look came by so far, newest first; ``whole`` False: older rows were not looked at."""

    rows: list[dict[str, Any]] = attrs.field(factory=list)
    refused: list[Record] = attrs.field(factory=list)
    whole: bool = True

    def add(self, record: Record, event: Dispatched) -> None:
        row = {
            "decision": decision_name(record.stream, record.version),
            "at_ms": record.at_ms,
            **{name: getattr(event, name) for name in FIELDS},
        }
        self.rows.append(row)


def look_up(
    source: Source, text: str, models: Collection[str], secret: bytes | None
) -> dict[str, Any]:
    """The newest decisions of the request ``text``, else of the session of that raw key (under one
    of ``models``) or digest: ``{"decisions": [...], "complete": bool}``, newest first; ``refused``
    tells of a request that was never dispatched.

    Blocking; what it reads is bounded. Raises NotFound, CannotRead and what the reader raises.
    """
    sessions = [text]
    if secret is not None:
        sessions += [digest_key(secret, "session", model, text) for model in models]
    found = _look(source, text, sessions)
    if not found.rows and found.refused:
        told = [as_json(tell_refused(source, row)) for row in found.refused]
        return {"decisions": [], "refused": told, "complete": found.whole}
    if not found.rows:
        near = name_hint(source, text, secret, models, whole=found.whole)
        raise NotFound(_nothing(text, found, near))
    return {"decisions": found.rows, "complete": found.whole}


def _look(source: Source, text: str, sessions: Collection[str]) -> _Found:
    words = {request_word(text): quoted(text)}
    words |= {session_word(one): quoted(one) for one in sessions}
    found = _Found()
    rows = newest_with(source.reader, source.index, ("Dispatched", "Refused"), words, SEARCHED_MAX)
    for record in rows:
        if record is None:
            found.whole = False
            break
        event = source.event(record)
        if isinstance(event, Refused) and event.request_id == text:
            if len(found.refused) < REFUSED_MAX:
                found.refused.append(record)
        elif isinstance(event, Dispatched) and (
            event.request_id == text or event.session in sessions
        ):
            if len(found.rows) == FOUND_MAX:
                found.whole = False
                break
            found.add(record, event)
    return found


def _nothing(text: str, found: _Found, near: str) -> str:
    said = (
        f"{text!r} is no request and no session of the log; a request is named by its "
        f"x-request-id, a session by what the client sent or by its digest{near}"
    )
    if not found.whole:
        said += (
            f". Only the newest rows were looked at ({SEARCHED_MAX:,} without an index): trioroute "
            "replay LOG --request or --session reads them all"
        )
    return said
