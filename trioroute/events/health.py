"""What happened to a replica's place in traffic (RULES 6)."""

from trioroute.events.flat import Flat, Int
from trioroute.events.words import Cause, ChangedBy


class Ejected(Flat, frozen=True, kw_only=True):
    """Out of traffic until ``until_ms`` at least; ``n`` counts ejects in a row (RULES 6.7).

    ``by`` is set when somebody asked for it; ``None``: the rules of health did it.
    """

    replica: str
    cause: Cause
    n: Int
    until_ms: Int
    by: ChangedBy | None = None
    why: str = ""


class Probing(Flat, frozen=True, kw_only=True):
    """The cooldown is over and scrapes are good: limited traffic (RULES 6.4, 4.7)."""

    replica: str


class Live(Flat, frozen=True, kw_only=True):
    """In traffic, for the first time or again (RULES 2, 6.5)."""

    replica: str
