"""What the commands of ``trioroute log`` have in common: how they fail and show progress."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from eventlog import LogDamaged, LogError
from trioroute.cli.failures import disk_words, fail
from trioroute.events import UnreadableEvent
from trioroute.rare_gc import rare_gc
from trioroute.replay.present import console_for

CHECK_FAILED = 1
CANNOT = 2

log_argument = click.argument("log", metavar="LOG", type=click.Path(path_type=Path))
json_option = click.option("--json", "as_data", is_flag=True, help="The same as JSON.")


@contextmanager
def failures() -> Iterator[None]:
    """Errors become one line on stderr and an exit code: 1 for damage, 2 for what cannot be."""
    try:
        with rare_gc():
            yield
    except LogDamaged as error:
        fail(str(error), CHECK_FAILED)
    except BrokenPipeError:  # who reads us has enough, like `head`
        raise
    except (LogError, UnreadableEvent) as error:
        fail(str(error), CANNOT)
    except OSError as error:
        fail(disk_words(error), CANNOT)


class Bar:
    """A progress bar on a terminal, nothing elsewhere. Call it with what is done and what there is
    in all. It is there from the first call on: processes were forked before its thread is."""

    def __init__(self, what: str, *, shown: bool = True) -> None:
        self._progress = Progress(
            what,
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console_for(stderr=True),
            transient=True,
            disable=not (shown and sys.stderr.isatty()),
        )
        self._task = self._progress.add_task(what)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, done: int, total: int) -> None:
        self._progress.start()
        self._progress.update(self._task, completed=done, total=total)
