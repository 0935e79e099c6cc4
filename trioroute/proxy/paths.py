"""Which paths the data port serves, and what may be sent twice (INTERFACE 4)."""

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
        "/v1/audio/transcriptions",
        "/v1/audio/translations",
        *BARE,
    }
)
"""Running a prompt twice costs work but harms nothing: these may be tried elsewhere."""

_MODEL_PREFIX = "/v1/models/"
_RESPONSE_PREFIX = "/v1/responses/"


@attrs.frozen(slots=True)
class Route:
    """What a path means: ``model`` and ``response_id`` are given where the path names them."""

    proxied: bool
    repeatable: bool
    model: str | None = None
    response_id: str | None = None


NOT_SERVED = Route(False, False)


def route(method: str, path: str) -> Route:
    if not (path.startswith("/v1/") or path in BARE or path in INFERENCE):
        return NOT_SERVED
    repeatable = path in INFERENCE or method in ("GET", "HEAD", "OPTIONS")
    if path.startswith(_MODEL_PREFIX):
        return Route(True, repeatable, model=path.removeprefix(_MODEL_PREFIX))
    if path.startswith(_RESPONSE_PREFIX):
        rest = path.removeprefix(_RESPONSE_PREFIX)
        return Route(True, repeatable, response_id=rest.partition("/")[0])
    return Route(True, repeatable)
