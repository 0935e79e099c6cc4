"""Idle connections to one replica, last in first out.

The one used last is the least likely to be closed by the replica, and the others grow old and go.
There is no limit on connections in use: admission is the router's decision, not the pool's.
"""

from collections import deque

import trio

from trioroute.proxy.upstream.wire import UpstreamWire


class IdlePool:
    """Keeps at most `max_idle` connections for at most `idle_expiry_s`."""

    def __init__(self, max_idle: int, idle_expiry_s: float) -> None:
        self._idle: deque[UpstreamWire] = deque()
        self._max_idle = max_idle
        self._idle_expiry_s = idle_expiry_s
        self._closed = False

    def __len__(self) -> int:
        return len(self._idle)

    def take(self) -> UpstreamWire | None:
        """A connection that is open and silent right now, or None. Dead ones are closed."""
        while self._idle:
            wire = self._idle.pop()
            if wire.idle_since < trio.current_time() - self._idle_expiry_s:
                wire.close()
                self.clear()  # the others are older
            elif wire.is_alive():
                return wire
            else:
                wire.close()
        return None

    def give(self, wire: UpstreamWire) -> None:
        """Keep a connection whose exchange ended cleanly."""
        if self._closed or self._max_idle == 0:
            wire.close()
            return
        if len(self._idle) >= self._max_idle:
            self._idle.popleft().close()
        wire.idle_since = trio.current_time()
        self._idle.append(wire)

    def sweep(self) -> None:
        """Close those that grew old, and those that are not open and silent any more."""
        self._expire()
        for wire in [wire for wire in self._idle if not wire.is_alive()]:
            self._idle.remove(wire)
            wire.close()

    def clear(self) -> None:
        """Close all idle connections: the replica was seen to fail."""
        while self._idle:
            self._idle.pop().close()

    def close(self) -> None:
        """Close the idle ones now and the others when they come back."""
        self._closed = True
        self.clear()

    def _expire(self) -> None:
        oldest = trio.current_time() - self._idle_expiry_s
        while self._idle and self._idle[0].idle_since < oldest:
            self._idle.popleft().close()
