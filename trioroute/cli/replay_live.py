"""``--step`` and ``--watch``: the log walked through by hand, or as it grows."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console

from eventlog.record import Record
from trioroute.cli.replay_answer import Answer
from trioroute.events import Event
from trioroute.replay.clock import local_iso, parse_point
from trioroute.replay.event_words import event_words, is_error
from trioroute.replay.explain import seen_at
from trioroute.replay.find import parse_decision
from trioroute.replay.followed import as_fields
from trioroute.replay.present import console_for, replica_table, say
from trioroute.replay.read import NotFound, Source, decision_name
from trioroute.replay.stepping import SOUGHT, Stepper, find_seq

POLL_S = 0.5
"""Between two looks at a log that has nothing new."""

QUIET = ("Scraped", "Checked")
"""Kinds that ``--watch`` passes over: they come every few seconds and decide nothing."""

_KEYS = "n next, p back, e/s/r/x next eject/spill/rebind/error, q quit"


def line_of(record: Record, event: Event | None) -> str:
    words = event_words(event, record.at_ms) if event is not None else "of a newer trioroute"
    place = decision_name(record.stream, record.version)
    return f"{local_iso(record.at_ms)[:23]}  {place:<10} {record.kind:<12} {words}"


def watch(source: Source, *, as_data: bool, wait: Callable[[], None] | None = None) -> None:
    """Print every event from now on until it is interrupted (``wait`` may end it)."""
    console = console_for()
    pause = wait or (lambda: time.sleep(POLL_S))
    seq = source.reader.head().seq
    try:
        while True:
            for record in source.records(seq):
                seq = record.seq
                if record.kind not in QUIET:
                    _show(console, record, source.event(record), as_data=as_data)
            pause()
    except KeyboardInterrupt:
        return


def _show(console: Console, record: Record, event: Event | None, *, as_data: bool) -> None:
    if not as_data:
        say(console, line_of(record, event), "red" if event and is_error(event) else "")
        return
    place = decision_name(record.stream, record.version)
    fields = as_fields(event) if event is not None else {"event": record.kind}
    click.echo(json.dumps({"seq": record.seq, "place": place, "at_ms": record.at_ms, **fields}))


def start_of(source: Source, text: str) -> int:
    """The row that PLACE means. Raises BadQuestion, NotFound, CannotRead."""
    if text == "start":
        source.last()  # raises for an empty log
        return next(source.records()).seq
    if text == "end":
        return source.last().seq
    if "/" in text or text.isdigit():
        return find_seq(source, *parse_decision(source, text))
    at_ms = parse_point(text, source.last().at_ms)
    seq = source.reader.last_until(at_ms)
    if not seq:
        begins = local_iso(next(source.records()).at_ms)
        raise NotFound(f"nothing is known of {local_iso(at_ms)}: the log begins at {begins}")
    return seq


def step(source: Source, text: str) -> None:
    """Walk from PLACE on, one key a step, until q. From a pipe the keys are its letters, and its
    end is q."""
    seq = start_of(source, text)
    walk_by_keys(source, seq, click.getchar if sys.stdin.isatty() else _piped_key)


def _piped_key() -> str:
    """The next letter; the ends of lines are none."""
    while (key := sys.stdin.read(1)) in ("\n", "\r"):
        pass
    return key


def walk_by_keys(source: Source, seq: int, key: Callable[[], str]) -> None:
    """The walk itself; ``key`` gives one key a time."""
    console, stepper = console_for(), Stepper(source)
    stepper.go_to(seq)
    _stand(console, stepper)
    say(console, _KEYS, "dim")
    while True:
        pressed = key()
        if pressed in ("q", "\x03", "\x04", ""):
            return
        if not _obey(console, stepper, pressed):
            say(console, _KEYS, "dim")


def _obey(console: Console, stepper: Stepper, pressed: str) -> bool:
    """Do what a key asks for; whether it asks for anything."""
    if pressed in ("n", " ", "\r", "\n"):
        moved, missing = stepper.next(), "the log ends here"
    elif pressed == "p":
        moved, missing = stepper.back(), "the log begins here"
    elif pressed in SOUGHT:
        name, wanted = SOUGHT[pressed]
        moved, missing = stepper.next(wanted), f"no {name} follows"
    else:
        return False
    if moved:
        _stand(console, stepper)
    else:
        say(console, missing, "yellow")
    return True


def _stand(console: Console, stepper: Stepper) -> None:
    record = stepper.record
    if record is None:
        return
    state = stepper.pasts[record.stream].state
    console.print()
    say(console, line_of(record, stepper.event), "bold")
    console.print(replica_table([seen_at(state, n, record.at_ms) for n in state.fleet.replicas]))


def watch_answer(source: Source, log: Path, _: bool) -> Answer:
    return Answer(
        None,
        lambda: watch(source, as_data=False),
        lines=lambda: watch(source, as_data=True),
    )


def step_answer(source: Source, log: Path, text: str) -> Answer:
    return Answer(None, lambda: step(source, text))
