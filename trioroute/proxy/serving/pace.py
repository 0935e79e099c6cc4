"""How slowly a request body may come: a client that sends a byte now and then holds no place."""

import attrs

STEP_BYTES = 16 * 1024
"""273 bytes a second at the default limit, a tenth of the slowest mobile link. Silence alone lost
as the measure: a byte every ten seconds kept a connection for ever."""


@attrs.define(slots=True, eq=False)
class Pace:
    """The body must bring ``STEP_BYTES`` more, or its end, within each ``limit_s``."""

    limit_s: float
    deadline: float
    _came: int = 0

    def brought(self, size: int, now: float) -> None:
        """So many bytes came; enough of them move the deadline."""
        self._came += size
        if self._came >= STEP_BYTES:
            self._came = 0
            self.deadline = now + self.limit_s

    def too_slow(self) -> str:
        """What the refusal says."""
        return (
            f"less than {STEP_BYTES} bytes of the request body came in {self.limit_s:g} s, "
            "the limit here: send it faster"
        )
