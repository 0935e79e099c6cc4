"""Work on one log by several processes, where that is worth it.

They share nothing with this one but the path of the log, and are gone when it is, however it ends.
"""

import gc
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.context import BaseContext
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
"""Jobs a process that may wait, done or not yet, where this process works too."""

AHEAD_MEANWHILE = 12
"""The same where it has something else to do first, for a second or so: none waits for that."""

RESULTS_MAX = 64
"""Results that may wait for an earlier one where this process works too; then it waits as well."""

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
    gc.freeze()  # what a fork has of its parent is not its own to search
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


def _context() -> BaseContext:
    """How processes are started: as forks where that is safe, which spares each of them half a
    second of imports. Behind a second thread a lock may be held by nobody, and macOS' own libraries
    do not bear it."""
    alone = threading.active_count() == 1
    return get_context("fork" if sys.platform == "linux" and alone else "spawn")


def _nothing(_: Source) -> None:
    """What is given first: forks are made with it, all of them."""


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


@attrs.frozen
class _Workers:
    """Processes that do one kind of work."""

    reader: SqliteReader
    pool: ProcessPoolExecutor
    stop: Event
    work: Callable[..., Any]
    stocked: int
    """Jobs that keep all of them busy until more are given out."""

    @classmethod
    def start(
        cls, source: Source, work: Callable[..., Any], processes: int, ahead: int
    ) -> "_Workers | None":
        """None where none can be started."""
        if not isinstance(source.reader, SqliteReader):
            return None
        context = _context()
        try:
            stop = context.Event()
            own = (source.reader.path, source.lenient, stop)
            pool = ProcessPoolExecutor(processes, context, _open, own)
        except OSError:  # as where there is no shared memory
            return None
        return cls(source.reader, pool, stop, work, ahead * processes)

    def give(self, job: tuple[Any, ...]) -> Future[Any]:
        return self._submit(self.work, job)

    def _submit(self, work: Callable[..., Any], job: tuple[Any, ...]) -> Future[Any]:
        with _deaf():
            return self.pool.submit(_work, work, job)

    def until_trouble(self, results: Iterator[_T]) -> Generator[_T, None, None]:
        """Those that come before processes are killed or a job raises; then the processes end."""
        try:
            self.reader.let_go()  # a fork must not have SQLite's connections
            self._submit(_nothing, ())
            yield from results
        except (BrokenProcessPool, OSError, LogError):
            return
        finally:
            self.stop.set()
            self.pool.shutdown(wait=True, cancel_futures=True)


def in_order(
    source: Source,
    work: Callable[..., _T],
    jobs: Iterable[tuple[Any, ...]],
    processes: int,
    meanwhile: Callable[[], None] | None = None,
) -> Generator[_T, None, None]:
    """What ``work(source, *job)`` gives for each job, in their order; ``source`` is one that the
    process has for itself. Close it where not all is taken: the processes end then. ``meanwhile``
    is called as they work on the first ones, and raises nothing that is caught here.

    Ends early where processes cannot be started or are killed, or a job raises LogError or OSError:
    the rest is for the caller.
    """
    workers = _Workers.start(source, work, processes, AHEAD_MEANWHILE)
    if workers is not None:
        yield from workers.until_trouble(_as_given(workers, jobs, meanwhile))


def _as_given(
    workers: _Workers, jobs: Iterable[tuple[Any, ...]], meanwhile: Callable[[], None] | None
) -> Iterator[Any]:
    rest = iter(jobs)
    waiting = deque(map(workers.give, islice(rest, workers.stocked)))
    if meanwhile is not None:
        meanwhile()
    for job in rest:
        yield waiting.popleft().result()
        waiting.append(workers.give(job))
    while waiting:
        yield waiting.popleft().result()


def shared_out(
    source: Source,
    work: Callable[..., _T],
    jobs: Iterable[tuple[Any, ...]],
    processes: int,
) -> Generator[_T, None, None]:
    """As ``in_order``, for a caller with nothing else to do: this process is one of the
    ``processes``, and begins with the first job while the others start. ``work`` then gets another
    ``Source`` with the same reader.
    """
    workers = _Workers.start(source, work, max(1, processes - 1), AHEAD)
    if workers is not None:
        mine = attrs.evolve(source, skipped={})
        yield from workers.until_trouble(_with_own(workers, mine, iter(jobs)))


def _with_own(workers: _Workers, mine: Source, jobs: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
    waiting: deque[Future[Any]] = deque()
    for own in jobs:
        result: Future[Any] = Future()
        waiting.append(result)
        short = workers.stocked - sum(not one.done() for one in waiting) + 1
        waiting += [workers.give(job) for job in islice(jobs, max(0, short))]
        result.set_result(workers.work(mine, *own))
        while waiting and (waiting[0].done() or len(waiting) >= RESULTS_MAX):
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
