"""What happened to a replica's place in traffic (RULES 6)."""

import attrs

from trioroute.events.words import Cause


@attrs.frozen(kw_only=True)
class Ejected:
    """Out of traffic until ``until_ms`` at least; ``n`` counts ejects in a row (RULES 6.7)."""

    replica: str
    cause: Cause
    n: int
    until_ms: int


@attrs.frozen(kw_only=True)
class Probing:
    replica: str


@attrs.frozen(kw_only=True)
class Live:
    replica: str
