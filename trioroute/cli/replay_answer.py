"""What an answer of ``trioroute replay`` is, and the bar that is shown until it is there."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from trioroute.replay.clock import parse_point
from trioroute.replay.present import console_for
from trioroute.replay.read import Source

RULES_OF_TODAY = "rules of today"
"""How ``--verify`` is asked to count what would be decided otherwise."""


@attrs.frozen
class Answer:
    """``good`` False: a check failed. ``markdown`` and ``page`` where the question has them.
    ``lines`` prints data bit by bit, where it has no end."""

    data: Any
    show: Callable[[], None]
    good: bool = True
    markdown: Callable[[], str] | None = None
    page: Callable[[], str] | None = None
    lines: Callable[[], None] | None = None


@attrs.frozen
class Since:
    """What is asked of the rows since ``time``, None: of all."""

    what: str
    time: str | None


def since_of(source: Source, asked: Since) -> int:
    """The time in milliseconds, 0 for none; ``-1h`` is before the log's own last event.

    Raises BadQuestion, NotFound for an empty log.
    """
    return 0 if asked.time is None else parse_point(asked.time, source.last().at_ms)


@contextmanager
def shown_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal's stderr, nothing elsewhere: told what, how much is done, of how much."""
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
    with progress:
        task = progress.add_task("")
        yield lambda what, done, of: progress.update(
            task, description=what, completed=done, total=of
        )


def _shows_nothing(what: str, done: int, of: int) -> None:
    """Where nobody looks."""
