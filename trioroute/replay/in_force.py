"""The settings in force before a row, where the state is not at hand."""

from eventlog import LogReader
from trioroute.events import Configured, UnreadableEvent, decode
from trioroute.events.sections import InForce
from trioroute.row_index import NEWEST_STEP, searched

SEARCHED_MAX = 500_000
"""Rows that are looked through at most: a start writes one that tells them."""


def settings_before(reader: LogReader, stream: str, seq: int) -> InForce | None:
    """Of one router, before row ``seq``; None where no row near enough tells them, or it is one of
    another release. Raises what the reader raises."""
    until, end = seq - 1, max(0, seq - 1 - SEARCHED_MAX)
    while until > end:
        after = max(end, until - NEWEST_STEP)
        rows = searched(reader, ("Configured",), ("{",), after, until)
        for row in reversed([row for row in rows if row.stream == stream]):
            try:
                event = decode(row.kind, row.schema, row.body)
            except UnreadableEvent:
                return None
            return event.settings if isinstance(event, Configured) else None
        until = after
    return None
