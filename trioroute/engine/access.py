"""What a replica itself saw of each request: the other side of what a router's log says.

One JSON line when a generation is asked for and one when it is over, written at once, so that a
killed replica's lines tell what it was working on.
"""

import os
import time

import attrs
import orjson

from trioroute.engine.connection import Exchange


@attrs.define(eq=False)
class AccessLog:
    """``file`` empty: nothing is written. Raises OSError if it cannot be opened."""

    file: str = ""
    _descriptor: int = attrs.field(default=-1, init=False)

    def __attrs_post_init__(self) -> None:
        if self.file:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(self.file, flags, 0o644)

    def taken(self, exchange: Exchange) -> None:
        """A generation was asked for."""
        self._write(exchange, {"event": "taken"})

    def ended(self, exchange: Exchange, *, whole: bool) -> None:
        """It is over; ``whole``: the answer was sent to its end. ``status`` null: none was sent."""
        self._write(exchange, {"event": "ended", "status": exchange.status, "whole": whole})

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, exchange: Exchange, told: dict[str, object]) -> None:
        if self._descriptor < 0:
            return
        request = exchange.request
        line = {
            "at_ms": time.time_ns() // 1_000_000,
            "request_id": request.headers.get("x-request-id"),
            "path": request.path,
            **told,
        }
        os.write(self._descriptor, orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
