"""What one metrics page says, in integers: the common tongue of all dialects."""

import attrs


@attrs.frozen(kw_only=True)
class PageReading:
    """``None`` is unknown (RULES 3). Units as in ``events.Reading``; ``kv_m`` is thousandths."""

    running: int | None = None
    waiting: int | None = None
    kv_m: int | None = None
    tokens: int | None = None
    asleep: bool = False
    cache_tokens: int | None = None

    @property
    def has_load(self) -> bool:
        """Whether the page tells the load at all; if not, the router's own requests must do."""
        return self.running is not None and self.waiting is not None
