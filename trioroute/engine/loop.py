"""The step loop: runs the batch in real time and tells the requests that they have new tokens.

One sleep per step for the whole batch, none while idle: at 8 streams of 60 tokens/s that is 60
wake-ups of this task a second instead of 480 timers.
"""

from collections.abc import Iterator
from collections.abc import Sequence as Items
from contextlib import contextmanager

import attrs
import trio

from trioroute.engine.batch import Batch, Sequence
from trioroute.engine.faults import FaultDesk
from trioroute.engine.metrics import Latencies

_CATCH_UP_S = 0.1


@attrs.define(eq=False)
class Job:
    """The sequences of one HTTP request, and the news about them."""

    sequences: tuple[Sequence, ...]
    news: trio.Event = attrs.field(factory=trio.Event)

    async def advance(self) -> None:
        """Waits until some sequence has at least one token more, or is done."""
        await self.news.wait()
        self.news = trio.Event()


@attrs.define(eq=False)
class StepLoop:
    """Owns the batch. `run` is its only task; everything else is plain calls from requests."""

    batch: Batch
    desk: FaultDesk
    latencies: Latencies
    _jobs: dict[Sequence, Job] = attrs.field(factory=dict, init=False)
    _work: trio.Event = attrs.field(factory=trio.Event, init=False)

    @contextmanager
    def admitted(self, sequences: Items[Sequence]) -> Iterator[Job]:
        """Queues the sequences for the time of the block; leaving it early aborts them.

        Raises QueueFullError.
        """
        self.batch.submit(sequences, trio.current_time())
        job = Job(tuple(sequences))
        self._jobs.update((sequence, job) for sequence in sequences)
        self._work.set()
        try:
            yield job
        finally:
            for sequence in sequences:
                del self._jobs[sequence]
                self.batch.abort(sequence)

    async def run(self) -> None:
        """Steps for ever. The freeze fault stops it between steps, as a stopped worker would."""
        deadline_s = trio.current_time()
        while True:
            await self.desk.until(lambda faults: not faults.freeze)
            now_s = trio.current_time()
            step = self.batch.plan(now_s)
            if step is None:
                self._work = trio.Event()
                await self._work.wait()
                continue
            # From the last deadline, not from now: late wake-ups must not lower the token rate.
            if now_s - deadline_s > _CATCH_UP_S or not step.decoding:
                deadline_s = now_s
            deadline_s += step.duration_s * self.desk.now.slow_factor
            await trio.sleep_until(deadline_s)
            await self.desk.until(lambda faults: not faults.freeze)
            now_s = trio.current_time()
            for sequence in self.batch.complete(step, now_s):
                self.latencies.observe(sequence, now_s)
                self._jobs[sequence].news.set()
