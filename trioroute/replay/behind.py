"""Where a log goes on behind rows that are missing or cannot be read."""

import re

from eventlog.errors import LogDamaged
from eventlog.store import LogReader

DAMAGED_MAX = 10_000
"""Rows in a row that cannot be read, after which the rest is given up."""

_GAP_END = re.compile(r"to (\d+) are missing")


def behind(reader: LogReader, after: int, until: int, damage: LogDamaged) -> int:
    """The nearest place behind the damage that is followed by a row."""
    if damage.reason.startswith("gap") and (gap := _GAP_END.search(damage.reason)):
        return max(after + 1, int(gap[1]))
    for place in range(after + 1, min(until, after + DAMAGED_MAX)):
        try:
            reader.read(place, 1)
        except LogDamaged:
            continue
        return place
    return until
