"""What ``verify`` proved, or the first difference it found."""

import attrs

from eventlog.record import Head
from trioroute.events import Event


@attrs.frozen(kw_only=True)
class Difference:
    """The first row that is not what its past says it must be.

    ``what``: ``damaged`` (the row was changed or rows are missing), ``rule changed`` (another
    version of the rules decided it), ``not deterministic`` (the same rules decide otherwise now),
    ``digest`` (the fold gives another state) or ``ending`` (not one end per dispatch).
    """

    what: str
    place: str
    seq: int
    text: str
    recorded: tuple[Event, ...] = ()
    recomputed: tuple[Event, ...] = ()


@attrs.define(kw_only=True)
class OtherCause:
    """Decisions taken under ``rules`` that come out otherwise today for one cause.

    ``kind``: replica, reason, pins, weight or fields; ``first`` is the first of them."""

    cause: str
    kind: str
    rules: int
    first: str
    count: int = 0


@attrs.define(kw_only=True)
class OtherToday:
    """What today's ``rules`` decide otherwise. ``decisions`` counts all by the version of the rules
    that took them; ``digests`` those of another release that are others in this one."""

    rules: int
    decisions: dict[int, int] = attrs.field(factory=dict)
    digests: int = 0
    causes: dict[tuple[int, str], OtherCause] = attrs.field(factory=dict)
    first: Difference | None = None

    @property
    def differ(self) -> int:
        return sum(one.count for one in self.causes.values())

    @property
    def unexplained(self) -> int:
        """Decisions that differ although the same version of the rules took them."""
        return sum(one.count for one in self.causes.values() if one.rules == self.rules)


@attrs.define
class Verified:
    """What was proved, up to ``difference`` if there is one.

    ``begins_at`` is the seq of the first row from which on all is proved. What went before it was
    retired, or no state is known of that it could be judged from: it is taken from a snapshot or a
    ``Gap``. The other numbers count what was judged. ``today`` is filled where that was asked.
    """

    begins_at: int = 1
    events: int = 0
    decisions: int = 0
    digests: int = 0
    restarts: int = 0
    gaps: int = 0
    in_flight: int = 0
    head: Head = attrs.field(factory=Head)
    difference: Difference | None = None
    today: OtherToday | None = None

    @property
    def good(self) -> bool:
        """Nothing speaks against the log; that older rules decided otherwise does not."""
        return self.difference is None and (self.today is None or not self.today.unexplained)
