"""What replay tells of one decision: plain facts, ready for JSON and for a screen.

Thousandths end in ``_m``, milliseconds in ``_ms``, points in time in ``at_ms`` (Unix time). None is
unknown, or "there is none".
"""

from typing import Any

import attrs

from trioroute.policy.explain import Step


@attrs.frozen(kw_only=True)
class Request:
    """The request as it arrived at the decision; keys are keyed digests. It waited in the line."""

    request_id: str
    model: str
    attempt: int
    weight_m: int
    prompt_bytes: int
    session: str | None
    prefix: str | None
    response: str | None
    draw: int
    tried: tuple[str, ...]
    waited_ms: int = 0


@attrs.frozen(kw_only=True)
class ReplicaSeen:
    """One replica of the pool as the decision saw it.

    ``running`` and ``waiting`` are the last scrape's that had both, ``scrape_age_ms`` its age;
    ``running_m`` is that count carried forward (RULES 3), what pins are judged by. ``flags``:
    stale, queue, busy, stalled, asleep, full, tried.
    """

    name: str
    state: str
    running: int | None
    waiting: int | None
    scrape_age_ms: int | None
    in_flight: int
    wlc_m: int
    running_m: int
    effective_running_m: int
    effective_waiting_m: int
    cooldown_ms: int
    eject_count: int
    flags: tuple[str, ...]


@attrs.frozen(kw_only=True)
class WorkSeen:
    """What a candidate of ``least-work`` would have had to do, in tokens (RULES 9).

    ``total`` = ``uncached`` * ``damage_m`` / 1000 + ``promised`` + ``batch`` + ``expected``: the
    last two for the ``present`` requests and for the other ``conversations`` that come there.
    """

    name: str
    cached: int
    uncached: int
    damage_m: int
    promised: int
    present: int
    batch: int
    conversations: int
    expected: int
    total: int


@attrs.frozen(kw_only=True)
class PinSeen:
    """The pin that step 4 looked at; ``spills`` in a row before this decision."""

    kind: str
    key: str
    replica: str
    spills: int
    usable: bool
    sentence: str


@attrs.frozen(kw_only=True)
class End:
    """How a dispatch ended; ``what`` is Released, Failed, Orphaned, Unwritten: its end is among the
    last events of a run, which could not be written, or Died: no row tells it, for its router died
    and was not started again."""

    what: str
    at_ms: int
    after_ms: int
    outcome: str
    cause: str | None = None
    blame: str | None = None
    status: int | None = None
    ttfb_ms: int | None = None
    duration_ms: int | None = None
    bytes: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None

    @property
    def orphaned(self) -> bool:
        """The router died under it, or could not write its end."""
        return self.what in ("Orphaned", "Unwritten", "Died")


@attrs.frozen(kw_only=True)
class Attempt:
    """Another attempt of the same request."""

    decision: str
    attempt: int
    replica: str
    reason: str
    end: End | None


@attrs.define(kw_only=True)
class DecisionRow:
    """One line of a list of decisions; ``end`` is filled when it comes by, None: in flight."""

    decision: str
    at_ms: int
    request_id: str
    model: str
    weight_m: int
    replica: str
    reason: str
    attempt: int
    end: End | None = None


@attrs.frozen(kw_only=True)
class Line:
    """One line of a history: when, which row of the log, what; ``times`` if it came in a row."""

    at_ms: int
    place: str
    event: str
    text: str
    times: int = 1


@attrs.frozen(kw_only=True)
class SessionTold:
    """The decisions and pin events of a session; ``keys`` are its digests (one a model).

    Of very many only the last are told; ``left_out`` counts the others. ``stood``: when the router
    itself stood still under one of them, or just before it.
    """

    keys: tuple[str, ...]
    decisions: tuple[DecisionRow, ...]
    pin_events: tuple[Line, ...]
    left_out: int
    stood: tuple[Line, ...] = ()


@attrs.frozen(kw_only=True)
class ReplicaTimes:
    """Of the good ``answers`` of a replica: what half of them, and 99 in 100, took at most,
    an eighth too long or less; None: none tells."""

    replica: str
    answers: int
    ttfb_p50_ms: int | None
    ttfb_p99_ms: int | None
    duration_p50_ms: int | None
    duration_p99_ms: int | None


@attrs.frozen(kw_only=True)
class ReplicaTold:
    """A replica's history: health, and how its dispatches came and ended; ``since_ms`` and
    ``until_ms``: only what came then."""

    name: str
    since_ms: int | None
    until_ms: int | None
    history: tuple[Line, ...]
    left_out: int
    dispatches: dict[str, int]
    endings: dict[str, int]
    in_flight: int
    times: ReplicaTimes


@attrs.frozen(kw_only=True)
class FlightSeen:
    """A dispatch without an end yet."""

    decision: str
    request_id: str
    model: str
    replica: str
    weight_m: int
    age_ms: int


@attrs.frozen(kw_only=True)
class Moment:
    """One router at one moment; ``oldest`` are the requests that ran for longest. ``down`` says
    that no router ran then, and since when, ``stood`` that it stood still: the rest is what its
    last row left."""

    router: str
    position: int
    at_ms: int
    at: str
    replicas: tuple[ReplicaSeen, ...]
    session_pins: int
    prefix_pins: int
    in_flight: int
    oldest: tuple[FlightSeen, ...]
    imbalance_m: int
    down: str | None = None
    stood: str | None = None


@attrs.frozen(kw_only=True)
class Followed:
    """What came after: the decision's own pin events, its end, and what the request did next.

    ``ended`` is the end in words. ``client`` is what its client got, such as "503 log_stalled";
    None while it waits for it. ``stood``: that the router itself stood still in this time, or just
    before. ``unread``: from which row on the log cannot be read, where the story was
    not over before.
    """

    pin_events: tuple[dict[str, Any], ...]
    end: End | None
    ended: str
    next_attempt: str | None
    refused: str | None
    client: str | None
    stood: str | None = None
    unread: str | None = None


@attrs.frozen(kw_only=True)
class Told:
    """One decision, explained. ``recorded`` and ``recomputed`` are filled if they differ.

    ``work`` is empty but for ``least-work``, and follows its candidates.
    ``difference`` is None when today's code decides the same from the same past (verified).
    """

    decision: str
    router: str
    number: int
    at_ms: int
    at: str
    sentence: str
    request: Request
    policy: str
    load: str
    rules: int
    replica: str
    reason: str
    because: str
    min_running_m: int
    replicas: tuple[ReplicaSeen, ...]
    work: tuple[WorkSeen, ...]
    steps: tuple[Step, ...]
    pin: PinSeen | None
    earlier: tuple[Attempt, ...]
    followed: Followed
    verified: bool
    difference: str | None
    recorded: tuple[dict[str, Any], ...] = ()
    recomputed: tuple[dict[str, Any], ...] = ()


def as_json(fact: Any) -> dict[str, Any]:  # noqa: ANN401 - any attrs class of this package
    """The same as nested dicts and lists."""
    return attrs.asdict(fact, value_serializer=_listed)


def _listed(_: object, __: object, value: Any) -> Any:  # noqa: ANN401 - attrs' hook takes anything
    return list(value) if isinstance(value, tuple) else value
