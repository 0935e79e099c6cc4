"""The answer to ``--what-if`` on a screen: the exact part first, then what is simulated."""

from typing import Any

import attrs
from rich.console import Console
from rich.text import Text

from trioroute.counted import plural
from trioroute.replay.clock import local_iso
from trioroute.replay.present import replica_table, say, step_words, table, work_table
from trioroute.replay.present_rest import present_rest
from trioroute.replay.rest import Rest
from trioroute.replay.told import as_json
from trioroute.replay.what_if import Exact, FirstDifference, Side
from trioroute.replay.within import Within


@attrs.frozen(kw_only=True)
class Changed:
    """A key, what was in force for it last, and what was asked."""

    key: str
    recorded: str
    changed: str


@attrs.frozen(kw_only=True)
class WhatIf:
    """The whole answer; ``within`` None: of the whole log."""

    changes: tuple[Changed, ...]
    within: Within | None
    notes: tuple[str, ...]
    exact: Exact
    rest: Rest


def what_if_data(told: WhatIf) -> dict[str, Any]:
    """The same as data."""
    exact = told.exact
    return {
        "changes": [as_json(one) for one in told.changes],
        "notes": list(told.notes),
        "exact": {
            "begin_ms": exact.begin_ms,
            "end_ms": exact.end_ms,
            "events": exact.events,
            "decisions": exact.decisions,
            "differ": exact.differ,
            "unproved": exact.unproved,
            "by_kind": dict(exact.kinds),
            "causes": [as_json(one) for one in _causes(exact)],
            "first": None if exact.first is None else as_json(exact.first),
        },
        "simulated": as_json(told.rest),
    }


def present_what_if(console: Console, told: WhatIf) -> None:
    """The whole answer; the numbers before the words, what is exact before what is simulated."""
    for one in told.changes:
        say(console, f"what if   {one.key} = {one.changed} (recorded: {one.recorded})", "bold")
    for note in told.notes:
        say(console, f"note      {note}", "yellow")
    if told.within is not None:
        begin, end = local_iso(told.exact.begin_ms), local_iso(told.exact.end_ms)
        say(console, f"decisions of {begin[:19]} to {end[:19]}")
    _counts(console, told.exact)
    if told.exact.first is not None:
        console.print()
        _first(console, told.exact.first)
    console.print()
    present_rest(console, told.rest)


def _causes(exact: Exact) -> list[Any]:
    return sorted(exact.causes.values(), key=lambda one: -one.count)


def _counts(console: Console, exact: Exact) -> None:
    kinds = exact.kinds
    say(
        console,
        f"exact     {exact.differ} of {plural(exact.decisions, 'decision')} would have been "
        "others, each taken again from its own recorded past:",
        "bold",
    )
    say(
        console,
        f"          {kinds['replica']} to another replica, {kinds['reason']} for another reason, "
        f"{kinds['pins']} in their pins only",
    )
    if exact.unproved:
        say(
            console,
            f"note      {exact.unproved} more come out otherwise today without any change: they "
            "are left out; --verify shows the first",
            "yellow",
        )
    if exact.causes:
        made = table("decisions", "what would have been", "first", right=("decisions",))
        for cause in _causes(exact):
            made.add_row(str(cause.count), Text(cause.cause), Text(cause.first))
        console.print(made)


def _first(console: Console, first: FirstDifference) -> None:
    say(
        console,
        f"first     {first.decision} at {first.at}, request {first.request_id}: {first.cause}",
        "bold",
    )
    _replicas(console, first.recorded, "recorded")
    if first.changed.replicas != first.recorded.replicas or first.changed.work:
        _replicas(console, first.changed, "changed")
    made = table("", "recorded", "changed")
    for name, was, now in _rows(first.recorded, first.changed):
        made.add_row("" if was == now else "!", Text(f"{name}{was}"), Text(f"{name}{now}"))
    console.print(made)


def _replicas(console: Console, side: Side, which: str) -> None:
    say(console, f"{which:<9} what {side.policy} saw:")
    if side.work:
        console.print(work_table(side.replicas, side.work, side.replica))
    else:
        console.print(replica_table(side.replicas, side.replica))


def _rows(was: Side, now: Side) -> list[tuple[str, str, str]]:
    rows = [
        ("policy ", was.policy, now.policy),
        ("goes to ", _went(was), _went(now)),
        ("because ", was.because, now.because),
    ]
    rows += [
        ("", step_words(before), step_words(after))
        for before, after in zip(was.steps, now.steps, strict=True)
    ]
    most = max(len(was.events), len(now.events))
    rows += [("then ", _event(was, at), _event(now, at)) for at in range(1, most)]
    return rows


def _went(side: Side) -> str:
    return f"{side.replica}, {side.reason}" if side.replica is not None else "no replica"


def _event(side: Side, at: int) -> str:
    if at >= len(side.events):
        return "(nothing)"
    event = side.events[at]
    rest = " ".join(f"{key}={value}" for key, value in event.items() if key != "event")
    return f"{event['event']} {rest}"
