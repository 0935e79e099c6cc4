"""The event log as it grows, for those who watch: what ``GET /events`` streams.

The last events are held in memory as facts and written out for a watcher only when it asks; older
ones are read from the log, page by page, each with a read of its own, so a watcher that sleeps
never holds the log's WAL. Told is what is committed: an event that a crash would take back has
never been seen. A watcher holds one page at a time, however slow it reads.
"""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import islice

import attrs
import orjson
import trio

from trioroute.events import Configured, Event, encode, kind_of
from trioroute.events.sections import InForce
from trioroute.observe.between import Comparing, Seen
from trioroute.observe.timings import LogView

MEMORY_EVENTS = 4096
PAGE_EVENTS = 128
READ_EVENTS = 2000
"""Read from the log at a time for a watcher that wants only some kinds."""

PAGE_BYTES = 256 * 1024
BODY_MAX = 64 * 1024
"""A longer body (a whole state in a ``Gap``) is told by its size."""

LOOK_EVERY_S = 0.1
BEAT_EVERY_S = 10.0
"""A silent stream says that it lives, and how far it is."""


Past = Callable[[int, int], Sequence[Seen]]
"""``past(after, limit)``: events of this router from the log, in order. Called in a worker thread.

After a version whose successors were deleted with an old part of the log it begins at the oldest
that is left. Raises LogError.
"""

InForceBefore = Callable[[int], InForce | None]
"""The settings in force before an event, from the log; None: not known. Called in a worker thread.
Raises LogError."""


@attrs.define
class Feed:
    """``note`` is a plain call after each decision; ``pages`` serves one watcher. ``settings`` are
    those in force after the events noted so far."""

    log: LogView
    at_ms: Callable[[], int]
    past: Past
    settings: InForce
    in_force_before: InForceBefore
    _memory: deque[tuple[int, int, Event, InForce]] = attrs.field(
        factory=lambda: deque[tuple[int, int, Event, InForce]](maxlen=MEMORY_EVENTS)
    )
    _reading: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1))

    def note(self, first: int, events: Sequence[Event]) -> None:
        """Remember events that were just offered to the log; ``first`` is the first's version."""
        at_ms = self.at_ms()
        for version, event in enumerate(events, start=first):
            self._memory.append((version, at_ms, event, self.settings))
            if isinstance(event, Configured):
                self.settings = event.settings

    async def pages(self, after: int, kinds: Collection[str]) -> AsyncGenerator[bytes, None]:
        """What comes after ``after``, for ever, as server-sent events; no ``kinds`` is all kinds.

        The event ``now`` divides what was there already from what is new, and says at what time
        that began, of whatever kind its first event was.

        Closed with ``contextlib.aclosing``. Raises LogError when the past cannot be read.
        """
        if after > self.log.position:
            yield b"event: reset\nid: 0\ndata: {}\n\n"
            after = 0
        silent_since = trio.current_time()
        caught_up = False
        comparing = Comparing(self.in_force_before)
        from_ms: int | None = None
        while True:
            found = await self._next(after, kinds, comparing)
            written = b""
            if found is not None:
                if found.first > after + 1:
                    written = _gap(after + 1, found.first - 1)
                after = found.last
                from_ms = found.first_ms if from_ms is None else from_ms
                written += b"".join(found.wanted)
            elif not caught_up:
                caught_up = True
                written = _now(after, self.at_ms() if from_ms is None else from_ms)
            now = trio.current_time()
            if not written and now - silent_since >= BEAT_EVERY_S:
                written = b"id: %d\n: alive\n\n" % after
            if written:
                silent_since = now
                yield written
            await trio.sleep(LOOK_EVERY_S if found is None else 0)

    async def _next(
        self, after: int, kinds: Collection[str], comparing: Comparing
    ) -> "_Page | None":
        """Up to a page of committed events after ``after``."""
        durable = self.log.durable_position
        if after >= durable:
            return None
        if self._memory and self._memory[0][0] <= after + 1:
            return _page(self._remembered(after, durable), kinds, comparing)
        read = partial(self._read, after, kinds, comparing)
        return await trio.to_thread.run_sync(read, limiter=self._reading)

    def _remembered(self, after: int, durable: int) -> Iterable[Seen]:
        start = after + 1 - self._memory[0][0]
        some = islice(self._memory, start, start + min(PAGE_EVENTS, durable - after))
        return (_seen(v, at_ms, event, before) for v, at_ms, event, before in some)

    def _read(self, after: int, kinds: Collection[str], comparing: Comparing) -> "_Page | None":
        """In a thread, and chosen from there: a few kinds of a long past are mostly other rows."""
        return _page(self.past(after, READ_EVENTS if kinds else PAGE_EVENTS), kinds, comparing)


def _seen(version: int, at_ms: int, event: Event, before: InForce) -> Seen:
    settings = event.settings if isinstance(event, Configured) else None
    return Seen(version, at_ms, kind_of(event).name, encode(event), settings, before)


@attrs.frozen(slots=True)
class _Page:
    """From version ``first`` to ``last`` all were looked at; ``wanted`` are told, as written."""

    first: int
    first_ms: int
    last: int
    wanted: Sequence[bytes]


def _page(events: Iterable[Seen], kinds: Collection[str], comparing: Comparing) -> _Page | None:
    """As many as fit into a page, but one at least; no ``kinds`` is all kinds."""
    first = first_ms = last = size = 0
    wanted: list[bytes] = []
    for one in events:
        if not first:
            first, first_ms = one.version, one.at_ms
        is_wanted = not kinds or one.kind in kinds
        if is_wanted:
            size += min(len(one.body), BODY_MAX)
            if wanted and (size > PAGE_BYTES or len(wanted) >= PAGE_EVENTS):
                break
        changed = comparing.look(one)
        if is_wanted:
            wanted.append(_line(one, changed))
        last = one.version
    return _Page(first, first_ms, last, wanted) if first else None


def _line(one: Seen, changed_keys: list[str] | None) -> bytes:
    """``data`` is one line: compact JSON holds no line break."""
    body = one.body
    if len(body) > BODY_MAX:
        body = orjson.dumps({"omitted_bytes": len(body)})
    changed = b""
    if changed_keys is not None:
        changed = b',"changed":' + orjson.dumps(changed_keys)
    return b'id: %d\ndata: {"version":%d,"at_ms":%d,"kind":"%s","body":%s%s}\n\n' % (
        one.version,
        one.version,
        one.at_ms,
        one.kind.encode(),
        body,
        changed,
    )


def _now(last: int, from_ms: int) -> bytes:
    return b'event: now\nid: %d\ndata: {"from_ms":%d}\n\n' % (last, from_ms)


def _gap(first: int, last: int) -> bytes:
    return b'event: gap\nid: %d\ndata: {"from":%d,"to":%d}\n\n' % (last, first, last)
