"""Which rows are of certain replicas."""

from collections.abc import Collection
from typing import Any

import orjson

from eventlog import Record

_NAMES = ("replica", "home", "previous", "to")


class OfReplicas:
    """Rows that name a replica, and the ends of what was dispatched to it.

    Rows must come in order. It remembers what is in flight there, no more.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._open: set[tuple[str, int]] = set()

    def take(self, row: Record) -> bool:
        """Whether this row is of one of them."""
        body: dict[str, Any] = orjson.loads(row.body)
        if row.kind == "Dispatched":
            if body["replica"] in self._names:
                self._open.add((row.stream, row.version))
                return True
            return False
        if row.kind in ("Released", "Failed"):
            return self._ended(row.stream, body["dispatch"])
        if row.kind == "Orphaned":
            ended = [self._ended(row.stream, number) for number in body["dispatches"]]
            return any(ended)
        if row.kind == "Scraped":
            answered = (*body["readings"], *body["same"])
            return any(name in self._names for name in answered)
        return any(body.get(name) in self._names for name in _NAMES)

    def _ended(self, stream: str, number: int) -> bool:
        known = (stream, number) in self._open
        self._open.discard((stream, number))
        return known
