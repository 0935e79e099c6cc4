"""What every command says on stderr: ``Error: ...`` before it ends, ``Warning: ...`` if it goes on.

The words are those of click, which tells wrong usage.
"""

import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

import click

from trioroute.printable import printable


def fail(text: str, code: int = 1) -> NoReturn:
    """Say what is wrong and end."""
    click.echo(printable(f"Error: {text}"), err=True)
    sys.exit(code)


def warn(text: str) -> None:
    """Say it and go on."""
    click.echo(printable(f"Warning: {text}"), err=True)


STDOUT = "the standard output"


def disk_words(error: OSError) -> str:
    """What the system says of a file or a disk: the place, the reason, and what helps."""
    from eventlog.errors import REMEDIES  # here: a command that goes well needs none of it

    told = str(error) if error.strerror is None else error.strerror
    place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    remedy = REMEDIES.get(error.errno or 0, "")
    return f"{place}{told}" + (f": {remedy}" if remedy else "")


@contextmanager
def heard() -> Iterator[None]:
    """Where a full disk takes no more of what is printed, say so: as an error of the command."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:  # it is, where the descriptor was closed at the start
                with suppress(BrokenPipeError, ValueError):  # who reads it has enough; closed
                    sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        # Python's own flush at the end would complain once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        fail(f"{STDOUT}: {disk_words(error)}", 2)


def fail_for_all(errors: Iterable[object], code: int = 1) -> NoReturn:
    """The same with one line for each, those that say the same once."""
    for text in dict.fromkeys(str(error) for error in errors):
        click.echo(printable(f"Error: {text}"), err=True)
    sys.exit(code)


def end_in_words(run: Callable[[], object], expected: tuple[type[Exception], ...]) -> None:
    """Run; turn expected failures, alone or in groups, into lines on stderr and exit 1.

    Anything else is a fault of ours and shows its trace.
    """
    try:
        run()
    except expected as error:
        fail(str(error))
    except BaseExceptionGroup as group:
        known, rest = group.split(expected)
        if rest is not None or known is None:
            raise
        fail_for_all(_leaves(known))


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
