"""The event log as it grows, for those who watch: what ``GET /events`` streams.

The last events are held in memory as facts and written out for a watcher only when it asks; older
ones are read from the log, page by page, each with a read of its own, so a watcher that sleeps
never holds the log's WAL. Told is what is committed: an event that a crash would take back has
never been seen. A watcher holds one page at a time, however slow it reads.
"""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from itertools import islice

import attrs
import orjson
import trio

from trioroute.events import Event, encode, kind_of
from trioroute.observe.timings import LogView

MEMORY_EVENTS = 4096
PAGE_EVENTS = 128
PAGE_BYTES = 256 * 1024
BODY_MAX = 64 * 1024
"""A longer body (a whole state in a ``Gap``) is told by its size."""

LOOK_EVERY_S = 0.1
BEAT_EVERY_S = 10.0
"""A silent stream says that it lives, and how far it is."""


@attrs.frozen(slots=True)
class Seen:
    """One event of this router's stream, its body as JSON."""

    version: int
    at_ms: int
    kind: str
    body: bytes


Past = Callable[[int, int], Sequence[Seen]]
"""``past(after, limit)``: events of this router from the log, in order. Called in a worker thread.

After a version whose successors were deleted with an old part of the log it begins at the oldest
that is left. Raises LogError.
"""


@attrs.define
class Feed:
    """``note`` is a plain call after each decision; ``pages`` serves one watcher."""

    log: LogView
    at_ms: Callable[[], int]
    past: Past
    _memory: deque[tuple[int, int, Event]] = attrs.field(
        factory=lambda: deque[tuple[int, int, Event]](maxlen=MEMORY_EVENTS)
    )
    _reading: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1))

    def note(self, first: int, events: Sequence[Event]) -> None:
        """Remember events that were just offered to the log; ``first`` is the first's version."""
        at_ms = self.at_ms()
        for version, event in enumerate(events, start=first):
            self._memory.append((version, at_ms, event))

    async def pages(self, after: int, kinds: Collection[str]) -> AsyncGenerator[bytes, None]:
        """What comes after ``after``, for ever, as server-sent events; no ``kinds`` is all kinds.

        The event ``now`` divides what was there already from what is new.

        Closed with ``contextlib.aclosing``. Raises LogError when the past cannot be read.
        """
        if after > self.log.position:
            yield b"event: reset\nid: 0\ndata: {}\n\n"
            after = 0
        silent_since = trio.current_time()
        caught_up = False
        while True:
            found = await self._next(after)
            written = b""
            if found:
                if found[0].version > after + 1:
                    written = _gap(after + 1, found[0].version - 1)
                after = found[-1].version
                written += b"".join(_line(one) for one in found if not kinds or one.kind in kinds)
            elif not caught_up:
                caught_up = True
                written = b"event: now\nid: %d\ndata: {}\n\n" % after
            now = trio.current_time()
            if not written and now - silent_since >= BEAT_EVERY_S:
                written = b"id: %d\n: alive\n\n" % after
            if written:
                silent_since = now
                yield written
            await trio.sleep(0 if found else LOOK_EVERY_S)

    async def _next(self, after: int) -> Sequence[Seen]:
        """Up to a page of committed events after ``after``."""
        durable = self.log.durable_position
        if after >= durable:
            return ()
        if self._memory and self._memory[0][0] <= after + 1:
            return self._remembered(after, durable)
        found = await trio.to_thread.run_sync(self.past, after, PAGE_EVENTS, limiter=self._reading)
        return _bounded(found)

    def _remembered(self, after: int, durable: int) -> Sequence[Seen]:
        start = after + 1 - self._memory[0][0]
        some = islice(self._memory, start, start + min(PAGE_EVENTS, durable - after))
        return _bounded(Seen(v, at_ms, kind_of(e).name, encode(e)) for v, at_ms, e in some)


def _bounded(events: Iterable[Seen]) -> Sequence[Seen]:
    """As many as fit into a page, but one at least."""
    kept: list[Seen] = []
    size = 0
    for one in events:
        size += min(len(one.body), BODY_MAX)
        if kept and size > PAGE_BYTES:
            break
        kept.append(one)
    return kept


def _line(one: Seen) -> bytes:
    """``data`` is one line: compact JSON holds no line break."""
    body = one.body
    if len(body) > BODY_MAX:
        body = orjson.dumps({"omitted_bytes": len(body)})
    return b'id: %d\ndata: {"version":%d,"at_ms":%d,"kind":"%s","body":%s}\n\n' % (
        one.version,
        one.version,
        one.at_ms,
        one.kind.encode(),
        body,
    )


def _gap(first: int, last: int) -> bytes:
    return b'event: gap\nid: %d\ndata: {"from":%d,"to":%d}\n\n' % (last, first, last)
