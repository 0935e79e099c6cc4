"""One whole run: every measurement over every target, in alternation, several rounds of it."""

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import attrs
import click

from tests.bench.arena import Arena, Standing
from tests.bench.install import NotAvailableError
from tests.bench.load import RunFailedError
from tests.bench.rows import MEASURES, Figures, Measure, Pace
from tests.bench.targets import TARGETS

Cell = list[float | str]
"""What one target gave for one row, round by round."""


@attrs.frozen
class Results:
    """``cells`` by row and target; ``absent`` says why a target was not measured."""

    targets: tuple[str, ...]
    rows: tuple[str, ...]
    rounds: int
    cells: dict[tuple[str, str], Cell] = attrs.field(factory=dict)
    absent: dict[str, str] = attrs.field(factory=dict)

    @property
    def done(self) -> int:
        """Rounds that were begun."""
        return max((len(cell) for cell in self.cells.values()), default=0)

    def add(self, target: str, figures: Figures) -> None:
        for row, figure in figures.items():
            if row in self.rows:
                self.cells.setdefault((row, target), []).append(figure)


def run(
    arena: Arena, targets: Sequence[str], rows: Sequence[str], rounds: int, pace: Pace
) -> Results:
    """Everything; a target or figure that fails says why in its place. Ctrl-C ends it with what
    was measured so far."""
    results = Results(tuple(targets), tuple(rows), rounds)
    measures = [m for m in MEASURES if any(row.name in rows for row in m.rows)]
    with ExitStack() as stack:
        standing: dict[str, Standing] = {}
        for name in targets:
            _say(f"starting {name}")
            try:
                standing[name] = stack.enter_context(arena.standing(TARGETS[name]))
            except NotAvailableError as error:
                results.absent[name] = str(error)
        with contextlib.suppress(KeyboardInterrupt):
            for number in range(rounds):
                for measure in measures:
                    _say(f"round {number + 1} of {rounds}: {measure.name}")
                    _one_turn(arena, standing, measure, pace, number, results)
    _say("")
    return results


def _one_turn(
    arena: Arena,
    standing: Mapping[str, Standing],
    measure: Measure,
    pace: Pace,
    number: int,
    results: Results,
) -> None:
    """One measurement over all targets; back and forth, so that a drift of the machine favours
    nobody."""
    names = list(standing)
    for name in names if number % 2 == 0 else reversed(names):
        if measure.only in (None, name):
            results.add(name, _figures(arena, standing[name], measure, pace, number))


def _figures(
    arena: Arena, standing: Standing, measure: Measure, pace: Pace, number: int
) -> Figures:
    try:
        with (
            _own(arena, standing, f"{measure.name}-{number}")
            if measure.fresh
            else _same(standing) as used
        ):
            try:
                return measure.run(used, pace)
            finally:
                used.calm_down()
    except (RunFailedError, NotAvailableError) as error:
        return {row.name: str(error) for row in measure.rows}


@contextmanager
def _own(arena: Arena, standing: Standing, name: str) -> Iterator[Standing]:
    with arena.standing(standing.target, f"{standing.target.name}-{name}") as fresh:
        yield fresh


_same = contextlib.nullcontext


def _say(text: str) -> None:
    """Progress, on a terminal in one line."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{text}", err=True, nl=False)
    elif text:
        click.echo(text, err=True)
