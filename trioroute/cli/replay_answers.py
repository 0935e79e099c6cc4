"""The questions of ``trioroute replay``, each answered as data and on a screen."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from trioroute.cli.replay_live import step, watch
from trioroute.cli.replay_source import opened
from trioroute.cli.what_if import answer, read_changes
from trioroute.replay.clock import now_ms, parse_point, parse_span
from trioroute.replay.compare import compare
from trioroute.replay.explain import tell, tell_all
from trioroute.replay.find import last_decisions, numbers_of_request, parse_decision
from trioroute.replay.followed import as_fields
from trioroute.replay.histories import (
    decision_table,
    present_moment,
    present_replica,
    present_session,
)
from trioroute.replay.incident.page import page_of
from trioroute.replay.incident.present import markdown_of, present_incident
from trioroute.replay.incident.walk import tell_incident
from trioroute.replay.moment import tell_moment
from trioroute.replay.present import console_for, present_told
from trioroute.replay.present_compare import present_compared
from trioroute.replay.present_proof import present_verified
from trioroute.replay.present_what_if import present_what_if, what_if_data
from trioroute.replay.read import NotFound, Source
from trioroute.replay.replica import tell_replica
from trioroute.replay.session import read_secret, tell_session
from trioroute.replay.told import DecisionRow, as_json
from trioroute.replay.verify import Difference, Verified, verify

LAST_DEFAULT = 20

RULES_OF_TODAY = "rules of today"
"""How ``--verify`` is asked to count what would be decided otherwise."""


@attrs.frozen
class Answer:
    """``good`` False: a check failed. ``markdown`` and ``page`` where the question has them.
    ``lines`` prints data bit by bit, where it has no end."""

    data: Any
    show: Callable[[], None]
    good: bool = True
    markdown: Callable[[], str] | None = None
    page: Callable[[], str] | None = None
    lines: Callable[[], None] | None = None


def _decision(source: Source, log: Path, text: str) -> Answer:
    stream, number = parse_decision(source, text)
    told = tell(source, stream, number)
    return Answer(as_json(told), lambda: present_told(console_for(), told, now_ms()))


def _request(source: Source, log: Path, request_id: str) -> Answer:
    numbers = numbers_of_request(source, request_id)
    told = [one for stream in numbers for one in tell_all(source, stream, numbers[stream])]

    def show() -> None:
        console = console_for()
        for place, one in enumerate(told):
            if place:
                console.rule()
            present_told(console, one, now_ms())

    return Answer([as_json(one) for one in told], show)


def _session(source: Source, log: Path, key: str) -> Answer:
    told = tell_session(source, key, read_secret(log))
    return Answer(as_json(told), lambda: present_session(console_for(), told, now_ms()))


def _replica(source: Source, log: Path, name: str) -> Answer:
    told = tell_replica(source, name)
    return Answer(as_json(told), lambda: present_replica(console_for(), told))


def _at(source: Source, log: Path, text: str) -> Answer:
    moments = tell_moment(source, parse_point(text, source.last().at_ms))

    def show() -> None:
        for moment in moments:
            present_moment(console_for(), moment, now_ms())

    return Answer([as_json(moment) for moment in moments], show)


def _print_decisions(rows: Sequence[DecisionRow]) -> None:
    console = console_for()
    console.print(decision_table(rows, now_ms(), console.width))


def _last(source: Source, log: Path, most: int | None) -> Answer:
    rows = last_decisions(source, most or LAST_DEFAULT)
    if not rows:
        raise NotFound("the log holds no decision yet")
    return Answer(
        [as_json(row) for row in rows],
        lambda: _print_decisions(rows),
    )


def _verify(source: Source, log: Path, how: str | bool) -> Answer:
    with _progress() as told:
        found = verify(
            source,
            lambda done, total: told("verifying", done, total),
            rules_of_today=how == RULES_OF_TODAY,
        )
    return Answer(
        _verified_data(found),
        lambda: present_verified(console_for(), found),
        good=found.good,
    )


def _what_if(source: Source, log: Path, texts: tuple[str, ...]) -> Answer:
    changes = read_changes(texts)
    with _progress() as told:
        found = answer(source, changes, told)
    return Answer(what_if_data(found), lambda: present_what_if(console_for(), found))


def _incident(source: Source, log: Path, text: str) -> Answer:
    from_ms, to_ms = parse_span(text, source.last().at_ms)
    with _progress() as bar:
        told = tell_incident(
            source, from_ms, to_ms, lambda done, of: bar("reading the span", done, of)
        )
    return Answer(
        as_json(told),
        lambda: present_incident(console_for(), told),
        markdown=lambda: markdown_of(told),
        page=lambda: page_of(told),
    )


def _watch(source: Source, log: Path, _: bool) -> Answer:
    return Answer(
        None,
        lambda: watch(source, as_data=False),
        lines=lambda: watch(source, as_data=True),
    )


def _step(source: Source, log: Path, text: str) -> Answer:
    return Answer(None, lambda: step(source, text))


def _compare(source: Source, log: Path, other: str) -> Answer:
    with opened(Path(other), source.lenient) as second, _progress() as told:
        found = compare(
            source, second, (str(log), other), lambda done, of: told("comparing", done, of)
        )
    return Answer(as_json(found), lambda: present_compared(console_for(), found))


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
        "verified": found.good,
        "begins_at": found.begins_at,
        "events": found.events,
        "decisions": found.decisions,
        "digests": found.digests,
        "restarts": found.restarts,
        "gaps": found.gaps,
        "in_flight": found.in_flight,
        "head": {"seq": found.head.seq, "chain": found.head.chain.hex()},
        "difference": None,
        "today": None,
    }
    if found.difference is not None:
        data["difference"] = _difference_data(found.difference)
    today = found.today
    if today is not None:
        data["today"] = {
            "rules": today.rules,
            "decisions": {str(rules): count for rules, count in sorted(today.decisions.items())},
            "differ": today.differ,
            "unexplained": today.unexplained,
            "digests": today.digests,
            "causes": [as_json(one) for one in today.causes.values()],
            "first": None if today.first is None else _difference_data(today.first),
        }
    return data


def _difference_data(difference: Difference) -> dict[str, Any]:
    return {
        "what": difference.what,
        "place": difference.place,
        "seq": difference.seq,
        "text": difference.text,
        "recorded": [as_fields(event) for event in difference.recorded],
        "recomputed": [as_fields(event) for event in difference.recomputed],
    }


ANSWERS: dict[str, Callable[[Source, Path, Any], Answer]] = {
    "decision": _decision,
    "request": _request,
    "session": _session,
    "replica": _replica,
    "at": _at,
    "incident": _incident,
    "last": _last,
    "verify_all": _verify,
    "what_if": _what_if,
    "compare": _compare,
    "watch": _watch,
    "step": _step,
}
