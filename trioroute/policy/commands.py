"""What the world asks of the core. Whatever is not deterministic is already a value in here.

Nobody changes one. Those of each request are not frozen, because that trebles what making and
reading one costs.
"""

import attrs

from trioroute.events import InForce, Reading
from trioroute.events.words import Blame, Cause, ChangedBy, Outcome, RefusalCode, Source

DRAWS = 1 << 16
"""How many values ``Arrive.draw`` has: even to 1 % among 600 replicas, and at most five digits in
each logged dispatch."""


@attrs.define
class Arrive:
    """A request wants a replica, for the first time or, with ``tried``, again (RULES 4.6).

    ``prompt_bytes`` is the UTF-8 length of the prompt text; ``session``, ``prefix`` and
    ``response`` are keyed digests. ``draw`` is random, below ``DRAWS`` where a router draws
    it, used by the fallback only.
    ``blocks`` are those of ``policy.blocks``, only where the policy in force asks for them.
    ``waited_ms``: how long it stood in the line before; it decides nothing.
    """

    at_ms: int
    request_id: str
    model: str
    prompt_bytes: int
    session: str | None = None
    prefix: str | None = None
    response: str | None = None
    draw: int = 0
    attempt: int = 1
    tried: tuple[str, ...] = ()
    earlier: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    key: str | None = None
    waited_ms: int = 0


@attrs.define(kw_only=True)
class Fail:
    """An attempt ended without a byte for the client, and the request moves on.

    ``status`` is the effective one: that of an error event inside a 200 (RULES 6.12).
    """

    at_ms: int
    dispatch: int
    cause: Cause
    blame: Blame
    status: int | None = None
    retry_after_ms: int | None = None


@attrs.define(kw_only=True)
class Finish:
    """A dispatch ended, and its request with it."""

    at_ms: int
    dispatch: int
    outcome: Outcome
    cause: Cause
    blame: Blame
    status: int | None
    ttfb_ms: int | None
    duration_ms: int
    bytes: int
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    response: str | None = None
    retry_after_ms: int | None = None


@attrs.frozen(kw_only=True)
class Refuse:
    """The edge turned a request away by itself, or its wait was over."""

    at_ms: int
    request_id: str
    code: RefusalCode
    model: str | None = None
    key: str | None = None
    waited_ms: int = 0


@attrs.frozen(kw_only=True)
class Observe:
    """Good scrapes of a round."""

    at_ms: int
    readings: dict[str, Reading]


@attrs.frozen(kw_only=True)
class ObserveFailure:
    at_ms: int
    replica: str
    cause: Cause
    status: int | None = None


@attrs.frozen(kw_only=True)
class Join:
    at_ms: int
    replica: str
    url: str
    models: tuple[str, ...] = ()
    engine: str = "vllm"
    source: Source = "config"
    by: ChangedBy = "start"
    why: str = ""


@attrs.frozen(kw_only=True)
class Leave:
    at_ms: int
    replica: str
    by: ChangedBy = "start"
    why: str = ""


@attrs.frozen(kw_only=True)
class Drain:
    """``leaves``: and then leave, when nothing runs there any more."""

    at_ms: int
    replica: str
    on: bool
    leaves: bool = False
    by: ChangedBy = "admin"
    why: str = ""


@attrs.frozen(kw_only=True)
class Eject:
    """Somebody takes a replica out of traffic by hand; it comes back as any ejected one."""

    at_ms: int
    replica: str
    by: ChangedBy = "admin"
    why: str = ""


@attrs.frozen(kw_only=True)
class Start:
    """The log was folded and is ours: say so, and close what the last run left open.

    ``ends_lost``: that run ended in order, but could not write its last events.
    """

    at_ms: int
    router: str
    release: str
    rules: int
    ends_lost: bool = False


@attrs.frozen(kw_only=True)
class Configure:
    at_ms: int
    settings: InForce


@attrs.frozen(kw_only=True)
class Reconfigure:
    """The whole configuration: these settings, and these replicas and no others of its source.

    One command, so that a log that is full refuses all of it or none.
    """

    at_ms: int
    settings: InForce
    replicas: tuple[Join, ...]
    digest: str = ""
    by: ChangedBy = "start"
    why: str = ""


@attrs.frozen(kw_only=True)
class Stop:
    """``head`` is that of the log as far as it is committed (``events.Stopped``)."""

    at_ms: int
    cause: str
    head: str | None = None


@attrs.frozen(kw_only=True)
class StandStill:
    """The router measured that it did nothing for so long (``events.StoodStill``)."""

    at_ms: int
    for_ms: int


@attrs.frozen(kw_only=True)
class Restate:
    """The log was not whole in this span (``events.Gap``); where events are lost, tell the state as
    it is now, so that a fold goes on from it."""

    at_ms: int
    lost: int
    from_ms: int
    to_ms: int
    unlogged: int = 0


@attrs.frozen(kw_only=True)
class Tick:
    """Time passed: expiries, PROBING to LIVE, the digest."""

    at_ms: int


Command = (
    Arrive
    | Fail
    | Finish
    | Refuse
    | Observe
    | ObserveFailure
    | Join
    | Leave
    | Drain
    | Eject
    | Start
    | Configure
    | Reconfigure
    | Stop
    | StandStill
    | Restate
    | Tick
)
