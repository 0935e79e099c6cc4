"""Lists of decisions, stories of sessions and replicas, and moments, on a screen."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trioroute.policy.explain import count
from trioroute.replay.clock import ago, at_most, local_iso, span, time_heading
from trioroute.replay.end_words import ENDS_LOST, end_words
from trioroute.replay.incident.glossary import WORDS
from trioroute.replay.present import replica_table, say, table
from trioroute.replay.requested import Delay, Listed, RequestRow
from trioroute.replay.stood import listed_words
from trioroute.replay.told import (
    DecisionRow,
    End,
    Line,
    Moment,
    ReplicaTimes,
    ReplicaTold,
    SessionTold,
)
from trioroute.replay.within import Within
from trioroute.replay.words import NOT_FAILED, plural

_ALWAYS = ("decision", "time", "replica", "reason", "outcome", "ttfb")
_IF_WIDE = ("attempt", "weight", "age", "model", "request")
WIDE = 130
"""Columns a screen needs for all; on a narrower one the latter go, for ids are never folded."""


def decision_table(rows: Iterable[DecisionRow], now_ms: int, width: int = WIDE) -> Table:
    """One line a decision, whatever the width: what it is short for, ``--decision`` tells."""
    wide = width >= WIDE
    names = (*_ALWAYS, *_IF_WIDE) if wide else _ALWAYS
    headings = [time_heading() if name == "time" else name for name in names]
    made = table(*headings, right=("weight", "attempt", "ttfb"))
    for column in made.columns:
        column.no_wrap, column.overflow = True, "ellipsis"
    for row in rows:
        end = row.end
        cells: list[str | Text] = [
            row.decision,
            local_iso(row.at_ms)[: 23 if wide else 19],
            Text(row.replica),
            row.reason,
            _outcome(end),
            span(end.ttfb_ms) if end is not None and end.ttfb_ms is not None else "",
        ]
        if wide:
            cells += [
                str(row.attempt),
                count(row.weight_m),
                ago(row.at_ms, now_ms),
                Text(row.model),
                Text(row.request_id),
            ]
        made.add_row(*cells)
    return made


def _outcome(end: End | None) -> str:
    if end is None:
        return "in flight"
    if end.what == "Unwritten":
        return "not written"
    return "router died" if end.orphaned else end.outcome


def present_listed(console: Console, told: Listed) -> None:
    chosen = "".join(f", {name} {value}" for name, value in told.where.items())
    each = "attempt" if "attempt" in told.where else "request"
    found = plural(len(told.requests) + told.left_out, each)
    between = f"{local_iso(told.from_ms)[:23]} to {local_iso(told.to_ms)[:23]}"
    say(console, f"{found}, {between}{chosen}", "bold")
    keyed = any(row.key is not None for row in told.requests)
    columns = ["request", "decision", "replica", "reason", "model", *(["key"] if keyed else [])]
    columns += ["first byte", "its client got" if each == "request" else "ended"]
    made = table(time_heading(), *columns)
    for column in made.columns[:-1]:
        column.no_wrap, column.overflow = True, "ellipsis"
    for row in told.requests:
        made.add_row(
            local_iso(row.at_ms)[:23],
            Text(row.request_id),
            row.decision or "",
            Text(_went(row) if each == "request" else row.replica or ""),
            row.reason,
            Text(row.model or ""),
            *([Text(row.key or "")] if keyed else []),
            _first_byte(row),
            _got(row) if each == "request" else _ended(row),
        )
    console.print(made)
    if told.left_out:
        say(console, f"{told.left_out} more are not shown: ask for a shorter time, or --where")
    if any(row.delay is not None for row in told.requests):
        say(console, f"delayed: {WORDS['delayed']}", "dim")
    for one in told.stood_still:
        say(console, listed_words(one), "yellow")
    say(console, "--request with an id tells its story", "dim")


def _went(row: RequestRow) -> str:
    """Where its attempts went, in order."""
    return ", ".join((*row.tried, *([row.replica] if row.replica is not None else [])))


def _first_byte(row: RequestRow) -> str:
    delay = row.delay
    if delay is None:
        return "" if row.end is None or row.end.ttfb_ms is None else span(row.end.ttfb_ms)
    return span(delay.first_byte_ms)


def _delayed(delay: Delay) -> str:
    came = "left without a byte after" if delay.left else "first byte after"
    parts = ((delay.waited_ms, "in line"), (delay.tried_ms, "in earlier attempts"))
    of = "".join(f", {span(ms)} {where}" for ms, where in parts if ms)
    return f"{came} {span(delay.first_byte_ms)}{of}; {span(delay.usual_ttfb_ms)} is usual"


def _got(row: RequestRow) -> str:
    if row.client is None:
        return "nothing yet: in flight where the log ends, or long after this time"
    late = "" if row.delay is None else f"; {_delayed(row.delay)}"
    if row.end is not None and row.end.what == "Died":
        return f"{row.client}, {span(row.end.after_ms)} later or after"
    if row.end is not None and row.end.what == "Orphaned":  # the row is that of the next start
        return f"{row.client}, within {span(row.end.after_ms)}"
    if row.end is not None and row.end.what == "Unwritten":
        return row.client
    return row.client if row.end is None else f"{row.client}, after {span(row.end.after_ms)}{late}"


def _ended(row: RequestRow) -> str:
    end = row.end
    if end is None:
        return "in flight"
    if end.orphaned:
        return f"unknown: {ENDS_LOST if end.what == 'Unwritten' else 'the router died'}"
    words = end_words(end.outcome, end.cause, end.blame, end.status, judged=False)
    return f"{words} after {span(end.after_ms)}"


def _lines(lines: Iterable[Line]) -> Table:
    made = table(time_heading(), "at", "what")
    for line in lines:
        times = f" (x{line.times})" if line.times > 1 else ""
        made.add_row(local_iso(line.at_ms)[:23], line.place, Text(line.text + times))
    return made


def _left_out(console: Console, number: int) -> None:
    if number:
        say(console, f"{plural(number, 'earlier line')} left out")


def present_session(console: Console, told: SessionTold, now_ms: int) -> None:
    replicas: dict[str, int] = {}
    for row in told.decisions:
        replicas[row.replica] = replicas.get(row.replica, 0) + 1
    where = ", ".join(f"{name} {number}" for name, number in replicas.items())
    say(
        console,
        f"session {', '.join(told.keys)}: {plural(len(told.decisions), 'decision')} ({where})",
        "bold",
    )
    _left_out(console, told.left_out)
    console.print(decision_table(told.decisions, now_ms, console.width))
    console.print()
    say(console, plural(len(told.pin_events), "pin event"), "bold")
    console.print(_lines(told.pin_events))
    if told.stood:
        console.print()
        say(console, "the router itself stood still", "bold")
        console.print(_lines(told.stood))


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items()) or "none"


def present_replica(console: Console, told: ReplicaTold) -> None:
    total = sum(told.dispatches.values())
    within = Within(told.since_ms or 0, told.until_ms).words()
    say(
        console,
        f"{told.name}{within and f', {within}'}: {plural(total, 'dispatch', 'dispatches')}, "
        f"{told.in_flight} of them in flight",
        "bold",
    )
    say(console, f"by reason   {_counts(told.dispatches)}")
    say(console, f"endings     {_counts(told.endings)}")
    say(console, f"times       {_times(told.times)}")
    console.print()
    if told.history:
        _left_out(console, told.left_out)
        console.print(_lines(told.history))
    else:
        say(console, f"history     none: its health did not change in this time{_which(told)}")


def _which(told: ReplicaTold) -> str:
    """How to see the attempts that failed there, where any did."""
    if not told.endings.keys() - NOT_FAILED:
        return ""
    return f"; --requests --where replica={told.name} --where attempt=failed lists what failed"


def _times(told: ReplicaTimes) -> str:
    if not told.answers:
        return "no good answer tells any"
    first = ", ".join(_within(told.ttfb_p50_ms, told.ttfb_p99_ms))
    whole = ", ".join(_within(told.duration_p50_ms, told.duration_p99_ms))
    return f"first byte {first}; whole answer {whole} (at most an eighth too long)"


def _within(median_ms: int | None, most_ms: int | None) -> list[str]:
    named = (("median", median_ms), ("99 %", most_ms))
    return [f"{name} {'?' if ms is None else at_most(ms)}" for name, ms in named]


def present_moment(console: Console, moment: Moment, now_ms: int) -> None:
    when = f"{moment.at} ({ago(moment.at_ms, now_ms)})"
    say(console, f"{moment.router} at {when}, after {moment.router}/{moment.position}", "bold")
    if moment.down is not None:
        say(console, f"{moment.down}; what follows is what its last row left", "bold red")
    if moment.stood is not None:
        say(console, f"{moment.stood}; what follows is what its last row left", "bold red")
    say(
        console,
        f"pins: {moment.session_pins} session, {moment.prefix_pins} prefix; in flight: "
        f"{moment.in_flight}; imbalance: {count(moment.imbalance_m)}",
    )
    console.print()
    console.print(replica_table(moment.replicas))
    if moment.oldest:
        console.print()
        made = table("oldest in flight", "request", "model", "replica", "weight", "running for")
        for flight in moment.oldest:
            made.add_row(
                flight.decision,
                Text(flight.request_id),
                Text(flight.model),
                Text(flight.replica),
                count(flight.weight_m),
                span(flight.age_ms),
            )
        console.print(made)
