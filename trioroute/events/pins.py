"""What happened to pins. ``dispatch`` is the decision that did it, ``key`` a keyed digest."""

import attrs

from trioroute.events.words import BindCause, PinKind, RebindCause, SpillCause, UnbindCause


@attrs.frozen(kw_only=True, slots=False)
class Bound:
    """A key that had no pin got one (RULES 5.9)."""

    kind: PinKind
    key: str
    replica: str
    cause: BindCause
    dispatch: int


@attrs.frozen(kw_only=True, slots=False)
class Spilled:
    """The pin's replica could not be used; the request went to ``to``. ``count``: in a row."""

    kind: PinKind
    key: str
    replica: str
    cause: SpillCause
    to: str
    count: int
    dispatch: int


@attrs.frozen(kw_only=True, slots=False)
class Rebound:
    """The pin moved from ``previous`` to ``replica``."""

    kind: PinKind
    key: str
    replica: str
    previous: str
    cause: RebindCause
    dispatch: int


@attrs.frozen(kw_only=True, slots=False)
class Unbound:
    """The pin is gone; ``dispatch`` is None where no request did it."""

    kind: PinKind
    key: str
    replica: str
    cause: UnbindCause
    dispatch: int | None
