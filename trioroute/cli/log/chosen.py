"""Which rows are of certain replicas."""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

import orjson

from eventlog import Record

_NAMES = ("replica", "home", "previous", "to")


class OfReplicas:
    """Rows that name a replica, and the ends of what was dispatched to it.

    Rows must come in order. It remembers what is in flight there, and the names it met.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._met: set[str] = set()
        self._open: set[tuple[str, int]] = set()

    def __bool__(self) -> bool:
        """Whether any are named; without, every row is of interest."""
        return bool(self._names)

    def take(self, row: Record) -> bool:
        """Whether this row is of one of them."""
        body: dict[str, Any] = orjson.loads(row.body)
        if isinstance(name := body.get("replica"), str):
            self._met.add(name)
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
            self._met.update(answered)
            return any(name in self._names for name in answered)
        return any(body.get(name) in self._names for name in _NAMES)

    def take_any(self, row: Record) -> bool:
        """The same of a row that may hold anything: then of none of them."""
        try:
            return self.take(row)
        except (KeyError, TypeError, AttributeError, ValueError):
            return False

    def unmet(self) -> list[str]:
        """A line for each name that no row had, with the one that was probably meant."""
        lines = []
        for name in self._names:
            if name not in self._met:
                near = get_close_matches(name, sorted(self._met), 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                lines.append(f"--replica {name}: no event of these names it{hint}")
        return lines

    def _ended(self, stream: str, number: int) -> bool:
        known = (stream, number) in self._open
        self._open.discard((stream, number))
        return known
