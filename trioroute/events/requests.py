"""What happened to requests. The version of a ``Dispatched`` is the dispatch's number.

No prompt, no completion, no header value is in any of them: keys are keyed digests, and
``request_id`` is the client's only if it is harmless (``[A-Za-z0-9._:-]{1,128}``).
"""

import attrs

from trioroute.events.words import Blame, Cause, Outcome, Reason, RefusalCode


@attrs.frozen(kw_only=True, slots=False)
class Dispatched:
    """A replica was chosen and the weight reserved, in one step.

    ``home`` is the pinned replica that was looked at, ``draw`` the random number of the command,
    ``tried`` and ``earlier`` the replicas and dispatch numbers of this request's failed attempts.
    ``response`` is the digest of the ``previous_response_id`` (RULES 5.11).

    ``key`` is the name of the API key it came with; never the key.

    Of the policy ``least-work`` only (RULES 9): the prompt's known blocks end in ``base`` (0: none
    known), ``blocks`` follow it, and ``uncached`` prompt tokens are computed at ``replica``.
    """

    request_id: str
    model: str
    attempt: int
    replica: str
    reason: Reason
    weight_m: int
    session: str | None
    prefix: str | None
    home: str | None
    draw: int
    policy: str
    prompt_bytes: int
    response: str | None = None
    tried: tuple[str, ...] = ()
    earlier: tuple[int, ...] = ()
    base: int = 0
    blocks: tuple[int, ...] = ()
    uncached: int = 0
    key: str | None = None


@attrs.frozen(kw_only=True, slots=False)
class Failed:
    """An attempt ended before any byte reached the client."""

    dispatch: int
    cause: Cause
    blame: Blame
    status: int | None
    retry_after_ms: int | None = None


@attrs.frozen(kw_only=True, slots=False)
class Released:
    """A dispatch ended for good. ``None`` is unknown, never zero.

    ``response`` is the digest of the response id it made, if it may be followed up (RULES 5.11).
    """

    dispatch: int
    outcome: Outcome
    cause: Cause
    blame: Blame
    status: int | None
    ttfb_ms: int | None
    duration_ms: int
    bytes: int
    prompt_tokens: int | None
    completion_tokens: int | None
    response: str | None = None
    retry_after_ms: int | None = None


@attrs.frozen(kw_only=True, slots=False)
class Refused:
    """A request that was never dispatched, or not again."""

    request_id: str
    code: RefusalCode
    model: str | None = None
    key: str | None = None
