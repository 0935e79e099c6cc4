"""Requests sent to a replica that is out of traffic, as their model has no other (RULES 4 step 5):
so clients are served in an outage all the same."""

from collections.abc import Iterable, Iterator

import attrs

from trioroute.replay.incident.told import Phase
from trioroute.replay.words import plural

RUNNING_MAX = 10_000

SENT_MAX = 10_000
"""Dispatches that are kept so that a later one of the same request is not counted again."""


@attrs.define
class Anyway:
    """``running`` and ``sent`` hold, by dispatch, when the outage began in which it was sent;
    ``counts`` by the same how many requests were sent and answered."""

    running: dict[int, int] = attrs.field(factory=dict)
    sent: dict[int, int] = attrs.field(factory=dict)
    counts: dict[int, tuple[int, int]] = attrs.field(factory=dict)

    def send(self, number: int, since_ms: int, earlier: Iterable[int]) -> None:
        """``earlier`` are the request's dispatches before: it is counted once an outage."""
        if len(self.running) >= RUNNING_MAX:
            return
        self.running[number] = since_ms
        again = any(self.sent.get(one) == since_ms for one in earlier)
        self.sent[number] = since_ms
        if len(self.sent) > SENT_MAX:
            del self.sent[next(iter(self.sent))]
        sent, answered = self.counts.get(since_ms, (0, 0))
        self.counts[since_ms] = (sent + (not again), answered)

    def end(self, number: int, *, well: bool) -> None:
        since_ms = self.running.pop(number, None)
        if since_ms is not None and well:
            sent, answered = self.counts[since_ms]
            self.counts[since_ms] = (sent, answered + 1)

    def told(self, phases: Iterable[Phase], outage: str) -> Iterator[Phase]:
        """The phases, each ``outage`` with how many got an answer in it."""
        for phase in phases:
            found = [
                counts
                for since_ms, counts in self.counts.items()
                if phase.name == outage and phase.from_ms <= since_ms < phase.to_ms
            ]
            sent = sum(one[0] for one in found)
            if not sent:
                yield phase
                continue
            said = f"{plural(sent, 'request')} sent there all the same (RULES 4 step 5)"
            answered = sum(one[1] for one in found)
            yield attrs.evolve(phase, why=f"{phase.why}; {said}, {answered} of them answered")
