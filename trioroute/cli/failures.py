"""Ending a command with one line for each thing that went wrong."""

import sys
from collections.abc import Callable
from typing import NoReturn

import click


def end_in_words(run: Callable[[], object], expected: tuple[type[Exception], ...]) -> None:
    """Run; turn expected failures, alone or in groups, into lines on stderr and exit 1.

    Anything else is a fault of ours and shows its trace.
    """
    try:
        run()
    except expected as error:
        _fail([error])
    except BaseExceptionGroup as group:
        known, rest = group.split(expected)
        if rest is not None or known is None:
            raise
        _fail(_leaves(known))


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def _fail(errors: list[BaseException] | list[Exception]) -> NoReturn:
    for text in dict.fromkeys(str(error) for error in errors):
        click.echo(f"trioroute: {text}", err=True)
    sys.exit(1)
