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

from trioroute.cli.start import INTERRUPTED
from trioroute.printable import printable


def fail(text: str, code: int = 1) -> NoReturn:
    """Say what is wrong and end."""
    click.echo(printable(f"Error: {text}"), err=True)
    sys.exit(code)


def warn(text: str) -> None:
    """Say it and go on."""
    click.echo(printable(f"Warning: {text}"), err=True)


STDOUT = "the standard output"

READER_GONE = 141
"""The exit code where the reader of a pipe had enough, as `| head` has: what a shell tells of a
tool that died of SIGPIPE. Not 0, which says that a check went well, nor 1, that it failed."""


def disk_words(error: OSError) -> str:
    """What the system says of a file or a disk: the place, the reason, and what helps."""
    from eventlog.errors import REMEDIES  # here: a command that goes well needs none of it

    told = str(error) if error.strerror is None else error.strerror
    place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    remedy = REMEDIES.get(error.errno or 0, "")
    return f"{place}{told}" + (f": {remedy}" if remedy else "")


@contextmanager
def heard() -> Iterator[None]:
    """End where nobody takes what is printed: quietly if the reader of a pipe has enough, as an
    error of the command if a disk is full."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:  # it is, where the descriptor was closed at the start
                with suppress(ValueError):  # closed
                    sys.stdout.flush()
    except BrokenPipeError:
        _print_no_more()
        sys.exit(READER_GONE)
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _print_no_more()
        fail(f"{STDOUT}: {disk_words(error)}", 2)


@contextmanager
def interrupted() -> Iterator[None]:
    """End where Ctrl-C came through, be it alone or out of a nursery."""
    came = False
    try:
        yield
    except* KeyboardInterrupt:
        came = True
    if came:
        _print_no_more()  # a full pipe would hold the end up
        sys.exit(INTERRUPTED)


def _print_no_more() -> None:
    """What is left goes nowhere, or Python's own flush at the end would complain or wait."""
    with suppress(OSError, ValueError, AttributeError):  # there is none
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    except BrokenPipeError:  # who reads what is printed has enough
        raise
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
