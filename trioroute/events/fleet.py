"""Who belongs to the fleet, and who changed that.

``why`` is what the operator gave as a reason, one printable line; empty: none was given.
"""

from trioroute.events.flat import Flat
from trioroute.events.words import ChangedBy, Source

MODEL_NAME_MAX = 512
"""Characters of a model's name, where a replica tells it and where a request asks for it: what is
listed can be asked for. An engine's default is the path of the model's directory."""


class ReplicaJoined(Flat, frozen=True, kw_only=True):
    """A replica was added, or its address or models changed. ``models`` empty: asked from it."""

    replica: str
    url: str
    models: tuple[str, ...]
    engine: str
    source: Source = "config"
    by: ChangedBy = "start"
    why: str = ""


class ReplicaLeft(Flat, frozen=True, kw_only=True):
    """A replica was removed. What is in flight on it runs on."""

    replica: str
    by: ChangedBy = "start"
    why: str = ""


class Draining(Flat, frozen=True, kw_only=True):
    """``on``: takes no new request, keeps its running ones. Off: takes part again.

    ``leaves``: it leaves the fleet when none runs any more.
    """

    replica: str
    on: bool
    leaves: bool = False
    by: ChangedBy = "admin"
    why: str = ""
