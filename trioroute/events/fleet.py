"""Who belongs to the fleet."""

import attrs


@attrs.frozen(kw_only=True)
class ReplicaJoined:
    """A replica was added, or its address or models changed. ``models`` empty: asked from it."""

    replica: str
    url: str
    models: tuple[str, ...]
    engine: str


@attrs.frozen(kw_only=True)
class ReplicaLeft:
    """A replica was removed. What is in flight on it runs on."""

    replica: str


@attrs.frozen(kw_only=True)
class Draining:
    """``on``: takes no new request, keeps its running ones. Off: takes part again."""

    replica: str
    on: bool
