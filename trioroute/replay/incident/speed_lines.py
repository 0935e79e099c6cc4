"""How fast the replicas were, and which of them was slow, as tables."""

from trioroute.replay.clock import at_most, span
from trioroute.replay.incident.block import Block, clock_time
from trioroute.replay.incident.told import Incident, Slow


def slow_names(told: Incident) -> list[str]:
    return list(dict.fromkeys(one.replica for one in told.slow))


def slow_blocks(told: Incident) -> list[Block]:
    """Replicas that no rule ejects, for they answer."""
    if not told.slow:
        return []
    rows = tuple(
        (
            clock_time(one.from_ms),
            span(one.to_ms - one.from_ms),
            one.replica,
            one.model or "none",
            _evidence(one),
        )
        for one in told.slow
    )
    said = (f"slow: {', '.join(slow_names(told))}",)
    columns = ("from", "lasts", "replica", "model", "evidence")
    return [Block("Slow replicas", said, columns, rows, ("lasts",))]


def _evidence(one: Slow) -> str:
    usual = f"{span(one.others_p50_ms)} at the pace of {one.others_answers} like answers"
    mine = f"median of whole answers {span(one.p50_ms)} of {one.answers}"
    return f"{mine}, {usual} of the others of its pool; slowest {one.slowest}"


def times_blocks(told: Incident) -> list[Block]:
    if not told.replicas:
        return []
    columns = ("answers", "first byte 50 %", "99 %", "whole 50 %", "99 %")
    rows = tuple(
        (
            one.replica,
            str(one.answers),
            *(
                "?" if ms is None else at_most(ms)
                for ms in (
                    one.ttfb_p50_ms,
                    one.ttfb_p99_ms,
                    one.duration_p50_ms,
                    one.duration_p99_ms,
                )
            ),
        )
        for one in told.replicas
    )
    said = ("of good answers; each figure is at most an eighth too long, and never too short",)
    return [Block("Times by replica", said, ("replica", *columns), rows, columns)]
