"""When the log took nothing, as its refusals tell it."""

import attrs

from trioroute.events import Refused
from trioroute.events.sections import InForce

LASTS_MS = 10_000
"""Refusals this close to each other are of one stall."""

CODE = "log_stalled"
WHY = f"requests were refused with {CODE}: the log took nothing"


@attrs.define
class Stall:
    """``until_ms`` is when the last one was refused, 0: nobody was."""

    until_ms: int = 0

    def since(self, event: Refused, at_ms: int, settings: InForce) -> int | None:
        """Since when the log had taken nothing, if ``event`` says so: for ``log.gate_wait``, or
        since the refusal just before."""
        if event.code != CODE:
            return None
        since_ms, before_ms = at_ms - settings.log.gate_wait_ms, self.until_ms
        self.until_ms = at_ms
        near = before_ms and since_ms - before_ms <= LASTS_MS
        return min(since_ms, before_ms) if near else since_ms
