"""``--step`` and ``--watch``: the log walked through by hand, or as it grows."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import click
from rich.console import Console

from eventlog.record import Record
from trioroute.cli.replay_answer import Answer, Asked
from trioroute.events import Configured, Event
from trioroute.events.sections import InForce
from trioroute.nearest import hint
from trioroute.replay.clock import local_iso, parse_point
from trioroute.replay.event_words import event_words, is_error
from trioroute.replay.explain import seen_at
from trioroute.replay.find import parse_decision
from trioroute.replay.followed import as_fields
from trioroute.replay.in_force import settings_before
from trioroute.replay.only import Only, only_of
from trioroute.replay.present import console_for, replica_table, say
from trioroute.replay.read import BadQuestion, NotFound, Source, decision_name
from trioroute.replay.stepping import SOUGHT, Stepper, find_seq
from trioroute.settings.changed import changed_keys

POLL_S = 0.5
"""Between two looks at a log that has nothing new."""

QUIET = ("Scraped", "Checked")
"""Kinds that ``--watch`` passes over: they come every few seconds and decide nothing."""

_KEYS = (
    "n next, p back, e/s/r/x next eject/spill/rebind/error, E/S/R/X the one before, "
    "/ only one replica or session, q quit"
)


def line_of(record: Record, event: Event | None, before: InForce | None = None) -> str:
    """``before``: the settings in force until a ``Configured``, as ``before_of`` finds them."""
    words = "of a newer trioroute"
    if event is not None:
        words = event_words(event, record.at_ms, record.stream, before)
    place = decision_name(record.stream, record.version)
    return f"{local_iso(record.at_ms)[:23]}  {place:<10} {record.kind:<12} {words}"


def before_of(source: Source, record: Record) -> InForce | None:
    if record.kind != "Configured":
        return None
    return settings_before(source.reader, record.stream, record.seq)


def watch(
    source: Source,
    *,
    as_data: bool,
    wait: Callable[[], None] | None = None,
    only: Only | None = None,
) -> None:
    """Print every event from now on, or those about ``only``, until it is interrupted (``wait`` may
    end it)."""
    console = console_for()
    pause = wait or (lambda: time.sleep(POLL_S))
    seq = source.reader.head().seq
    if not as_data:
        about = "" if only is None else f" about {only.name}"
        say(console, f"watching for what comes{about}; Ctrl-C ends it", "dim")
    try:
        while True:
            for record in source.records(seq):
                seq = record.seq
                event = source.event(record)
                if record.kind not in QUIET and _is_about(only, record, event):
                    before = before_of(source, record)
                    _show(console, record, event, before, as_data=as_data)
            pause()
    except KeyboardInterrupt:
        return


def _is_about(only: Only | None, record: Record, event: Event | None) -> bool:
    return only is None or (event is not None and only.concerns(record, event))


def _show(
    console: Console,
    record: Record,
    event: Event | None,
    before: InForce | None,
    *,
    as_data: bool,
) -> None:
    if not as_data:
        say(console, line_of(record, event, before), "red" if event and is_error(event) else "")
        return
    place = decision_name(record.stream, record.version)
    fields: dict[str, Any] = as_fields(event) if event is not None else {"event": record.kind}
    if isinstance(event, Configured) and before is not None:
        fields["changed"] = changed_keys(before, event.settings)
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
    try:
        at_ms = parse_point(text, source.last().at_ms)
    except BadQuestion as error:
        raise BadQuestion(f"{error}{hint(text, ('start', 'end', 'now'))}") from None
    seq = source.reader.last_until(at_ms)
    if not seq:
        begins = local_iso(next(source.records()).at_ms)
        raise NotFound(f"nothing is known of {local_iso(at_ms)}: the log begins at {begins}")
    return seq


@attrs.frozen
class Keys:
    """Where a walk is told what to do: one key a time, and a name behind ``/``."""

    key: Callable[[], str]
    name: Callable[[], str]


def _piped_key() -> str:
    """The next letter; the ends of lines are none."""
    while (key := sys.stdin.read(1)) in ("\n", "\r"):
        pass
    return key


_TERMINAL = Keys(click.getchar, lambda: input("only: ").strip())
_PIPE = Keys(_piped_key, lambda: sys.stdin.readline().strip())


def step(source: Source, log: Path, text: str, name: str | None = None) -> None:
    """Walk from PLACE on, one key a step, until q. From a pipe the keys are its letters, and its
    end is q."""
    seq = start_of(source, text)
    only = None if name is None else only_of(source, log, name)
    walk = Walk(log, Stepper(source, only), _TERMINAL if sys.stdin.isatty() else _PIPE)
    walk.by_keys(seq)


@attrs.define
class Walk:
    """A walk through a log by hand."""

    log: Path
    stepper: Stepper
    keys: Keys
    console: Console = attrs.field(factory=console_for)

    def by_keys(self, seq: int) -> None:
        """From row ``seq`` on, until it is ended."""
        self.stepper.go_to(seq)
        self._stand()
        say(self.console, _KEYS, "dim")
        while True:
            pressed = self.keys.key()
            if pressed in ("q", "\x03", "\x04", ""):
                return
            if pressed == "/":
                self._look_at(self.keys.name())
            elif not self._obey(pressed):
                say(self.console, _KEYS, "dim")

    def _obey(self, pressed: str) -> bool:
        """Do what a key asks for; whether it asks for anything."""
        stepper, only = self.stepper, self.stepper.only
        of = "" if only is None else f" of {only.name}"
        if pressed in ("n", " ", "\r", "\n"):
            moved, missing = stepper.next(), f"no row{of} follows" if of else "the log ends here"
        elif pressed == "p":
            missing = f"no row{of} is before this one" if of else "the log begins here"
            moved = stepper.back()
        elif pressed in SOUGHT:
            sought = SOUGHT[pressed]
            moved, missing = stepper.next(sought), f"no {sought.name}{of} follows"
        elif pressed.lower() in SOUGHT:
            sought = SOUGHT[pressed.lower()]
            moved, missing = stepper.back(sought), f"no {sought.name}{of} is before this one"
        else:
            return False
        if moved:
            self._stand()
        else:
            say(self.console, missing, "yellow")
        return True

    def _look_at(self, name: str) -> None:
        """From now on only rows about ``name``; empty: all."""
        try:
            self.stepper.only = only_of(self.stepper.source, self.log, name) if name else None
        except NotFound as error:
            say(self.console, str(error), "yellow")
            return
        only = self.stepper.only
        what = "all rows" if only is None else f"only what is about {only.sort} {only.name}"
        say(self.console, what, "dim")

    def _stand(self) -> None:
        stepper, record = self.stepper, self.stepper.record
        if record is None:
            return
        state = stepper.pasts[record.stream].state
        self.console.print()
        before = before_of(stepper.source, record)
        say(self.console, line_of(record, stepper.event, before), "bold")
        seen = [seen_at(state, name, record.at_ms) for name in state.fleet.replicas]
        self.console.print(replica_table(seen))


def watch_answer(source: Source, log: Path, asked: Asked) -> Answer:
    only = None if asked.only is None else only_of(source, log, asked.only)
    return Answer(
        None,
        lambda: watch(source, as_data=False, only=only),
        lines=lambda: watch(source, as_data=True, only=only),
    )


def step_answer(source: Source, log: Path, asked: Asked) -> Answer:
    return Answer(None, lambda: step(source, log, asked.what, asked.only))
