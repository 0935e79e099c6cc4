"""The rows that a question is about: those of a span of time, or all."""

import attrs

from trioroute.replay.clock import local_iso, parse_point, parse_span
from trioroute.replay.read import NotFound, Source


@attrs.frozen
class Within:
    """Rows from the first one of ``since_ms`` (0: of the log) to the last one of ``until_ms``
    (None: that the log has when it is asked)."""

    since_ms: int = 0
    until_ms: int | None = None

    @classmethod
    def parse(
        cls, since: str | None, until: str | None, last_ms: int, first_ms: int = 0
    ) -> "Within":
        """Of times as people write them, None: without such an end; see ``parse_span``.

        Raises BadQuestion.
        """
        if since is None:
            return cls(until_ms=None if until is None else parse_point(until, last_ms, first_ms))
        if until is None:
            return cls(parse_point(since, last_ms, first_ms))
        return cls(*parse_span(f"{since}/{until}", last_ms, first_ms))

    def rows(self, source: Source) -> tuple[int, int]:
        """The row before the first one, and the last one. Raises NotFound where none is between,
        but for an empty log that is asked for all."""
        oldest, end = source.reader.read(0, 1), source.reader.head().seq
        after = oldest[0].seq - 1 if oldest else end
        if self.since_ms:
            after = max(after, source.reader.last_until(self.since_ms - 1))
        if self.until_ms is not None:
            end = min(end, source.reader.last_until(self.until_ms))
        if after >= end and self != ALL:
            raise NotFound(f"the log has no event {self.words()}{_holds(source)}")
        return after, end

    def words(self) -> str:
        """``since ..``, ``until ..`` or ``between .. and ..``; empty for all."""
        if self.until_ms is None:
            return f"since {local_iso(self.since_ms)}" if self.since_ms else ""
        if not self.since_ms:
            return f"until {local_iso(self.until_ms)}"
        return f"between {local_iso(self.since_ms)} and {local_iso(self.until_ms)}"


ALL = Within()


def _holds(source: Source) -> str:
    oldest = source.reader.read(0, 1)
    if not oldest:
        return ": the log is empty"
    return f": it holds {local_iso(oldest[0].at_ms)} to {local_iso(source.last().at_ms)}"
