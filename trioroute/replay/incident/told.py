"""What is told of an incident: plain facts, ready for JSON, a screen and a page."""

import attrs

from trioroute.replay.requested import Delay, Usual
from trioroute.replay.told import Line, ReplicaTimes


@attrs.frozen(kw_only=True)
class Phase:
    """``name``: normal, eject, reduced capacity, outage, flapping, overload, failing, log stalled,
    recovery, standstill, restart or died."""

    name: str
    from_ms: int
    to_ms: int
    why: str


@attrs.frozen(kw_only=True)
class FirstCause:
    """What ended the normal state first, and the rows that led to it (empty: it began before).

    ``kind``: eject, died, log, overload, change, failure, down, standstill, or earlier
    where the span begins in it.
    ``before``: changes made on purpose, and a failed request, that came just before it; that they
    have to do with it is not proved. ``felt``: clients were failed, refused or, where nobody was,
    delayed by it, as far as the rows tell. Other trouble of the span: ``also`` by which clients can
    have been, ``unfelt`` by which nobody was.
    """

    kind: str
    text: str
    at_ms: int
    place: str | None
    evidence: tuple[Line, ...] = ()
    before: tuple[Line, ...] = ()
    felt: bool = True
    also: tuple[Line, ...] = ()
    unfelt: tuple[Line, ...] = ()


@attrs.frozen(kw_only=True)
class Hit:
    """Requests of one model and key name; ``delayed`` is None where too little says what
    is usual for the model.

    ``requests`` counts those that ran when the span began or came in it, each once; ``failed`` what
    a client saw fail, refusals apart; ``retried`` what was tried again, ``rescued`` those of it
    whose clients got a replica's answer.
    """

    model: str | None
    key: str | None
    requests: int
    failed: int
    retried: int
    delayed: int | None
    refused: int
    rescued: int = 0


@attrs.frozen(kw_only=True)
class Late:
    """A request that was delayed, by name; it came at ``at_ms``, and ``decision`` is its last
    dispatch, to ``replica``. ``stood_ms`` of its wait the router itself stood still."""

    at_ms: int
    request_id: str
    decision: str
    replica: str
    model: str | None
    key: str | None
    delay: Delay
    stood_ms: int = 0


@attrs.frozen(kw_only=True)
class Delayed:
    """How many ``requests`` of one model and key were delayed on a replica, whose first byte was
    overdue in the phase from ``from_ms`` to ``to_ms``; ``worst`` are ids of those that were
    latest."""

    phase: str
    from_ms: int
    to_ms: int
    replica: str
    model: str | None
    key: str | None
    requests: int
    worst: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Slow:
    """A replica was several times slower than the rest of its pool, by the time a token or a byte,
    from when its first slow answer was asked for to when its last one ended. ``p50_ms`` is the
    median length of its ``answers``, ``others_p50_ms`` what such ones take at the pace of
    ``others_answers`` like them. ``slowest`` is the decision whose answer took longest."""

    replica: str
    model: str | None
    from_ms: int
    to_ms: int
    answers: int
    p50_ms: int
    others_answers: int
    others_p50_ms: int
    slowest: str


@attrs.frozen(kw_only=True)
class Harmed:
    """A request that failed or was refused at ``at_ms``, and what its client ``got``. ``decision``
    is its last dispatch, None: it had none; ``session`` is a digest."""

    at_ms: int
    request_id: str
    decision: str | None
    session: str | None
    model: str | None
    key: str | None
    got: str


@attrs.frozen(kw_only=True)
class RouterSeen:
    """A router of the span, its ``release`` (None: it started too long before) and its fleet, both
    at the end of the span."""

    name: str
    release: str | None
    replicas: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Acted:
    """A rule by its number in RULES, what it did, how often, and where it did so first."""

    rule: str
    what: str
    count: int
    first: str


@attrs.frozen(kw_only=True)
class Prevention:
    """What would have prevented one kind of harm in its first row, ``row``, out of ``times``.

    ``harm``: cause (a first cause that is none of the others), eject, orphaned, end (of a request
    that failed), lost (its last attempt failed and nothing followed), refused, delayed, retried, or
    pin (one that was left: no request fails by it).

    ``setting`` with the value ``instead`` of ``now``, as ``--what-if`` takes both; None: no setting
    of the router would have. ``lessens``: it would not have prevented it, but kept harm smaller.
    """

    harm: str
    setting: str | None
    now: str | None
    instead: str | None
    row: str
    times: int
    text: str
    lessens: bool = False


@attrs.frozen(kw_only=True)
class Retaken:
    """The ``decisions`` from ``first`` to ``last`` (``ended``: why not to the end of the span),
    each taken again from its own past with ``setting`` as ``instead``: their spills and rebinds,
    what they would be then, and how many decisions would go to another replica."""

    setting: str
    instead: str
    first: str
    last: str
    ended: str
    decisions: int
    spills: int
    spills_then: int
    rebinds: int
    rebinds_then: int
    elsewhere: int


@attrs.frozen(kw_only=True)
class Lane:
    """A replica was in ``state`` for this long."""

    replica: str
    state: str
    from_ms: int
    to_ms: int


@attrs.define(kw_only=True)
class TimeStep:
    """What happened in one step of time, from ``at_ms`` on.

    ``dispatches`` by replica; ``in_flight`` is the most that a replica had of this router's.
    """

    at_ms: int
    dispatches: dict[str, int] = attrs.field(factory=dict)
    in_flight: dict[str, int] = attrs.field(factory=dict)
    failed: int = 0
    retried: int = 0
    refused: int = 0
    spills: int = 0
    rebinds: int = 0


@attrs.frozen(kw_only=True)
class Incident:
    """A span of time, told. ``changes`` are those that somebody
    made on purpose, the last ones. ``hints`` are the texts of ``prevention`` that name a
    setting; ``unproved`` counts kinds of harm that would have taken too long to look into, or whose
    rows cannot be read."""

    from_ms: int
    to_ms: int
    begin: str
    end: str
    sentence: str
    routers: tuple[RouterSeen, ...]
    phases: tuple[Phase, ...]
    first_cause: FirstCause | None
    changes: tuple[Line, ...]
    total: Hit
    hit: tuple[Hit, ...]
    harmed: tuple[Harmed, ...]
    endings: dict[str, int]
    running: int
    refusals: dict[str, int]
    spills: dict[str, int]
    rebinds: dict[str, int]
    usual: tuple[Usual, ...]
    delayed: tuple[Delayed, ...]
    latest: tuple[Late, ...]
    replicas: tuple[ReplicaTimes, ...]
    slow: tuple[Slow, ...]
    rules: tuple[Acted, ...]
    hints: tuple[str, ...]
    prevention: tuple[Prevention, ...]
    unproved: int
    retaken: tuple[Retaken, ...]
    timeline: tuple[Line, ...]
    left_out: int
    lanes: tuple[Lane, ...]
    step_ms: int
    steps: tuple[TimeStep, ...]
    notes: tuple[str, ...]
