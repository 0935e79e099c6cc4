"""Who belongs to the fleet, and who changed that.

``why`` is what the operator gave as a reason, one printable line; empty: none was given.
"""

import attrs

from trioroute.events.words import ChangedBy, Source


@attrs.frozen(kw_only=True, slots=False)
class ReplicaJoined:
    """A replica was added, or its address or models changed. ``models`` empty: asked from it."""

    replica: str
    url: str
    models: tuple[str, ...]
    engine: str
    source: Source = "config"
    by: ChangedBy = "start"
    why: str = ""


@attrs.frozen(kw_only=True, slots=False)
class ReplicaLeft:
    """A replica was removed. What is in flight on it runs on."""

    replica: str
    by: ChangedBy = "start"
    why: str = ""


@attrs.frozen(kw_only=True, slots=False)
class Draining:
    """``on``: takes no new request, keeps its running ones. Off: takes part again.

    ``leaves``: it leaves the fleet when none runs any more.
    """

    replica: str
    on: bool
    leaves: bool = False
    by: ChangedBy = "admin"
    why: str = ""
