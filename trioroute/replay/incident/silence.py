"""The phase of a replica that fell silent: what was told until its timeout was less."""

from collections.abc import Mapping

import attrs

from trioroute.replay.incident.course import EJECT, below, relabelled
from trioroute.replay.incident.told import FirstCause, Phase
from trioroute.replay.read import STREAM_PREFIX

ByRouter = Mapping[str, tuple[Phase, ...]]


def with_silence(
    by_router: ByRouter, cause: FirstCause | None, dated: FirstCause | None
) -> ByRouter:
    """The phases of each router. ``dated`` is the cause as ``began`` dates it: an eject's phase
    begins with it, and not with the first row held against its replica."""
    if cause is None or dated is None or dated.kind != "eject" or dated.at_ms == cause.at_ms:
        return by_router
    stream = STREAM_PREFIX + (dated.place or "").rpartition("/")[0]
    held_ms = min((line.at_ms for line in cause.evidence), default=cause.at_ms)
    why = dated.text.partition(";")[0]
    phases = _with_eject(by_router.get(stream, ()), dated.at_ms, held_ms, why)
    return {**by_router, stream: phases}


def _with_eject(phases: tuple[Phase, ...], from_ms: int, to_ms: int, why: str) -> tuple[Phase, ...]:
    """What is less in that time is a phase ``eject``, one with the ``eject`` that follows it."""
    made = list[Phase]()
    for one in relabelled(phases, below(EJECT), (from_ms, to_ms), EJECT, why):
        before = made[-1] if made else None
        if one.name == EJECT and before is not None and before.why == why:
            made[-1] = attrs.evolve(before, to_ms=one.to_ms, why=f"{why}; {one.why}")
        else:
            made.append(one)
    return tuple(made)
