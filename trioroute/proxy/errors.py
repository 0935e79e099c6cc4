"""Errors of the router itself, in OpenAI's shape (HTTP.md)."""

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

    def body(self) -> bytes:
        return error_body(self.code, self.message, self.status, self.param)


def error_body(code: str, message: str, status: int, param: str | None = None) -> bytes:
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    error: Mapping[str, object] = {
        "message": message,
        "type": kind,
        "param": param,
        "code": code,
    }
    return orjson.dumps({"error": error})


def error_event(code: str, message: str, status: int) -> bytes:
    """The same as one server-sent event: how a stream that began is told from a whole one."""
    return b"data: " + error_body(code, message, status) + b"\n\n"


def event_of_answer(status: int, body: bytes) -> bytes:
    """A replica's own error as an event: its JSON where it has one, in OpenAI's shape."""
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        told = None
    if isinstance(told, dict) and isinstance(told.get("error"), dict):
        return b"data: " + orjson.dumps({"error": told["error"]}) + b"\n\n"
    if isinstance(told, dict) and isinstance(told.get("message"), str):
        text = told["message"]  # vLLM's shape before it took OpenAI's
    else:
        text = body[:500].decode("utf-8", "replace")
    message = f"the replica answered {status} and no event stream: {text}"
    return error_event("upstream_failed", message, status if status >= 400 else 502)
