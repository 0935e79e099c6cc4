"""One decision on a screen: plain sentences first, then tables."""

import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any, TextIO, cast

import attrs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trioroute.policy.explain import Step, count
from trioroute.replay.clock import ago, span
from trioroute.replay.end_words import ended_in_full
from trioroute.replay.told import Attempt, Followed, ReplicaSeen, Told, WorkSeen
from trioroute.replay.words import plural
from trioroute.terminal import Terminal

PIPED_WIDTH = 160
"""Columns of text that goes into a file or a pipe: wide enough that no table breaks its lines."""


def console_for(*, stderr: bool = False) -> Console:
    """A terminal's own width and colours; plain and wide when piped."""
    console = Terminal(stderr=stderr, highlight=False, soft_wrap=False)
    if console.is_terminal:
        return console
    file = cast("IO[str]", _Trimmed(sys.stderr if stderr else sys.stdout))
    width = max(console.width, PIPED_WIDTH)
    return Terminal(file=file, width=width, highlight=False, soft_wrap=False)


@attrs.define
class _Trimmed:
    """A pipe that gets no blanks at the ends of lines: columns are for people, lines for tools."""

    file: TextIO

    @property
    def encoding(self) -> str:
        return self.file.encoding

    def isatty(self) -> bool:
        return False

    def write(self, text: str) -> int:
        self.file.write("\n".join(line.rstrip() for line in text.split("\n")))
        return len(text)

    def flush(self) -> None:
        self.file.flush()


def table(*columns: str, right: Sequence[str] = (), gap: int = 2) -> Table:
    """An empty table without lines; ``gap`` blanks stand between its columns."""
    made = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return made


def say(console: Console, text: str, style: str = "") -> None:
    """Print plain text: names from the log are never markup. Piped lines are never broken."""
    console.print(Text(text, style=style), soft_wrap=not console.is_terminal)


def present_told(console: Console, told: Told, now_ms: int) -> None:
    """One decision on one screen."""
    say(console, told.sentence, "bold")
    _request(console, told, now_ms)
    console.print()
    if told.work:
        console.print(work_table(told.replicas, told.work, told.replica))
    else:
        console.print(replica_table(told.replicas, told.replica))
    console.print()
    for step in told.steps:
        say(console, step_words(step))
    console.print()
    if told.pin is not None:
        pin = told.pin
        say(
            console,
            f"pin       {pin.kind} {pin.key} to {pin.replica}, "
            f"{plural(pin.spills, 'spill')} in a row before",
        )
    say(console, f"winner    {told.replica}, reason {told.reason}")
    for attempt in told.earlier:
        say(console, f"earlier   {_attempt(attempt)}")
    _followed(console, told.followed)
    _verdict(console, told)


def _request(console: Console, told: Told, now_ms: int) -> None:
    request = told.request
    say(
        console,
        f"request   {request.request_id}, model {request.model}, weight {count(request.weight_m)} "
        f"({plural(request.prompt_bytes, 'prompt byte')}), attempt {request.attempt}",
    )
    keys = [
        f"{name} {key}"
        for name, key in (
            ("session", request.session),
            ("prefix", request.prefix),
            ("response", request.response),
        )
        if key is not None
    ]
    say(console, f"keys      {', '.join(keys) or 'none'}")
    if request.waited_ms:
        say(console, f"waited    {span(request.waited_ms)} in line for room (RULES 4.7)")
    say(console, f"time      {told.at} ({ago(told.at_ms, now_ms)})")


def replica_table(replicas: Iterable[ReplicaSeen], winner: str | None = None) -> Table:
    """The replicas as they were; the winner is marked."""
    made = table(
        "",
        "replica",
        "state",
        "scraped",
        "age",
        "in flight",
        "wlc",
        "running",
        "eff. run",
        "eff. wait",
        "cooldown",
        "flags",
        right=("age", "in flight", "wlc", "running", "eff. run", "eff. wait", "cooldown"),
        gap=1,
    )
    for seen in replicas:
        made.add_row(
            ">" if seen.name == winner else "",
            Text(seen.name),
            seen.state,
            _scraped(seen),
            span(seen.scrape_age_ms) if seen.scrape_age_ms is not None else "",
            str(seen.in_flight),
            count(seen.wlc_m),
            count(seen.running_m),
            count(seen.effective_running_m),
            count(seen.effective_waiting_m),
            span(seen.cooldown_ms) if seen.cooldown_ms else "",
            " ".join(seen.flags),
            style="bold" if seen.name == winner else "",
        )
    return made


