"""An engine that stopped generating as trouble, with the requests that stand still there."""

from collections.abc import Mapping

from trioroute.projections import Stall
from trioroute.replay.incident.evidence import cause_of
from trioroute.replay.incident.felt import Models, Trouble
from trioroute.replay.plain import Flight
from trioroute.replay.read import decision_name
from trioroute.replay.told import Line

ROWS_MAX = 12
"""Requests that are told."""


def stall_trouble(
    stall: Stall,
    flights: Mapping[int, Flight],
    stream: str,
    place: str,
    models: Models,
) -> Trouble:
    """``place`` is the scrape that found it; it began when the tokens stood still."""
    there = [
        (number, request_id)
        for number, ((replica, *_), request_id) in flights.items()
        if replica == stall.replica
    ]
    rows = []
    for number, request_id in there[:ROWS_MAX]:
        text = f"{decision_name(stream, number)} ({request_id}) runs there and stands still"
        rows.append(Line(at_ms=stall.at_ms, place=place, event="stall", text=text))
    text = f"{stall.replica} stopped generating; then {stall.words()}"
    cause = cause_of("stall", stall.since_ms, place, text, tuple(rows))
    return Trouble(stall.since_ms, cause, stall.replica, models)
