"""One generation: its faults, its place in the batch, and its answer, streamed or whole."""

import math
from collections.abc import Sequence as Items

import attrs
import trio

from trioroute.engine import errors
from trioroute.engine.batch import QueueFullError, Sequence
from trioroute.engine.bodies import Generation
from trioroute.engine.connection import Exchange
from trioroute.engine.faults import Faults
from trioroute.engine.loop import Job, StepLoop
from trioroute.engine.shapes import Outcome, Shape, Usage
from trioroute.engine.tokens import BYTES_PER_TOKEN, answer_text

_GARBAGE = b"\x16\x03\x01\x00\xfbthis is no HTTP\x00\xff\xfe\n"


class CutShortError(Exception):
    """A fault has ended the connection; there is nothing left to answer."""


async def fail_early(exchange: Exchange, fault: Faults) -> None:
    """Faults that strike before the request is looked at. Returns if none of them is in force.

    Raises CutShortError once the connection is closed, ApiError for a status.
    """
    if fault.hang:
        await trio.sleep_forever()  # until the client leaves
    if fault.die_before_headers:
        await exchange.close(reset=False)
        raise CutShortError
    if fault.garbage:
        await exchange.raw(_GARBAGE)
        await exchange.close(reset=False)
        raise CutShortError
    if fault.status is not None:
        raise errors.demanded(fault.status)


@attrs.define(eq=False)
class Run:
    """One generation on its way through the batch."""

    exchange: Exchange
    asked: Generation
    shape: Shape
    fault: Faults
    loop: StepLoop
    sequences: tuple[Sequence, ...] = attrs.field(init=False)
    _chunks: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        """One sequence per prompt, its answer known from the start."""
        seed = self.loop.batch.settings.seed
        self.sequences = tuple(
            Sequence(
                prompt,
                self.asked.max_tokens,
                answer_text(seed, prompt, self.asked.max_tokens),
                self.asked.finish_reason,
            )
            for prompt in self.asked.prompts
        )

    @property
    def usage(self) -> Usage:
        """Tokens so far."""
        return Usage(
            sum(one.prompt_tokens for one in self.sequences),
            sum(self._shown(one) for one in self.sequences),
            sum(one.cached_tokens for one in self.sequences),
        )

    @property
    def outcomes(self) -> list[Outcome]:
        """Text and end of each choice, as far as it is generated."""
        return [
            Outcome(
                one.words[: self._shown(one) * BYTES_PER_TOKEN],
                "abort" if self._aborted(one) else one.finish_reason,
            )
            for one in self.sequences
        ]

    async def answer(self) -> None:
        """All of the answer. Raises ApiError, or CutShortError if a fault closed the connection."""
        if self.asked.stream:
            await self._stream()
        else:
            await self._whole()

    async def _whole(self) -> None:
        if self.fault.error_event is not None:
            raise errors.demanded(self.fault.error_event)
        await self._thawed()
        try:
            with self.loop.admitted(self.sequences) as job:
                while not all(self._ended(one) for one in self.sequences):
                    await job.advance()
                self._count_aborts()
        except QueueFullError:
            raise errors.busy() from None
        body = self.shape.whole(self.outcomes, self.usage)
        if self.fault.cut_after is not None:
            await self.exchange.answer_half(200, body)
            await self._cut()
        await self.exchange.answer(200, body)

    async def _stream(self) -> None:
        # The head goes out before the model computes, as in vLLM: what fails later fails inside
        # a 200, as an event.
        await self.exchange.start()
        if self.fault.error_event is not None:
            await self._send(self.shape.failed(errors.demanded(self.fault.error_event)))
            await self.exchange.finish()
            return
        await self._send(self.shape.greeting())
        await self._thawed()
        try:
            with self.loop.admitted(self.sequences) as job:
                await self._tokens(job)
                self._count_aborts()
        except QueueFullError:
            await self._send(self.shape.failed(errors.busy()))
        else:
            await self._send(self.shape.closing(self.outcomes, self.usage))
        await self.exchange.finish()

    async def _tokens(self, job: Job) -> None:
        """Every token as its own event; those that piled up while the client was slow at once."""
        sent = [0] * len(self.sequences)
        opened = False
        while True:
            await job.advance()
            events: list[bytes] = []
            if not opened:
                opened = True
                events += self.shape.opening(self.usage)
            for choice, sequence in enumerate(self.sequences):
                events += self._new_events(choice, sequence, sent)
            await self._send(events)
            if all(
                self._ended(one) and sent[choice] == self._shown(one)
                for choice, one in enumerate(self.sequences)
            ):
                return

    def _new_events(self, choice: int, sequence: Sequence, sent: list[int]) -> list[bytes]:
        events: list[bytes] = []
        usage = self.usage
        for at in range(sent[choice], self._shown(sequence)):
            text = sequence.words[at * BYTES_PER_TOKEN : (at + 1) * BYTES_PER_TOKEN]
            last = at + 1 == sequence.max_tokens
            finish_reason = sequence.finish_reason if last else None
            events.append(self.shape.token(choice, text, finish_reason, usage))
        if self._aborted(sequence) and sent[choice] < self._shown(sequence):
            events.append(self.shape.token(choice, "", "abort", usage))
        sent[choice] = self._shown(sequence)
        return events

    async def _send(self, events: Items[bytes]) -> None:
        left = math.inf if self.fault.cut_after is None else self.fault.cut_after - self._chunks
        kept = events if left >= len(events) else events[: int(left)]
        if kept:
            await self.exchange.send(kept)
            self._chunks += len(kept)
        if self._chunks == self.fault.cut_after:
            await self._cut()

    async def _cut(self) -> None:
        await self.exchange.close(reset=not self.fault.cut_fin)
        raise CutShortError

    async def _thawed(self) -> None:
        # A frozen model does not even see new requests: its gauges stand still (captured).
        await self.loop.desk.until(lambda faults: not faults.freeze)

    def _shown(self, sequence: Sequence) -> int:
        if self.fault.abort_after is None:
            return sequence.generated
        return min(sequence.generated, self.fault.abort_after)

    def _aborted(self, sequence: Sequence) -> bool:
        limit = self.fault.abort_after
        return limit is not None and limit < sequence.max_tokens and sequence.generated >= limit

    def _ended(self, sequence: Sequence) -> bool:
        return sequence.done or self._aborted(sequence)

    def _count_aborts(self) -> None:
        for sequence in self.sequences:
            if not sequence.done:
                self.loop.batch.counters.finished["abort"] += 1
