"""What is told of requests and of what their clients waited for: facts, ready for JSON."""

import attrs

from trioroute.replay.told import End


@attrs.frozen(kw_only=True)
class Usual:
    """How soon a first byte usually comes for one model, kind of answer and size of prompt.

    Of ``answers`` looked at the median took ``usual_ttfb_ms``, and the second latest of 20 mostly
    ``slow_ttfb_ms``; from ``delayed_from_ms`` on a request is delayed. None: too few tell it.
    ``whole``: answers in one piece; None: of both kinds. Prompts have ``prompt_from_bytes`` or
    more, and fewer than ``prompt_to_bytes``; None: of any size.
    """

    model: str | None
    whole: bool | None
    prompt_from_bytes: int | None
    prompt_to_bytes: int | None
    answers: int
    usual_ttfb_ms: int | None = None
    slow_ttfb_ms: int | None = None
    delayed_from_ms: int | None = None


@attrs.frozen(kw_only=True)
class Delay:
    """A request whose first byte came ``first_byte_ms`` after it had come itself: ``waited_ms`` of
    it in the line before its last attempt, ``tried_ms`` in earlier attempts. ``left``: its client
    left after that long, and no byte had come."""

    first_byte_ms: int
    waited_ms: int
    tried_ms: int
    usual_ttfb_ms: int
    delayed_from_ms: int
    left: bool = False


@attrs.frozen(kw_only=True)
class RequestRow:
    """A request by its last attempt, or one attempt of it; a request that was refused before any
    has no decision, and ``reason`` is the code.

    ``tried`` are the replicas of the attempts before, ``client`` what the client got: null while it
    waits, and of an attempt that is not the request's last. ``delay`` is looked for only where
    ``outcome=delayed`` asks for it.
    """

    at_ms: int
    request_id: str
    decision: str | None
    model: str | None
    key: str | None
    session: str | None
    replica: str | None
    reason: str
    attempt: int | None
    outcome: str
    end: End | None = None
    tried: tuple[str, ...] = ()
    client: str | None = None
    delay: Delay | None = None


@attrs.frozen(kw_only=True)
class StoodStillRow:
    """The router itself did nothing for ``for_ms`` up to ``at_ms``, as it measured: who came
    meanwhile waited longer than the log tells."""

    at_ms: int
    place: str
    for_ms: int


@attrs.frozen(kw_only=True)
class Listed:
    """The requests of a span that are as ``where`` says; ``left_out`` counts those found beyond.
    ``usual`` is what ``outcome=delayed`` compares with; ``stood_still`` are the longest standstills
    of the routers themselves, which make delays that no request's own row tells."""

    from_ms: int
    to_ms: int
    where: dict[str, str]
    requests: tuple[RequestRow, ...]
    left_out: int
    usual: tuple[Usual, ...] = ()
    stood_still: tuple[StoodStillRow, ...] = ()
