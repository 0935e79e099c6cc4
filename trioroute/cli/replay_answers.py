"""The questions of ``trioroute replay`` about one thing, answered as data and on a screen."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from eventlog import LogError
from eventlog.record import Record
from trioroute.cli.replay_answer import Answer, Asked, shown_progress
from trioroute.cli.replay_source import tell_end, tell_lacking
from trioroute.replay.clock import REQUESTS_AROUND_MS, now_ms, parse_point, parse_time
from trioroute.replay.explain import tell, tell_all
from trioroute.replay.find import OnlyRefused, last_decisions, numbers_of_request, parse_decision
from trioroute.replay.histories import (
    decision_table,
    present_listed,
    present_moment,
    present_replica,
    present_session,
)
from trioroute.replay.moment import tell_moment
from trioroute.replay.present import console_for, present_told
from trioroute.replay.present_refused import present_refused
from trioroute.replay.read import NotFound, Source
from trioroute.replay.refused import tell_refused
from trioroute.replay.session import read_secret, tell_session
from trioroute.replay.told import DecisionRow, as_json

LAST_DEFAULT = 20


def decision_answer(source: Source, log: Path, asked: Asked) -> Answer:
    stream, number = parse_decision(source, asked.what)
    told = tell(source, stream, number)
    tell_end(source, open_end=told.followed.end is None)
    return Answer(as_json(told), lambda: present_told(console_for(), told, now_ms()))


def request_answer(source: Source, log: Path, asked: Asked) -> Answer:
    with _lacking_told(source):
        try:
            numbers = numbers_of_request(source, asked.what)
        except OnlyRefused as only:
            return _refused_answer(source, only.rows)
        told = [one for stream in numbers for one in tell_all(source, stream, numbers[stream])]
    tell_end(source, open_end=any(one.followed.end is None for one in told))

    def show() -> None:
        console = console_for()
        for place, one in enumerate(told):
            if place:
                console.rule()
            present_told(console, one, now_ms())

    data = [as_json(one) for one in told]
    return Answer(data, show, behind=partial(tell_lacking, source))


def _refused_answer(source: Source, rows: Sequence[Record]) -> Answer:
    told = [tell_refused(source, row) for row in rows]

    def show() -> None:
        for one in told:
            present_refused(console_for(), one)

    return Answer([as_json(one) for one in told], show, behind=partial(tell_lacking, source))


@contextmanager
def _lacking_told(source: Source, after: int = 0, until: int | None = None) -> Iterator[None]:
    """If it finds nothing. Else it is told behind the answer: counting all rows takes longer."""
    try:
        yield
    except (LogError, NotFound):
        tell_lacking(source, after, until)
        raise


def requests_answer(source: Source, log: Path, asked: Asked) -> Answer:
    from trioroute.replay.listing import list_requests, parse_where, rows_read

    where = parse_where(asked.where)
    span = parse_time(asked.what, REQUESTS_AROUND_MS, source.last().at_ms, source.first_ms())
    secret = read_secret(log) if "session" in where else None
    read = rows_read(source, span)
    with shown_progress() as bar, _lacking_told(source, *read):
        told = list_requests(
            source, span, where, secret, lambda done, of: bar("reading the span", done, of)
        )
    tell_end(source, open_end=any(one.outcome == "running" for one in told.requests))
    return Answer(
        as_json(told),
        lambda: present_listed(console_for(), told),
        behind=partial(tell_lacking, source, *read),
    )


def session_answer(source: Source, log: Path, asked: Asked) -> Answer:
    with _lacking_told(source):
        told = tell_session(source, asked.what, read_secret(log))
    return Answer(
        as_json(told),
        lambda: present_session(console_for(), told, now_ms()),
        behind=partial(tell_lacking, source),
    )


def replica_answer(source: Source, log: Path, asked: Asked) -> Answer:
    from trioroute.replay.replica import tell_replica  # here: no other question reads ahead

    within = asked.within(source)
    with shown_progress() as bar:
        told = tell_replica(
            source, asked.what, lambda done, of: bar("reading the log", done, of), within
        )
    return Answer(as_json(told), lambda: present_replica(console_for(), told))


def at_answer(source: Source, log: Path, asked: Asked) -> Answer:
    last_ms = source.last().at_ms
    at_ms = parse_point(asked.what, last_ms, source.first_ms())
    moments = tell_moment(source, at_ms)
    if at_ms >= last_ms:
        tell_end(source, open_end=any(moment.in_flight for moment in moments))

    def show() -> None:
        for moment in moments:
            present_moment(console_for(), moment, now_ms())

    return Answer([as_json(moment) for moment in moments], show)


def _print_decisions(rows: Sequence[DecisionRow]) -> None:
    console = console_for()
    console.print(decision_table(rows, now_ms(), console.width))


def last_answer(source: Source, log: Path, asked: Asked) -> Answer:
    rows = last_decisions(source, asked.what or LAST_DEFAULT)
    if not rows:
        raise NotFound("the log holds no decision yet")
    tell_end(source, open_end=any(row.end is None for row in rows))
    return Answer(
        [as_json(row) for row in rows],
        lambda: _print_decisions(rows),
    )
