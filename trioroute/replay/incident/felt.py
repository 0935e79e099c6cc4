"""Which trouble clients can have felt: by whom they were failed or refused, and by whom delayed."""

from collections.abc import Mapping

import attrs

from trioroute.replay.incident.told import FirstCause
from trioroute.replay.incident.toll import Toll
from trioroute.replay.told import Line
from trioroute.replay.words import plural

Models = frozenset[str] | None
"""The models that something concerns; None: all, or it is not known."""


@attrs.frozen
class Trouble:
    """``begun_ms`` is when it began, such as with the first failed scrape before an eject."""

    begun_ms: int
    cause: FirstCause
    replica: str | None = None
    models: Models = None


@attrs.frozen
class Felt:
    """``toll`` is who was failed or refused, ``delays`` who was delayed. ``returned``: when a
    replica was back in traffic the last time."""

    toll: Toll
    delays: Toll
    returned: Mapping[str, int]

    @property
    def harm(self) -> Toll:
        """What a first cause is sought for: delays only where nobody was failed or refused."""
        return self.toll if self.toll.by else self.delays

    def by(self, one: Trouble) -> bool:
        """Whether it can have done harm of the gravest kind that there is."""
        return self._of(one, self.harm)

    def at_all(self, one: Trouble) -> bool:
        return self._of(one, self.toll) or self._of(one, self.delays)

    def _of(self, one: Trouble, harm: Toll) -> bool:
        """One replica that is out or stands still harms who runs there, or finds no room without
        it; what runs on others went on."""
        if one.replica is None or one.cause.kind not in ("eject", "stall"):
            return harm.since(one.begun_ms, one.models)
        until_ms = self.returned.get(one.replica)
        back_ms = None if until_ms is None or until_ms < one.begun_ms else until_ms
        return harm.on(one.replica, one.models, one.begun_ms, back_ms)

    def line(self, one: Trouble) -> Line:
        """Of trouble that is not the first cause."""
        line = line_of(one.cause, one.cause.kind)
        if self._of(one, self.toll):
            return line
        but = ", but requests were delayed" if self._of(one, self.delays) else ""
        moved = self.toll.moved[one.replica] if one.replica is not None else 0
        on = f": {plural(moved, 'request')} that failed there went on elsewhere" if moved else ""
        said = f"{line.text}; no client was failed or refused by it{but}{on}"
        return attrs.evolve(line, text=said)


def meet(one: Models, other: Models) -> bool:
    return one is None or other is None or not one.isdisjoint(other)


def line_of(cause: FirstCause, event: str = "Released") -> Line:
    return Line(at_ms=cause.at_ms, place=cause.place or "", event=event, text=cause.text)
