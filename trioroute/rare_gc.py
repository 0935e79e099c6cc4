"""Python's search for reference cycles, made rare while a log is read.

Reading and folding make objects by the million and no cycle; looking for one every 700 of them
takes a quarter of the time.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLD = 100_000
"""Objects more than before until it looks again: some ten megabytes."""


@contextmanager
def rare_gc() -> Iterator[None]:
    """Within it the search is rare. For programs of one thread, or before a router serves: the
    threshold is the whole process's."""
    before = gc.get_threshold()
    gc.set_threshold(THRESHOLD, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
