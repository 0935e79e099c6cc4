"""A process that dies, as by kill -9, at one step of beginning a new segment.

Run as ``python -m tests.eventlog.roller DIRECTORY STEP MOMENT``: it appends three rows, then one
more that needs a new segment, and is killed before or after the named step.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eventlog import sqlite as store_module
from eventlog import sqlite_segment as segment_module
from eventlog.conformance import some_entries
from eventlog.sqlite import SegmentLimits, SqliteStore
from eventlog.sqlite_segment import SegmentWriter

STEPS: dict[str, tuple[Any, str]] = {
    "fold back": (SegmentWriter, "fold_back"),
    "prepare": (segment_module, "prepare"),
    "name": (segment_module, "sync_directory"),
    "begin": (SegmentWriter, "open"),
    "close": (SegmentWriter, "close"),
    "seal": (store_module, "seal"),
}


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dies(step: Callable[..., Any], moment: str) -> Callable[..., Any]:
    def instead(*arguments: Any) -> None:
        if moment == "after":
            step(*arguments)
        die()

    return instead


def main(directory: Path, step: str, moment: str) -> None:
    store = SqliteStore.open(directory, limits=SegmentLimits(size_bytes=1))
    store.append("a", some_entries(3), 0)
    owner, name = STEPS[step]
    setattr(owner, name, dies(getattr(owner, name), moment))
    store.append("a", some_entries(1, 3), 3)
    raise AssertionError("the step was not reached")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
