"""Errors of the router itself, in OpenAI's shape, and Anthropic's around it (HTTP.md)."""

from collections.abc import Mapping

import attrs
import orjson

STATUS = {
    "invalid_request": 400,
    "invalid_api_key": 401,
    "model_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "body_too_large": 413,
    "unsupported_encoding": 415,
    "rate_limited": 429,
    "upstream_failed": 502,
    "upstream_auth": 502,
    "no_healthy_instances": 503,
    "overloaded": 503,
    "log_stalled": 503,
    "shutting_down": 503,
    "first_byte_timeout": 504,
}
"""Every code the router answers with, and its status."""

ANTHROPIC_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 503,
    "timeout_error": 504,
}
"""What the error types of Anthropic's API stand for: its errors in a stream tell no number."""

_ANTHROPIC_KINDS = {status: kind for kind, status in ANTHROPIC_STATUS.items()}
_KINDS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}


@attrs.frozen(slots=True)
class RouterError:
    """An answer of the router's own. ``retry_after_s`` goes with 503 and 429."""

    code: str
    message: str
    param: str | None = None
    retry_after_s: int | None = None

    @property
    def status(self) -> int:
        return STATUS[self.code]

    def without_replica(self, name: str) -> "RouterError":
        """The same, telling of a replica whose name the client may not see."""
        return attrs.evolve(self, message=self.message.replace(f"replica {name} ", "a replica "))

    def body(self, *, anthropic: bool = False) -> bytes:
        return error_body(self.code, self.message, self.status, self.param, anthropic=anthropic)

    def event(self, *, anthropic: bool = False) -> bytes:
        """As one server-sent event."""
        return error_event(self.code, self.message, self.status, anthropic=anthropic)


def error_body(
    code: str, message: str, status: int, param: str | None = None, *, anthropic: bool = False
) -> bytes:
    """``anthropic``: what its clients look for stands around the same fields, and the type is a
    word of theirs."""
    error: Mapping[str, object] = {
        "message": message,
        "type": _anthropic_kind(status) if anthropic else _kind(status),
        "param": param,
        "code": code,
    }
    return orjson.dumps({"type": "error", "error": error} if anthropic else {"error": error})


def _kind(status: int) -> str:
    return _KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")


def _anthropic_kind(status: int) -> str:
    other = "invalid_request_error" if status < 500 else "api_error"
    return _ANTHROPIC_KINDS.get(status, other)


def error_event(code: str, message: str, status: int, *, anthropic: bool = False) -> bytes:
    """The same as one server-sent event: how a stream that began is told from a whole one."""
    return _event(error_body(code, message, status, anthropic=anthropic), anthropic)


def _event(data: bytes, anthropic: bool) -> bytes:
    """Anthropic's clients pass over an event without a name."""
    return (b"event: error\ndata: " if anthropic else b"data: ") + data + b"\n\n"


def event_of_answer(status: int, body: bytes, *, anthropic: bool = False) -> bytes:
    """A replica's own error as an event: its JSON where it has one, in the shape of the path."""
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        told = None
    if isinstance(told, dict) and isinstance(told.get("error"), dict):
        kind = {"type": "error"} if anthropic else {}
        return _event(orjson.dumps({**kind, "error": told["error"]}), anthropic)
    if isinstance(told, dict) and isinstance(told.get("message"), str):
        text = told["message"]  # vLLM's shape before it took OpenAI's
    else:
        text = body[:500].decode("utf-8", "replace")
    message = f"the replica answered {status} and no event stream: {text}"
    status = status if status >= 400 else 502
    return error_event("upstream_failed", message, status, anthropic=anthropic)
