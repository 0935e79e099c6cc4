"""Waking the writer at the end of a turn of the loop, not in the middle of a task.

A writer that is woken by an offer takes the interpreter's lock at the task's next system call:
a request whose decision was just offered would reach its replica only behind the commit's Python.
At the end of the turn the loop is about to wait, and the offers of all its tasks are there.
"""

from collections.abc import Callable

import trio


class TurnsEnd(trio.abc.Instrument):
    """Calls ``ring`` before the loop waits, if it was asked for in this turn by ``due``."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self.due = False
        self._ring = ring

    def before_io_wait(self, timeout: float) -> None:
        """Called by Trio once a turn; ``timeout`` is how long it is going to wait at most."""
        if self.due:
            self.due = False
            self._ring()
