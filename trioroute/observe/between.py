"""What no event tells but its row and those before it do: which settings became others."""

from collections.abc import Callable

import attrs

from trioroute.events.sections import InForce
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


@attrs.define
class Comparing:
    """Looks at the events of one router in order. ``in_force_before(version)`` may read the log,
    for events of which that is not told."""

    in_force_before: Callable[[int], InForce | None]
    _settings: InForce | None = None
    _looked: bool = False

    def look(self, one: Seen) -> list[str] | None:
        """At the next event: what a ``Configured`` changed, in words; None for other events and
        where it is not known. May raise a LogError where the log is read."""
        if one.before is not None:
            self._settings = one.before
        if one.settings is None:
            return None
        before = self._in_force(one.version)
        self._settings = one.settings
        return None if before is None else changed_keys(before, one.settings)

    def _in_force(self, version: int) -> InForce | None:
        if self._settings is None and not self._looked:
            self._looked = True
            self._settings = self.in_force_before(version)
        return self._settings
