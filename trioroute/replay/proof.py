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

    def add(self, other: "OtherToday") -> None:
        """Count what was taken otherwise later."""
        for rules, count in other.decisions.items():
            self.decisions[rules] = self.decisions.get(rules, 0) + count
        self.digests += other.digests
        for key, cause in other.causes.items():
            known = self.causes.setdefault(key, cause)
            if known is not cause:
                known.count += cause.count
        if self.first is None:
            self.first = other.first

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
    ``false_snapshots`` are those that do not tell of the state that the rows before them give, by
    the seq of the last one; a log is judged without any, so they are no difference.
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
    false_snapshots: list[int] = attrs.field(factory=list)

    def add(self, other: "Verified") -> None:
        """Count what was judged of the rows that follow at once, up to ``other.head``."""
        self.events += other.events
        self.decisions += other.decisions
        self.digests += other.digests
        self.restarts += other.restarts
        self.gaps += other.gaps
        self.in_flight += other.in_flight
        self.head = other.head
        if self.today is not None and other.today is not None:
            self.today.add(other.today)

    @property
    def good(self) -> bool:
        """Nothing speaks against the log; that older rules decided otherwise does not."""
        return self.difference is None and (self.today is None or not self.today.unexplained)
