"""``trioroute replay``: why did this request go there, and is the log true?"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from eventlog.errors import LogDamaged, LogError
from eventlog.snapshots import Snapshots
from eventlog.sqlite import SqliteReader
from trioroute.cli.what_if import answer, read_changes
from trioroute.replay.clock import now_ms, parse_point
from trioroute.replay.explain import tell, tell_all
from trioroute.replay.find import last_decisions, numbers_of_request, parse_decision
from trioroute.replay.followed import as_fields
from trioroute.replay.histories import (
    decision_table,
    present_moment,
    present_replica,
    present_session,
)
from trioroute.replay.moment import tell_moment
from trioroute.replay.present import console_for, present_told, present_verified
from trioroute.replay.present_what_if import present_what_if, what_if_data
from trioroute.replay.read import BadQuestion, CannotRead, NotFound, Source
from trioroute.replay.replica import tell_replica
from trioroute.replay.session import read_secret, tell_session
from trioroute.replay.told import DecisionRow, as_json
from trioroute.replay.verify import Verified, verify

CHECK_FAILED = 1
CANNOT = 2
LAST_DEFAULT = 20

_EXAMPLE = """
\b
Examples:
  trioroute replay trioroute-log --last 20
  trioroute replay trioroute-log --decision r1/42
  trioroute replay trioroute-log --session my-conversation --json
  trioroute replay trioroute-log --at -15m
  trioroute replay trioroute-log --verify
  trioroute replay trioroute-log --what-if policy.slack.session=4
  trioroute replay trioroute-log --what-if policy.name=least-work
