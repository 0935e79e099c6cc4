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


@attrs.define
class Verified:
    """What was proved, up to ``difference`` if there is one.

    ``begins_at`` is the seq of the first row from which on all is proved. What went before it was
    retired, or no state is known of that it could be judged from: it is taken from a snapshot or a
    ``Gap``. The other numbers count what was judged.
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
