"""What a task of upkeep did since the router started, for /metrics (METRICS.md)."""

import attrs


@attrs.define
class Deeds:
    """``size_bytes`` is what was archived or unlinked; ``waiting`` the segments that could not be
    yet. Time 0: never."""

    ok: int = 0
    failed: int = 0
    size_bytes: int = 0
    last_success_ms: int = 0
    waiting: int = 0

    def succeeded(self, at_ms: int, size_bytes: int = 0) -> None:
        self.ok += 1
        self.size_bytes += size_bytes
        self.last_success_ms = at_ms
