"""Work on one log by several processes, where that is worth it.

They share nothing with this one but the path of the log, and are gone when it is, however it ends.
"""

import gc
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, TypeVar

import attrs

from eventlog.errors import LogError
from eventlog.reading import SqliteReader
from eventlog.snapshots import Snapshots
from trioroute.rare_gc import THRESHOLD
from trioroute.replay.read import Source

AHEAD = 2
"""Jobs a process that may wait, done or not yet."""

PROCESSES_MAX = 8
"""Whoever takes the results is busy with what so many processes give."""

_T = TypeVar("_T")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_cores(source: Source) -> int:
    """How many processes may work on the log; 0 where this one does as well alone."""
    free = min(cores() - source.spared_cores, PROCESSES_MAX)
    return free if free > 1 else 0


@attrs.frozen
class _Mine:
    """What a process has of its own."""

    source: Source
    stop: Event


_mine: list[_Mine] = []


def told_to_stop() -> bool:
    """Whether nobody waits any more for what this process works on; a long job asks often."""
    return bool(_mine) and _mine[0].stop.is_set()


def _open(path: Path, lenient: bool, stop: Event) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    gc.set_threshold(THRESHOLD)
    source = Source(SqliteReader.open(path), lenient)
    if path.is_dir():
        source.snapshots = Snapshots(path)
    _mine.append(_Mine(source, stop))


def _end_with_parent() -> None:
    """One that was killed could not say that it needs nothing any more."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(work: Callable[..., _T], job: tuple[Any, ...]) -> _T:
    return work(_mine[0].source, *job)


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that are started within do not hear Ctrl-C, from their first moment on: it is for
    who started them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def in_order(
    source: Source,
    work: Callable[..., _T],
    jobs: Iterable[tuple[Any, ...]],
    processes: int,
    meanwhile: Callable[[], None] | None = None,
) -> Generator[_T, None, None]:
    """What ``work(source, *job)`` gives for each job, in their order; ``source`` is one that the
    process has for itself. Close it where not all is taken: the processes end then. ``meanwhile``
    is called while they start, which takes half a second, and raises nothing that is caught here.

    Ends early where processes cannot be started or are killed, or a job raises LogError or OSError:
    the rest is for the caller.
    """
    if not isinstance(source.reader, SqliteReader):
        return
    context = get_context("spawn")
    waiting: deque[Future[_T]] = deque()
    try:
        stop = context.Event()
        own = (source.reader.path, source.lenient, stop)
        pool = ProcessPoolExecutor(processes, context, _open, own)
    except OSError:  # as where there is no shared memory
        return
    try:
        for job in jobs:
            with _deaf():
                waiting.append(pool.submit(_work, work, job))
            if len(waiting) < AHEAD * processes:
                continue
            if meanwhile is not None:
                meanwhile()
                meanwhile = None
            yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except (BrokenProcessPool, OSError, LogError):
        return
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
