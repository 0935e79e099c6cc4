"""What an answer of ``trioroute replay`` is, and the bar that is shown until it is there."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from trioroute.replay.present import console_for
from trioroute.replay.read import Source
from trioroute.replay.within import ALL, Within

RULES_OF_TODAY = "rules of today"
"""How ``--verify`` is asked to count what would be decided otherwise."""


@attrs.frozen
class Answer:
    """``good`` False: a check failed. ``markdown`` and ``page`` where the question has them.
    ``lines`` prints data bit by bit, where it has no end. ``behind`` is called when the answer is
    out, for what takes longer."""

    data: Any
    show: Callable[[], None]
    good: bool = True
    markdown: Callable[[], str] | None = None
    page: Callable[[], str] | None = None
    lines: Callable[[], None] | None = None
    behind: Callable[[], None] | None = None


@attrs.frozen
class Asked:
    """What is asked of the rows between two times, None: from the first one, to the last one; or of
    those about ``only`` one replica or session, None: of all. ``where``: KEY=VALUE of requests."""

    what: Any
    since: str | None = None
    until: str | None = None
    only: str | None = None
    where: tuple[str, ...] = ()

    def within(self, source: Source) -> Within:
        """``-1h`` is before the log's own last event. Raises BadQuestion, NotFound for an empty
        log."""
        if self.since is None and self.until is None:
            return ALL
        return Within.parse(self.since, self.until, source.last().at_ms, source.first_ms())


@contextmanager
def shown_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal's stderr, nothing elsewhere: told what, how much is done, of how much.

    It is there from the first word on: processes that read were forked before its thread is."""
    if not sys.stderr.isatty():
        yield _shows_nothing
        return
    from rich.progress import (  # here: most questions are answered before a bar would show
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console_for(stderr=True),
        transient=True,
    )
    task = progress.add_task("")

    def tell(what: str, done: int, of: int) -> None:
        progress.start()
        progress.update(task, description=what, completed=done, total=of)

    try:
        yield tell
    finally:
        progress.stop()


def _shows_nothing(what: str, done: int, of: int) -> None:
    """Where nobody looks."""
