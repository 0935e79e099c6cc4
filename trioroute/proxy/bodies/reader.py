"""Who reads a request's body: this process a small one, a process of its own a large one.

``run`` does all that is done with the child, one body at a time, so a client that hangs up cannot
leave half a question in the socket: its body is read to the end and the answer dropped.
"""

import logging
from collections import deque
from collections.abc import Sequence

import attrs
import trio

from trioroute.proxy.bodies.facts import Facts, Nameless, Question, read_facts
from trioroute.proxy.bodies.frames import Answer, Found, pack_question
from trioroute.proxy.bodies.process import COMMAND, ChildLost, ReaderProcess, start
from trioroute.proxy.bodies.weigh import SURE_BYTES, weigh
from trioroute.proxy.body import TakesLong, UnusableBody
from trioroute.proxy.errors import RouterError

logger = logging.getLogger("trioroute.proxy")

ONE_A_PASS_BYTES = 128 * 1024
"""From here on bodies are read one a pass of the event loop: ten of them that came together would
hold it for milliseconds."""

AWAY_BYTES = 256 * 1024
"""From here on the child reads. Here it takes up to 0.8 ms, there 0.15 ms of this process."""

AWAY_WITH_ALIASES_BYTES = 64 * 1024
"""The same where the model's name may have to be found among many small texts: 0.07 ms a KB."""

VALUES_MAX = 5000
"""Of a body that is read here; where it turns out to hold more, the child reads it again. Looking
at one takes 0.3 µs, at a quarter of a MB of empty texts 25 ms."""

WAITS_BYTES = 1 << 20
"""While the child is not ready, a smaller body is read here, in up to 6 ms, and does not wait."""

WAITING_MAX = 1024
WAIT_S = 30.0
"""In line and in the child together; a body of 64 MiB takes 1 s there."""

TRIES = 2
START_AGAIN_S, START_AGAIN_MAX_S = 1.0, 60.0
"""After a start that failed, bodies are read here for so long; four times as long after each
further failure: one that the kernel killed for memory may start at once again."""


def _overloaded(message: str) -> RouterError:
    return RouterError("overloaded", message, None, 1)


TOO_MANY = _overloaded("too many large bodies wait to be read")
TOO_SLOW = _overloaded(f"the body could not be read within {WAIT_S:g} s")
LOST = _overloaded("the process that reads large bodies died of this one; the router goes on")


@attrs.define(eq=False, slots=True)
class _Job:
    """``found`` stays None where nobody could read it: then it is read here."""

    question: bytes = attrs.field(repr=False)
    body: bytes = attrs.field(repr=False)
    done: trio.Event = attrs.field(factory=trio.Event)
    found: Found | None = None


@attrs.define(eq=False)
class BodyReader:
    """Without ``run`` everything is read in this process, one large body a pass of the loop."""

    command: Sequence[str] = COMMAND
    inline: trio.Lock = attrs.field(factory=trio.Lock)
    """Held while a large body is read here: who waits gets it in a later pass of the loop."""
    child: ReaderProcess | None = attrs.field(default=None, init=False)
    _running: bool = attrs.field(default=False, init=False)
    _hopeless_until_s: float = attrs.field(default=0.0, init=False)
    _again_s: float = attrs.field(default=START_AGAIN_S, init=False)
    _told: bool = attrs.field(default=False, init=False)
    _line: deque[_Job] = attrs.field(factory=deque, init=False)
    _asked: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def facts(self, question: Question, body: bytes) -> Facts | Nameless:
        """Raises UnusableBody, ``overloaded`` where the child cannot read it."""
        away = AWAY_WITH_ALIASES_BYTES if question.settings.models.aliases else AWAY_BYTES
        weight = weigh(question, body, away, WAITS_BYTES if self.child is None else 0)
        if weight.size >= away and self._is_there_for(weight.size):
            found = await self._asked_for(question, body)
            if found is not None:
                return found
        if weight.size < SURE_BYTES:
            return read_facts(question, body, weight.plain)
        values_max = VALUES_MAX if self._may_ask() else None
        try:
            if weight.size < ONE_A_PASS_BYTES:
                return read_facts(question, body, weight.plain, values_max)
            async with self.inline:
                return read_facts(question, body, weight.plain, values_max)
        except TakesLong:
            pass
        if self._is_there_for(WAITS_BYTES):
            found = await self._asked_for(question, body)
            if found is not None:
                return found
        async with self.inline:
            return read_facts(question, body, weight.plain)

    async def _asked_for(self, question: Question, body: bytes) -> Facts | Nameless | None:
        found = await self._ask(_Job(pack_question(question, len(body)), body))
        if isinstance(found, RouterError):
            raise UnusableBody(found)
        return found

    def _is_there_for(self, size: int) -> bool:
        if not self._may_ask():
            return False
        if self.child is None:
            self._asked.set()
        return self.child is not None or size >= WAITS_BYTES

    def _may_ask(self) -> bool:
        return self._running and trio.current_time() >= self._hopeless_until_s

    async def _ask(self, job: _Job) -> Found | None:
        if len(self._line) >= WAITING_MAX:
            return TOO_MANY
        self._line.append(job)
        self._asked.set()
        try:
            with trio.move_on_after(WAIT_S):
                await job.done.wait()
                return job.found
            return TOO_SLOW
        finally:
            if job in self._line:
                self._line.remove(job)

    async def run(self) -> None:
        """Read what comes, for ever. The child is started at the first large body."""
        self._running = True
        try:
            while True:
                await self._asked.wait()
                if self.child is None and not await self._started():
                    self._give_back()
                elif self._line:
                    await self._read(self._line.popleft())
                if not self._line and self.child is not None:
                    self._asked = trio.Event()
        finally:
            self._running = False
            self._give_back()
            await self._drop()

    def _give_back(self) -> None:
        """Nobody reads: who waits reads for itself, and asks again later."""
        self._asked = trio.Event()
        while self._line:
            self._line.popleft().done.set()

    async def _read(self, job: _Job) -> None:
        for _ in range(TRIES):
            if self.child is None and not await self._started():
                break
            assert self.child is not None
            try:
                with trio.move_on_after(WAIT_S) as limit:
                    answer = await self.child.ask(job.question, job.body)
            except ChildLost as lost:
                logger.warning("the body reader is lost (%s); it is started again", lost)
                await self._drop()
                job.found = LOST
                continue
            if limit.cancelled_caught:
                await self._drop()
                job.found = TOO_SLOW
            else:
                await self._take(job, answer)
            break
        job.done.set()

    async def _take(self, job: _Job, answer: Answer) -> None:
        job.found = answer.found
        job.done.set()
        if answer.leaves:
            await self._drop()
            await self._started()

    async def _started(self) -> bool:
        try:
            self.child = await start(self.command)
        except (OSError, ValueError, RuntimeError, ChildLost) as error:
            self._hopeless_until_s = trio.current_time() + self._again_s
            self._again_s = min(4 * self._again_s, START_AGAIN_MAX_S)
            if not self._told:
                self._told = True
                words = " ".join(self.command)
                logger.warning(
                    "large bodies are read on the event loop and hold it up, for the body reader "
                    "does not start (%s); `%s 0<>/dev/null` tells why",
                    error,
                    words,
                )
            return False
        self._told = False
        self._again_s = START_AGAIN_S
        return True

    async def _drop(self) -> None:
        child, self.child = self.child, None
        if child is not None:
            await child.close()