"""


@click.command("replay", epilog=_EXAMPLE)
@click.argument("log", metavar="LOG", type=click.Path(path_type=Path))
@click.option("--decision", metavar="ROUTER/N", help="Explain one decision, such as r1/42.")
@click.option("--request", metavar="ID", help="Explain every attempt of a request.")
@click.option("--session", metavar="KEY", help="Decisions and pins of a session: key or digest.")
@click.option("--replica", metavar="NAME", help="A replica's health history and dispatches.")
@click.option("--at", metavar="TIME", help="The state then: ISO time, or -15m before the end.")
@click.option("--last", metavar="N", type=click.IntRange(1, 10_000), help="The last N decisions.")
@click.option("--verify", "verify_all", is_flag=True, help="Take every decision again; 1 if not.")
@click.option(
    "--what-if",
    "what_if",
    multiple=True,
    metavar="KEY=VALUE",
    help="How many decisions other settings would have changed; repeat for more than one.",
)
@click.option("--json", "as_data", is_flag=True, help="The same as JSON.")
@click.option("--lenient", is_flag=True, help="Pass over events of a newer trioroute.")
def replay_command(
    log: Path,
    *,
    as_data: bool,
    lenient: bool,
    **what: Any,  # noqa: ANN401 - the questions, by option name
) -> None:
    """Explain and prove what the router decided, from its log.

    LOG is a log directory or one .sqlite file of it; the log of a running router may be read.
    Without a question: the last 20 decisions. Exit codes: 0 ok, 1 a check failed or nothing was
    found, 2 wrong usage or a log that cannot be read.
    """
    asked = [name for name, value in what.items() if value not in (None, False, ())]
    if len(asked) > 1:
        options = " and ".join(f"--{name.removesuffix('_all').replace('_', '-')}" for name in asked)
        raise click.UsageError(f"one question at a time: {options} were given")
    question = asked[0] if asked else "last"
    with _failures(), _opened(log, lenient) as source:
        found = _ANSWERS[question](source, log, what[question])
        if as_data:
            click.echo(json.dumps(found.data))
        else:
            found.show()
    if not found.good:
        sys.exit(CHECK_FAILED)


@attrs.frozen
class _Answer:
    data: Any
    show: Callable[[], None]
    good: bool = True


@contextmanager
def _failures() -> Iterator[None]:
    """Errors become one line on stderr and an exit code."""
    try:
        yield
    except NotFound as error:
        _stop(str(error), CHECK_FAILED)
    except LogDamaged as error:
        _stop(str(error), CHECK_FAILED)
    except (CannotRead, LogError) as error:
        _stop(str(error), CANNOT)
    except BadQuestion as error:
        raise click.UsageError(str(error)) from None


def _stop(text: str, code: int) -> None:
    click.echo(f"Error: {text}", err=True)
    sys.exit(code)


@contextmanager
def _opened(log: Path, lenient: bool) -> Iterator[Source]:
    reader = SqliteReader.open(log)
    try:
        source = Source(reader, lenient, Snapshots(log) if log.is_dir() else None)
        yield source
        for kind, times in source.skipped.items():
            click.echo(f"Warning: passed over {times} rows of unknown kind {kind}", err=True)
    finally:
        reader.close()


def _decision(source: Source, log: Path, text: str) -> _Answer:
    stream, number = parse_decision(source, text)
    told = tell(source, stream, number)
    return _Answer(as_json(told), lambda: present_told(console_for(), told, now_ms()))


def _request(source: Source, log: Path, request_id: str) -> _Answer:
    numbers = numbers_of_request(source, request_id)
    told = [one for stream in numbers for one in tell_all(source, stream, numbers[stream])]

    def show() -> None:
        console = console_for()
        for place, one in enumerate(told):
            if place:
                console.rule()
            present_told(console, one, now_ms())

    return _Answer([as_json(one) for one in told], show)


def _session(source: Source, log: Path, key: str) -> _Answer:
    told = tell_session(source, key, read_secret(log))
    return _Answer(as_json(told), lambda: present_session(console_for(), told, now_ms()))


def _replica(source: Source, log: Path, name: str) -> _Answer:
    told = tell_replica(source, name)
    return _Answer(as_json(told), lambda: present_replica(console_for(), told))


def _at(source: Source, log: Path, text: str) -> _Answer:
    moments = tell_moment(source, parse_point(text, source.last().at_ms))

    def show() -> None:
        for moment in moments:
            present_moment(console_for(), moment, now_ms())

    return _Answer([as_json(moment) for moment in moments], show)


def _print_decisions(rows: Sequence[DecisionRow]) -> None:
    console = console_for()
    console.print(decision_table(rows, now_ms(), console.width))


def _last(source: Source, log: Path, most: int | None) -> _Answer:
    rows = last_decisions(source, most or LAST_DEFAULT)
    if not rows:
        raise NotFound("the log holds no decision yet")
    return _Answer(
        [as_json(row) for row in rows],
        lambda: _print_decisions(rows),
    )


def _verify(source: Source, log: Path, _: bool) -> _Answer:
    with _progress() as told:
        found = verify(source, lambda done, total: told("verifying", done, total))
    return _Answer(
        _verified_data(found),
        lambda: present_verified(console_for(), found),
        good=found.difference is None,
    )


def _what_if(source: Source, log: Path, texts: tuple[str, ...]) -> _Answer:
    changes = read_changes(texts)
    with _progress() as told:
        found = answer(source, changes, told)
    return _Answer(what_if_data(found), lambda: present_what_if(console_for(), found))


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal's stderr, nothing elsewhere: told what, how much is done, of how much."""
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console_for(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with progress:
        task = progress.add_task("")
        yield lambda what, done, of: progress.update(
            task, description=what, completed=done, total=of
        )


def _verified_data(found: Verified) -> dict[str, Any]:
    data: dict[str, Any] = {
        "verified": found.difference is None,
        "begins_at": found.begins_at,
        "events": found.events,
        "decisions": found.decisions,
        "digests": found.digests,
        "restarts": found.restarts,
        "gaps": found.gaps,
        "in_flight": found.in_flight,
        "head": {"seq": found.head.seq, "chain": found.head.chain.hex()},
        "difference": None,
    }
    if found.difference is not None:
        difference = found.difference
        data["difference"] = {
            "what": difference.what,
            "place": difference.place,
            "seq": difference.seq,
            "text": difference.text,
            "recorded": [as_fields(event) for event in difference.recorded],
            "recomputed": [as_fields(event) for event in difference.recomputed],
        }
    return data


_ANSWERS: dict[str, Callable[[Source, Path, Any], _Answer]] = {
    "decision": _decision,
    "request": _request,
    "session": _session,
    "replica": _replica,
    "at": _at,
    "last": _last,
    "verify_all": _verify,
    "what_if": _what_if,
}
