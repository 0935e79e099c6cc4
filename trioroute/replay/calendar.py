"""Which times a row can have. One with another was damaged, and is as one whose body cannot be
read: every duration and order that it took part in would be made up."""

from collections.abc import Iterable, Iterator

from trioroute.events import UnreadableEvent
from trioroute.projections.rows import Row

FIRST_MS, LAST_MS = 0, 32_503_680_000_000
"""From 1970 to the year 3000: no router's clock says another time."""

_SHOWN = -62_135_510_400_000, 253_402_214_400_000
"""From January 2 of the year 1 to December 31 of the year 9999: a day from where Python's
``datetime`` ends, for every zone's offset."""


def nearest_shown(at_ms: int) -> int:
    """The same, or the first or last time that a calendar shows."""
    return min(max(at_ms, _SHOWN[0]), _SHOWN[1])


def check_time(at_ms: int) -> None:
    """Raise UnreadableEvent for a time that no clock says."""
    if not FIRST_MS <= at_ms <= LAST_MS:
        raise UnreadableEvent(f"its time, {at_ms} ms, is not from 1970 to 3000")


def timely(rows: Iterable[Row]) -> Iterator[Row]:
    """The same rows. Raises UnreadableEvent at the first one whose time no clock says."""
    for row in rows:
        check_time(row[2])
        yield row
