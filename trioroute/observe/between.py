"""What no event tells by itself but its row and those before it do: which settings became others,
and when the router stood still."""

from collections.abc import Callable

import attrs

from trioroute.events.sections import InForce
from trioroute.projections import silence_max_ms
from trioroute.settings.changed import changed_keys


@attrs.frozen(slots=True)
class Seen:
    """One event of this router's stream, its body as JSON. ``settings`` are those of a
    ``Configured``, ``before`` those in force until then; None: not known."""

    version: int
    at_ms: int
    kind: str
    body: bytes
    settings: InForce | None = None
    before: InForce | None = None


@attrs.frozen(slots=True)
class Between:
    """``changed``: what a ``Configured`` changed, in words, None for other events and where it is
    not known. ``silent_from_ms``: since when the router had stood still, 0: it had not."""

    changed: list[str] | None = None
    silent_from_ms: int = 0


NOTHING = Between()
_BEGIN, _SCRAPES = ("Started", "Orphaned"), ("Scraped", "ScrapeFailed")
_NO_SCRAPES = ("Started", "Stopped", "ReplicaLeft")
"""After these it is not sure that anybody is left to be scraped."""


@attrs.define
class Comparing:
    """Looks at the events of one router in order. ``now`` are the settings in force now;
    ``in_force_before(version)`` may read the log, for events of which that is not told."""

    now: InForce
    in_force_before: Callable[[int], InForce | None]
    _settings: InForce | None = None
    _looked: bool = False
    _version: int = 0
    _at_ms: int = 0
    _scraped_ms: int = 0

    def look(self, one: Seen) -> Between:
        """At the next event. May raise a LogError where the log is read."""
        if one.before is not None:
            self._settings = one.before
        silent_from_ms = self._silent_from(one)
        changed = None
        if one.settings is not None:
            before = self._in_force(one.version)
            changed = None if before is None else changed_keys(before, one.settings)
            self._settings = one.settings
        if one.kind in _SCRAPES:
            self._scraped_ms = one.at_ms
        elif one.kind in _NO_SCRAPES:
            self._scraped_ms = 0
        self._version, self._at_ms = one.version, one.at_ms
        if changed is None and not silent_from_ms:
            return NOTHING
        return Between(changed, silent_from_ms)

    def _silent_from(self, one: Seen) -> int:
        """Only between two rows that follow each other, of a router that had just scraped."""
        if one.version != self._version + 1 or one.kind in _BEGIN or not self._scraped_ms:
            return 0
        silent_ms = one.at_ms - self._at_ms
        if silent_ms <= silence_max_ms(self._settings or self.now):
            return 0
        most_ms = silence_max_ms(self._in_force(one.version) or self.now)
        is_silent = silent_ms > most_ms and self._at_ms - self._scraped_ms <= most_ms
        return self._at_ms if is_silent else 0

    def _in_force(self, version: int) -> InForce | None:
        if self._settings is None and not self._looked:
            self._looked = True
            self._settings = self.in_force_before(version)
        return self._settings
