"""What an answer of ``trioroute replay`` is, and the bar that is shown until it is there."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from trioroute.replay.present import console_for

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


@contextmanager
def shown_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal's stderr, nothing elsewhere: told what, how much is done, of how much."""
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console_for(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with progress:
        task = progress.add_task("")
        yield lambda what, done, of: progress.update(
            task, description=what, completed=done, total=of
        )
