"""``trioroute simulate``: what each routing policy does to the same traffic, in virtual time."""

import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from eventlog.errors import LogError
from trioroute.cli.named import Named
from trioroute.settings import SettingsError
from trioroute.simulate.compare import (
    BadPolicy,
    Comparison,
    Contender,
    Outcome,
    contenders,
    median_of,
)
from trioroute.simulate.faults import BadFault, parse_fault
from trioroute.simulate.profiles import PROFILES
from trioroute.simulate.report import as_data, show
from trioroute.simulate.script import at_rate, cut
from trioroute.simulate.sinks import LogInTheWay, StoredLog
from trioroute.simulate.traces import BadWorkload
from trioroute.simulate.workloads import workload_of
from trioroute.terminal import Terminal

_EXAMPLE = """
\b
Examples:
  trioroute simulate --workload agents:32 --policy all
  trioroute simulate --workload conversation --rate 0.7 --policy soft-sticky --policy prefix-tree
  trioroute simulate --workload chat:rate=4,turns=6 --set policy.slack.session=4
  trioroute simulate --workload agents:16 --policy soft-sticky,policy.load=literal
  trioroute simulate --workload agents:8 --fault replica=1,down=60..120 --log sim-log
"""


@click.command("simulate", epilog=_EXAMPLE)
@click.option(
    "--workload",
    default="agents:16",
    show_default=True,
    metavar="WORKLOAD",
    help="agents:N, chat:rate=2,turns=4, conversation, or FILE.jsonl[.gz]: a trace in Mooncake's "
    "format or an exported event log.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    default=("soft-sticky",),
    show_default=True,
    metavar="NAME[,KEY=VALUE...]",
    help="A policy or baseline, with settings of its own; repeat for more; all = every one.",
)
@click.option("--replicas", default=4, show_default=True, type=click.IntRange(1, 1000))
@click.option(
    "--engine",
    default="a100",
    show_default=True,
    type=Named(list(PROFILES)),
    help="Profile.",
)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
@click.option(
    "--seeds",
    default=1,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="So many runs from --seed on, of which the table has each column's median.",
)
@click.option("--requests", type=click.IntRange(1), metavar="N", help="Only the first N requests.")
@click.option(
    "--rate",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0, 1000, min_open=True),
    help="Clients begin this much more densely: 0.7 stretches a trace.",
)
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="A setting, for all.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="replica=N,KIND=...",
    help="down=60..120, freeze=60..120, slow=3@60..120, flap=10/10..3600, drain=60..120 (seconds).",
)
@click.option(
    "--log",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the event log of the run, for trioroute replay; one policy, no baseline.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
def simulate_command(
    workload: str,
    policies: tuple[str, ...],
    replicas: int,
    engine: str,
    seed: int,
    seeds: int,
    requests: int | None,
    rate: float,
    sets: tuple[str, ...],
    faults: tuple[str, ...],
    log: Path | None,
    as_json: bool,
) -> None:
    """Compare routing policies and baselines on the same traffic, in virtual time.

    The engines are modelled, the router is the one that serves. The same seed gives the same
    output. Exit codes: 0 ok, 2 wrong usage.
    """
    with _usage():
        chosen = contenders(policies, _changes(sets))
        if log is not None and (len(chosen) != 1 or chosen[0].is_baseline or seeds > 1):
            raise click.UsageError(
                "--log needs one seed and one policy of trioroute's own, such as soft-sticky"
            )
        comparisons = []
        for each in range(seed, seed + seeds):
            wanted = at_rate(workload_of(workload, each), rate)
            comparisons.append(
                Comparison(
                    workload=wanted if requests is None else cut(wanted, requests),
                    engine=PROFILES[engine],
                    replicas=replicas,
                    seed=each,
                    faults=tuple(one for text in faults for one in parse_fault(text, replicas)),
                )
            )
        outcomes = _run(comparisons, chosen, log)
    if as_json:
        click.echo(json.dumps(as_data(comparisons, outcomes)))
    else:
        show(comparisons, outcomes, Terminal(highlight=False))


@contextmanager
def _usage() -> Iterator[None]:
    """What the user can mend becomes a usage error, exit code 2."""
    try:
        yield
    except SettingsError as error:
        raise click.UsageError("; ".join(str(problem) for problem in error.problems)) from None
    except (BadWorkload, BadPolicy, BadFault, LogInTheWay, LogError, OSError) as error:
        raise click.UsageError(str(error)) from None


def _changes(sets: tuple[str, ...]) -> dict[str, object]:
    changes: dict[str, object] = {}
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--set {text}: needs KEY=VALUE, e.g. policy.slack.session=4")
        changes[key] = value
    return changes


def _run(
    comparisons: list[Comparison], chosen: tuple[Contender, ...], log: Path | None
) -> list[Outcome]:
    """Every contender's runs, under a progress bar where someone is watching."""
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Terminal(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    each = sum(comparison.workload.requests for comparison in comparisons)
    outcomes: list[Outcome] = []
    over = 0
    with progress:
        task = progress.add_task("", total=each * len(chosen))

        def on_ended(ended: int) -> None:
            progress.update(task, completed=over + ended)

        for contender in chosen:
            progress.update(task, description=contender.name)
            runs = []
            for comparison in comparisons:
                if log is None:
                    runs.append(comparison.run(contender, on_ended=on_ended))
                else:
                    with closing(StoredLog(log)) as stored:
                        runs.append(comparison.run(contender, stored, on_ended))
                over += comparison.workload.requests
            outcomes.append(median_of(runs))
    return outcomes
