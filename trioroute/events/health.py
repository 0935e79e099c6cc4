"""What happened to a replica's place in traffic (RULES 6)."""

import attrs

from trioroute.events.words import Cause, ChangedBy


@attrs.frozen(kw_only=True, slots=False)
class Ejected:
    """Out of traffic until ``until_ms`` at least; ``n`` counts ejects in a row (RULES 6.7).

    ``by`` is set when somebody asked for it; ``None``: the rules of health did it.
    """

    replica: str
    cause: Cause
    n: int
    until_ms: int
    by: ChangedBy | None = None
    why: str = ""


@attrs.frozen(kw_only=True, slots=False)
class Probing:
    """The cooldown is over and scrapes are good: limited traffic (RULES 6.4, 4.7)."""

    replica: str


@attrs.frozen(kw_only=True, slots=False)
class Live:
    """In traffic, for the first time or again (RULES 2, 6.5)."""

    replica: str
