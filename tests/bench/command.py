"""The command line of ``tools/bench``."""

import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from tests.bench import rows, session, soak, table
from tests.bench.arena import Arena
from tests.bench.binaries import NotBuiltError, binary
from tests.bench.install import NotAvailableError
from tests.bench.load import Generator, RunFailedError
from tests.bench.places import cache_dir, cpus, filesystem_of
from tests.bench.targets import TARGETS
from tests.bench.upstream import upstream

ROUNDS, QUICK_ROUNDS = 3, 1


def _chosen(known: list[str], given: str | None, option: str) -> list[str]:
    """The names given, in the table's order. Raises ``click.UsageError`` for unknown ones."""
    if given is None:
        return known
    names = given.split(",")
    if unknown := [name for name in names if name not in known]:
        raise click.UsageError(f"{option}: no {', '.join(unknown)}; there are {', '.join(known)}")
    return [name for name in known if name in names]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", metavar="NAME,...", help=f"Proxies: {', '.join(TARGETS)}.")
@click.option("--rows", "wanted", metavar="NAME,...", help=f"Rows: {', '.join(rows.ROWS)}.")
@click.option(
    "--rounds", type=click.IntRange(1), help=f"Default {ROUNDS}, with --quick {QUICK_ROUNDS}."
)
@click.option(
    "--quick", is_flag=True, help="Short measurements: a first look, not a figure to cite."
)
@click.option(
    "--json", "json_path", type=click.Path(path_type=Path), help="All figures of all rounds."
)
@click.option(
    "--soak",
    "minutes",
    type=click.FloatRange(0, min_open=True),
    metavar="MINUTES",
    help="Instead: trioroute alone, in trouble all the time; exit code 1 if something grew.",
)
def main(
    only: str | None,
    wanted: str | None,
    rounds: int | None,
    quick: bool,
    json_path: Path | None,
    minutes: float | None,
) -> None:
    """Measure trioroute beside other proxies, in one alternating run."""
    targets = _chosen(list(TARGETS), only, "--only")
    names = _chosen(list(rows.ROWS), wanted, "--rows")
    rounds = rounds or (QUICK_ROUNDS if quick else ROUNDS)
    began = time.monotonic()
    with _arena() as arena:
        if minutes is not None:
            _soak(arena, minutes)
            return
        results = session.run(arena, targets, names, rounds, rows.QUICK if quick else rows.Pace())
        click.echo(table.render(results))
        click.echo(_circumstances(arena, results.done, time.monotonic() - began))
    if json_path is not None:
        json_path.write_text(json.dumps(as_json(results), indent=1) + "\n")


@contextmanager
def _arena() -> Iterator[Arena]:
    """The fake replicas, the generator and an empty directory; all gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="run-", dir=cache_dir()))
    place = cpus()
    try:
        generator, replicas = Generator(binary("load"), place.load), binary("upstream")
        with upstream(replicas, place.load) as standing:
            yield Arena(directory, place, generator, standing)
    except NotBuiltError as error:
        raise click.ClickException(str(error)) from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _soak(arena: Arena, minutes: float) -> None:
    try:
        wrong = soak.soak(arena, binary("upstream"), minutes, click.echo)
    except (RunFailedError, NotAvailableError) as error:
        raise click.ClickException(f"the soak could not be run: {error}") from error
    for line in wrong:
        click.echo(f"grew or failed: {line}")
    if wrong:
        sys.exit(1)
    click.echo("nothing grew")


def _circumstances(arena: Arena, rounds: int, spent_s: float) -> str:
    place, kind = arena.cpus, filesystem_of(arena.directory)
    warning = "" if kind not in ("tmpfs", "ramfs") else ": no real disk, set XDG_CACHE_HOME"
    pinned = (
        "nothing pinned, one CPU"
        if place.proxy is None
        else f"proxy on CPU {place.proxy}, load and upstream on {place.load}"
    )
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"medians of {rounds} rounds in {spent_s:.0f} s; {pinned}; load average {load}; "
        f"log on {kind}{warning}; Python {platform.python_version()}, Linux {platform.release()}"
    )


def as_json(results: session.Results) -> dict[str, Any]:
    """Every round's figures, medians and ratios."""
    told: dict[str, Any] = {"rounds": results.rounds, "absent": results.absent, "rows": {}}
    for (row, target), cell in results.cells.items():
        entry: dict[str, Any] = {"rounds": cell, "median": table.figure(cell)}
        for other in table.AGAINST:
            entry[f"ratio to {other}"] = table.ratio(cell, results.cells.get((row, other), []))
        told["rows"].setdefault(row, {})[target] = entry
    return told
