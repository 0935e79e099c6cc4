"""What did harm in a span: each kind of it with its first row, for ``prevention`` to look into."""

import attrs

from trioroute.events import Dispatched, Ejected, Event, Orphaned, Refused, Released, ScrapeFailed
from trioroute.replay.words import NOT_FAILED

Kind = tuple[str, ...]
"""``eject`` with the state before, what led to it and the cause; ``end`` with outcome, cause and
blame; ``refused`` with the code; ``pin`` with row, pin and cause; ``orphaned``; ``retried``, of the
second attempt; ``lost`` with cause and blame, whose last attempt nothing followed; ``delayed`` with
where most of its time went."""

KINDS_MAX = 100

_PINS = frozenset(
    {
        ("Spilled", "running"),
        ("Spilled", "stalled"),
        ("Spilled", "full"),
        ("Rebound", "spills"),
        ("Rebound", "force"),
        ("Unbound", "spills"),
    }
)
"""What became of pins by a number that is a setting."""


@attrs.define
class Harm:
    """``place`` is that of the first row; of a pin, that of the decision which did it."""

    kind: Kind
    place: str
    times: int = 0


@attrs.define
class Harms:
    """Bounded: further kinds are not kept."""

    by_kind: dict[Kind, Harm] = attrs.field(factory=dict)

    def take(self, place: str, event: Event, was: str, before: Event | None) -> None:
        """Any row but one of pins; ``was`` and ``before`` as in ``Rules.take``."""
        match event:
            case Ejected(by=None) if was in ("LIVE", "PROBING"):
                led = "scrape" if isinstance(before, ScrapeFailed) else "request"
                self._add(("eject", was, led, event.cause), place)
            case Released() if event.outcome not in NOT_FAILED:
                self._add(("end", event.outcome, event.cause, event.blame), place)
            case Dispatched(attempt=2):
                self._add(("retried",), place)
            case Refused():
                self._add(("refused", event.code), place)
            case Orphaned(ends_lost=False):
                self._add(("orphaned",), place, len(event.dispatches))

    def pins(self, what: str, pin: str, cause: str, decision: str, times: int = 1) -> None:
        """``what`` became of pins of a kind by ``cause``, the first time by ``decision``."""
        if (what, cause) in _PINS:
            self._add(("pin", what, pin, cause), decision, times)

    def _add(self, kind: Kind, place: str, times: int = 1) -> None:
        found = self.by_kind.get(kind)
        if found is None:
            if len(self.by_kind) >= KINDS_MAX:
                return
            found = self.by_kind[kind] = Harm(kind, place)
        found.times += times
