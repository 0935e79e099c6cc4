"""What replicas said when they were scraped. Floats ended at the edge: here are integers."""

import attrs

from trioroute.events.flat import Flat, Int
from trioroute.events.words import Cause


@attrs.frozen(kw_only=True, slots=False)
class Reading:
    """One good scrape. ``None`` is unknown, never zero (RULES 3).

    ``running`` and ``waiting`` count requests, summed over the engines of the page; ``kv_m`` is the
    share of KV blocks in use in thousandths; ``tokens`` is the generated-token counter; ``own`` is
    what this router had in flight there when the reading was taken; ``models`` is set when the
    replica was asked and serves something else than known so far; ``cache_tokens`` is the size of
    its KV cache.
    """

    running: int | None
    waiting: int | None
    kv_m: int | None
    tokens: int | None
    asleep: bool
    own: int
    models: tuple[str, ...] | None = None
    cache_tokens: int | None = None


@attrs.frozen(kw_only=True, slots=False)
class Scraped:
    """Good scrapes of one round: changed readings, and who answered with the reading before."""

    readings: dict[str, Reading]
    same: tuple[str, ...]


class ScrapeFailed(Flat, frozen=True, kw_only=True):
    """A scrape gave no reading; ``status`` is set where HTTP answered with an error."""

    replica: str
    cause: Cause
    status: Int | None = None
