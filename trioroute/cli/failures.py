"""What every command says on stderr: ``Error: ...`` before it ends, ``Warning: ...`` if it goes on.

The words are those of click, which tells wrong usage.
"""

import sys
from collections.abc import Callable, Iterable
from typing import NoReturn

import click


def fail(text: str, code: int = 1) -> NoReturn:
    """Say what is wrong and end."""
    click.echo(f"Error: {text}", err=True)
    sys.exit(code)


def warn(text: str) -> None:
    """Say it and go on."""
    click.echo(f"Warning: {text}", err=True)


def fail_for_all(errors: Iterable[object], code: int = 1) -> NoReturn:
    """The same with one line for each, those that say the same once."""
    for text in dict.fromkeys(str(error) for error in errors):
        click.echo(f"Error: {text}", err=True)
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
