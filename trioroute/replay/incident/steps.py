"""What was sent and in flight by step of time, for plots."""

from collections import Counter

import attrs

from trioroute.replay.incident.told import TimeStep
from trioroute.replay.plain import Flight, Run

STEPS = 120
"""Steps of time that a span is cut into, for its plots."""


@attrs.define
class Steps:
    """``in_flight`` is what runs now, by replica. The steps up to ``entered`` know what was in
    flight as they began."""

    from_ms: int
    step_ms: int
    steps: list[TimeStep]
    in_flight: Counter[str] = attrs.field(factory=Counter)
    entered: int = -1

    def step(self, at_ms: int) -> TimeStep:
        place = (at_ms - self.from_ms) // self.step_ms
        return self.steps[min(max(place, 0), len(self.steps) - 1)]

    def enter(self, at_ms: int) -> TimeStep:
        """The step of ``at_ms``; what was in flight until then is so in all since the last one."""
        place = min(max((at_ms - self.from_ms) // self.step_ms, 0), len(self.steps) - 1)
        if place > self.entered:
            running = {name: count for name, count in self.in_flight.items() if count}
            for step in self.steps[self.entered + 1 : place + 1]:
                step.in_flight = dict(running)
            self.entered = place
        return self.steps[place]

    def count_running(self, run: Run, found: list[Flight | None]) -> None:
        """Count dispatches and what was in flight by step of time; ``found`` ended in the run."""
        in_flight, begun, step_ends = self.in_flight, run.begun, -1
        names = [send[0] for send in run.sends]
        ended = run.ended
        times, versions = (*ended.times, run.to_ms), (*ended.versions, run.last + 1)
        ends = zip(versions, times, (*found, None), strict=True)
        version, ended_ms, flight = next(ends)
        for number, at_ms, code in zip(begun.numbers, begun.times, begun.codes, strict=True):
            while version < number:
                if ended_ms >= step_ends:
                    step = self.enter(ended_ms)
                    step_ends = step.at_ms + self.step_ms
                    dispatches, most = step.dispatches, step.in_flight
                if flight is not None:
                    in_flight[flight[0][0]] -= 1
                version, ended_ms, flight = next(ends)
            if at_ms >= step_ends:
                step = self.enter(at_ms)
                step_ends = step.at_ms + self.step_ms
                dispatches, most = step.dispatches, step.in_flight
            replica = names[code]
            running = in_flight[replica] = in_flight[replica] + 1
            dispatches[replica] = dispatches.get(replica, 0) + 1
            if running > most.get(replica, 0):
                most[replica] = running
        while version <= run.last:
            if ended_ms >= step_ends:
                step_ends = self.enter(ended_ms).at_ms + self.step_ms
            if flight is not None:
                in_flight[flight[0][0]] -= 1
            version, ended_ms, flight = next(ends)
