"""What happened to pins. ``dispatch`` is the decision that did it, ``key`` a keyed digest."""

from trioroute.events.flat import Flat, Int
from trioroute.events.words import BindCause, PinKind, RebindCause, SpillCause, UnbindCause


class Bound(Flat, frozen=True, kw_only=True):
    """A key that had no pin got one (RULES 5.9)."""

    kind: PinKind
    key: str
    replica: str
    cause: BindCause
    dispatch: Int


class Spilled(Flat, frozen=True, kw_only=True):
    """The pin's replica could not be used; the request went to ``to``. ``count``: in a row."""

    kind: PinKind
    key: str
    replica: str
    cause: SpillCause
    to: str
    count: Int
    dispatch: Int


class Rebound(Flat, frozen=True, kw_only=True):
    """The pin moved from ``previous`` to ``replica``."""

    kind: PinKind
    key: str
    replica: str
    previous: str
    cause: RebindCause
    dispatch: Int


class Unbound(Flat, frozen=True, kw_only=True):
    """The pin is gone; ``dispatch`` is None where no request did it."""

    kind: PinKind
    key: str
    replica: str
    cause: UnbindCause
    dispatch: Int | None
