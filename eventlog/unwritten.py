"""What a run could not write at its end, told beside the log: the next run says it in the log.

A disk that is full, or fails, takes no row of it; the lock file has its block already.
"""

import re

import attrs

_LINE = re.compile(rb"unwritten (\d{1,15}) (\d{1,15}) (\d{1,19}) (\d{1,19}) (\d{1,15})\n")


@attrs.frozen
class Unwritten:
    """``events`` behind version ``after`` of its stream, offered from ``from_ms`` on to the end of
    the run at ``to_ms``; ``responses`` had gone out before their decision was in the log."""

    after: int
    events: int
    from_ms: int
    to_ms: int
    responses: int = 0

    def behind(self, earlier: "Unwritten | None") -> "Unwritten":
        """With what a run before could not write either, where nothing was written in between."""
        if earlier is None or earlier.after != self.after:
            return self
        return attrs.evolve(
            self,
            events=earlier.events + self.events,
            from_ms=min(earlier.from_ms, self.from_ms),
            responses=earlier.responses + self.responses,
        )

    def line(self) -> bytes:
        """As it lies in the lock file."""
        told = (self.after, self.events, self.from_ms, self.to_ms, self.responses)
        return b"unwritten %d %d %d %d %d\n" % told


def left_in(text: bytes) -> Unwritten | None:
    """As ``unwritten_in`` of the last line: the owner's own may stand before it."""
    begin = text.find(b"unwritten ")
    return unwritten_in(text[begin:]) if begin >= 0 else None


def unwritten_in(text: bytes) -> Unwritten | None:
    """None where ``text`` is not exactly such a line."""
    found = _LINE.fullmatch(text)
    return None if found is None else Unwritten(*map(int, found.groups()))
