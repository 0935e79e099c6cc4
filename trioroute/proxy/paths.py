"""Which paths the data port serves, and what may be sent twice (HTTP.md)."""

from functools import lru_cache

import attrs

BARE = frozenset(
    {"/tokenize", "/detokenize", "/rerank", "/score", "/pooling", "/classify", "/invocations"}
)
"""vLLM's paths outside ``/v1`` that are proxied."""

INFERENCE = frozenset(
    {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/embeddings",
        "/v1/rerank",
        "/v2/rerank",
        "/v1/score",
        "/v1/pooling",
        "/v1/classify",
        "/v1/tokenize",
        "/v1/detokenize",
        "/v1/audio/transcriptions",
        "/v1/audio/translations",
        *BARE,
    }
)
"""Running a prompt twice costs work but harms nothing: a POST here may be tried elsewhere."""

READING = ("GET", "HEAD", "OPTIONS")
_MODEL_PREFIX = "/v1/models/"
_MESSAGES = "/v1/messages"
_RESPONSE_PREFIX = "/v1/responses/"


@attrs.frozen(slots=True)
class Route:
    """What method and path mean: ``model`` and ``response_id`` are given where the path names them.

    ``inference``: runs a prompt. ``repeatable``: may be sent to a second replica after a first one
    may have acted on it. ``anthropic``: its clients read errors in Anthropic's shape.
    """

    proxied: bool
    inference: bool = False
    repeatable: bool = False
    model: str | None = None
    response_id: str | None = None
    anthropic: bool = False


NOT_SERVED = Route(proxied=False)


@lru_cache(maxsize=64)
def route(method: str, path: str) -> Route:
    """``path`` without percent-encoding. TRACE would show the client the replica's key."""
    served = path.startswith("/v1/") or path in INFERENCE
    if not served or method == "TRACE" or _climbs(path):
        return NOT_SERVED
    inference = method == "POST" and path in INFERENCE
    repeatable = inference or method in READING
    if path.startswith(_MODEL_PREFIX):
        model = path.removeprefix(_MODEL_PREFIX)
        return Route(True, inference, repeatable, model=model or None)
    if path.startswith(_RESPONSE_PREFIX):
        name = path.removeprefix(_RESPONSE_PREFIX).partition("/")[0]
        return Route(True, inference, repeatable, response_id=name or None)
    anthropic = path == _MESSAGES or path.startswith(_MESSAGES + "/")
    return Route(True, inference, repeatable, anthropic=anthropic)


def _climbs(path: str) -> bool:
    """Dot segments: a server behind us that resolves them would leave the paths served here."""
    return "/." in path and any(part in (".", "..") for part in path.split("/"))
