"""What happened to requests. The version of a ``Dispatched`` is the dispatch's number.

No prompt, no completion, no header value is in any of them: keys are keyed digests, and
``request_id`` is the client's only if it is harmless (``[A-Za-z0-9._:-]{1,128}``).
"""

from trioroute.events.flat import Flat, Int
from trioroute.events.words import Blame, Cause, Outcome, Reason, RefusalCode


class Dispatched(Flat, frozen=True, kw_only=True):
    """A replica was chosen and the weight reserved, in one step.

    ``home`` is the pinned replica that was looked at, ``draw`` the random number of the command,
    ``tried`` and ``earlier`` the replicas and dispatch numbers of this request's failed attempts.
    ``response`` is the digest of the ``previous_response_id`` (RULES 5.11).

    ``key`` is the name of the API key it came with; never the key. ``waited_ms``: how long it stood
    in the router's line before this attempt (RULES 4.7).

    Of the policy ``least-work`` only (RULES 9): the prompt's known blocks end in ``base`` (0: none
    known), ``blocks`` follow it, and ``uncached`` prompt tokens are computed at ``replica``.
    """

    request_id: str
    model: str
    attempt: Int
    replica: str
    reason: Reason
    weight_m: Int
    session: str | None
    prefix: str | None
    home: str | None
    draw: Int
    policy: str
    prompt_bytes: Int
    response: str | None = None
    tried: tuple[str, ...] = ()
    earlier: tuple[Int, ...] = ()
    base: Int = 0
    blocks: tuple[Int, ...] = ()
    uncached: Int = 0
    key: str | None = None
    waited_ms: Int = 0


class Failed(Flat, frozen=True, kw_only=True):
    """An attempt ended before any byte reached the client."""

    dispatch: Int
    cause: Cause
    blame: Blame
    status: Int | None
    retry_after_ms: Int | None = None


class Released(Flat, frozen=True, kw_only=True):
    """A dispatch ended for good. ``None`` is unknown, never zero.

    ``response`` is the digest of the response id it made, if it may be followed up (RULES 5.11).
    """

    dispatch: Int
    outcome: Outcome
    cause: Cause
    blame: Blame
    status: Int | None
    ttfb_ms: Int | None
    duration_ms: Int
    bytes: Int
    prompt_tokens: Int | None
    completion_tokens: Int | None
    response: str | None = None
    retry_after_ms: Int | None = None


class Refused(Flat, frozen=True, kw_only=True):
    """A request that was never dispatched, or not again; ``waited_ms`` it had stood in the line."""

    request_id: str
    code: RefusalCode
    model: str | None = None
    key: str | None = None
    waited_ms: Int = 0