def _scraped(seen: ReplicaSeen) -> str:
    return f"{seen.running}+{seen.waiting}" if seen.running is not None else "unknown"


def work_table(
    replicas: Iterable[ReplicaSeen], work: Iterable[WorkSeen], winner: str | None = None
) -> Table:
    """The replicas of a ``least-work`` decision and what each would have had to do, in tokens."""
    right = ("in flight", "cached", "uncached", "x", "promised", "batch", "expected", "total")
    columns = ("", "replica", "state", "scraped", *right, "flags")
    made = table(*columns, right=right, gap=1)
    known = {one.name: one for one in work}
    for seen in replicas:
        one = known.get(seen.name)
        sums = [""] * 7
        if one is not None:
            damage = count(one.damage_m)
            numbers = (one.promised, one.batch, one.expected, one.total)
            sums = [f"{one.cached:,}", f"{one.uncached:,}", damage, *(f"{n:,}" for n in numbers)]
        made.add_row(
            ">" if seen.name == winner else "",
            Text(seen.name),
            seen.state,
            _scraped(seen),
            str(seen.in_flight if one is None else one.present),
            *sums,
            " ".join(seen.flags),
            style="bold" if seen.name == winner else "",
        )
    return made


def step_words(step: Step) -> str:
    """``2 no-wait  gpu1, gpu2 remain; out: gpu3 (2 waiting there)``."""
    parts = []
    if step.left and (step.dropped or step.number < 4):
        parts.append(f"{', '.join(step.left)} {'remains' if len(step.left) == 1 else 'remain'}")
    if step.dropped:
        out = ", ".join(f"{dropped.replica} ({dropped.why})" for dropped in step.dropped)
        parts.append(f"out: {out}")
    if step.note:
        parts.append(step.note)
    return f"{step.number} {step.name:<13} {'; '.join(parts)}"


def _attempt(attempt: Attempt) -> str:
    text = (
        f"attempt {attempt.attempt} was {attempt.decision} to {attempt.replica} ({attempt.reason})"
    )
    return f"{text}: {ended_in_full(attempt.end)}"


def _followed(console: Console, followed: Followed) -> None:
    for event in followed.pin_events:
        say(console, f"then      {event['text']}")
    say(console, f"followed  {followed.ended}")
    if followed.stood is not None:
        say(console, f"stood     {followed.stood}", "yellow")
    if followed.next_attempt is not None:
        say(console, f"next      tried again as {followed.next_attempt}")
    ended_well = followed.end is not None and followed.end.outcome == "ok"
    if followed.client is not None and not ended_well:
        say(console, f"client    got {followed.client}")


def _verdict(console: Console, told: Told) -> None:
    if told.verified:
        say(console, "verified  today's code decides the same from the same past", "green")
        return
    say(console, f"different today's code decides otherwise: {told.difference}", "bold red")
    side_by_side(console, told.recorded, told.recomputed)


def side_by_side(
    console: Console, recorded: Sequence[dict[str, Any]], recomputed: Sequence[dict[str, Any]]
) -> None:
    """Events as the log has them and as they come out today; what differs is marked."""
    made = table("", "recorded", "recomputed")
    for place in range(max(len(recorded), len(recomputed))):
        was = _fields(recorded[place]) if place < len(recorded) else "(nothing)"
        now = _fields(recomputed[place]) if place < len(recomputed) else "(nothing)"
        made.add_row("" if was == now else "!", Text(was), Text(now))
    console.print(made)


def _fields(event: dict[str, Any]) -> str:
    rest = " ".join(f"{key}={value}" for key, value in event.items() if key != "event")
    return f"{event['event']} {rest}"
