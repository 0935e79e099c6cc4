"""The questions of ``trioroute replay`` about much of a log, answered as data and on a screen."""

from pathlib import Path
from typing import Any

from eventlog.snapshots import Snapshots
from trioroute.cli.failures import warn
from trioroute.cli.replay_answer import RULES_OF_TODAY, Answer, Asked, shown_progress
from trioroute.cli.replay_source import opened
from trioroute.replay.clock import INCIDENT_AROUND_MS, parse_time
from trioroute.replay.compare import compare
from trioroute.replay.followed import as_fields
from trioroute.replay.incident.page import page_of
from trioroute.replay.incident.present import markdown_of, present_incident
from trioroute.replay.incident.walk import tell_incident
from trioroute.replay.present import console_for
from trioroute.replay.present_compare import present_compared
from trioroute.replay.present_proof import present_verified
from trioroute.replay.read import Source
from trioroute.replay.told import as_json
from trioroute.replay.verify import Difference, Verified, verify


def verify_answer(source: Source, log: Path, asked: Asked) -> Answer:
    with shown_progress() as told:
        found = verify(
            source,
            lambda done, total: told("verifying", done, total),
            rules_of_today=asked.what == RULES_OF_TODAY,
        )
    for seq in found.false_snapshots:
        warn(
            f"the snapshot after row {seq} does not tell of the state that the rows give: the "
            f"proof does not rest on it, other answers may; remove {Snapshots(log).path(seq)}"
            " (a restart and replay do without it)"
        )
    return Answer(
        _verified_data(found),
        lambda: present_verified(console_for(), found),
        good=found.good,
    )


def incident_answer(source: Source, log: Path, asked: Asked) -> Answer:
    last_ms, first_ms = source.last().at_ms, source.first_ms()
    from_ms, to_ms = parse_time(asked.what, INCIDENT_AROUND_MS, last_ms, first_ms)
    with shown_progress() as bar:
        told = tell_incident(
            source, from_ms, to_ms, lambda done, of: bar("reading the span", done, of)
        )
    return Answer(
        as_json(told),
        lambda: present_incident(console_for(), told),
        markdown=lambda: markdown_of(told),
        page=lambda: page_of(told),
    )


def compare_answer(source: Source, log: Path, asked: Asked) -> Answer:
    other = asked.what
    with opened(Path(other), source.lenient) as second, shown_progress() as told:
        found = compare(
            source,
            second,
            (str(log), other),
            lambda done, of: told("comparing", done, of),
            (asked.within(source), asked.within(second)),
        )
    return Answer(as_json(found), lambda: present_compared(console_for(), found))


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
