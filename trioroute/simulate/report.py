"""The result as people and scripts read it."""

from collections.abc import Sequence
from typing import Any

import attrs
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from trioroute.counted import plural
from trioroute.simulate.compare import Comparison, Outcome

DIGITS = 4
PIPED_WIDTH = 160
POLICY_WIDTH = 16
"""Columns that a policy's name gets at least: the longest of those that come alone."""


def as_data(comparisons: Sequence[Comparison], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """What ``--json`` prints (INTERFACE 7); ``seeds`` only where there are several."""
    comparison = comparisons[0]
    several = {"seeds": len(comparisons)} if len(comparisons) > 1 else {}
    return {
        "workload": comparison.workload.name,
        "replicas": comparison.replicas,
        "engine": comparison.engine.name,
        "seed": comparison.seed,
        **several,
        "policies": [_row(outcome) for outcome in outcomes],
    }


def _row(outcome: Outcome) -> dict[str, Any]:
    fields = attrs.asdict(outcome)
    return {
        name: round(value, DIGITS) if isinstance(value, float) else value
        for name, value in fields.items()
    }


_TIMES = (
    ("ttft_mean_s", "TTFT mean s", ".3f"),
    ("ttft_p50_s", "p50", ".3f"),
    ("ttft_p90_s", "p90", ".3f"),
    ("ttft_p99_s", "p99", ".3f"),
    ("e2e_mean_s", "end to end s", ".2f"),
    ("e2e_p99_s", "p99", ".2f"),
)
_SPREAD = (
    ("prefix_hit_ratio", "prefix hits", ".3f"),
    ("max_share_5m", "5 min share", ".3f"),
    ("imbalance_index", "imbalance", ".2f"),
    ("spills", "spills", "d"),
    ("rebinds", "rebinds", "d"),
    ("errors", "errors", "d"),
)
_MEANT = (
    "TTFT: from a request's arrival to its first token; end to end: to its last one; in seconds,"
    " mean and percentiles. prefix hits: share of prompt tokens found in a cache. 5 min share: the"
    " largest part of the requests that one replica got in any five minutes. imbalance: how many"
    " more requests run on the fullest replica than on the emptiest, on average. spills: requests"
    " that went elsewhere than their pin said. rebinds: pins that moved to another replica. errors:"
    " requests that did not end well, they have no times."
)
"""Under the table: what its columns are."""

_Columns = tuple[tuple[str, str, str], ...]


def show(comparisons: Sequence[Comparison], outcomes: Sequence[Outcome], console: Console) -> None:
    """Print the table: plain and wide when piped, in two halves where a terminal is narrow."""
    if not console.is_terminal:
        console.width = max(console.width, PIPED_WIDTH)
    comparison = comparisons[0]
    workload = comparison.workload
    seeds = f"seed {comparison.seed}"
    if len(comparisons) > 1:
        seeds = f"medians of seeds {comparison.seed} to {comparisons[-1].seed}"
    console.print(
        f"{workload.name}: {plural(workload.requests, 'request')} on {comparison.replicas} x "
        f"{comparison.engine.name}, {seeds}; a simulation in virtual time",
        markup=False,
        soft_wrap=True,
    )
    whole = _table((*_TIMES, *_SPREAD), outcomes)
    unbounded = console.options.update(max_width=10_000)
    if Measurement.get(console, unbounded, whole).minimum <= console.width:
        console.print(whole)
    else:
        console.print(_table(_TIMES, outcomes))
        console.print()
        console.print(_table(_SPREAD, outcomes))
    console.print()
    console.print(_MEANT, style="dim", markup=False, highlight=False)


def _table(columns: _Columns, outcomes: Sequence[Outcome]) -> Table:
    """Numbers are never cut short; a long policy is folded instead."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    longest = max((len(outcome.policy) for outcome in outcomes), default=0)
    table.add_column("policy", overflow="fold", min_width=min(longest, POLICY_WIDTH))
    rows = [
        [format(getattr(outcome, name), form) for name, _, form in columns] for outcome in outcomes
    ]
    for at, (_, title, _) in enumerate(columns):
        least = max((len(row[at]) for row in rows), default=0)
        table.add_column(title, justify="right", overflow="fold", min_width=least)
    for outcome, row in zip(outcomes, rows, strict=True):
        table.add_row(Text(outcome.policy), *row)
    return table
