"""Errors as vLLM 0.32.0 words them (captured), shape {"error": {message, type, param, code}};
on Anthropic's paths the same words in Anthropic's shape."""

from http import HTTPStatus

import orjson

BUSY = (
    "The engine is currently busy and cannot accept new requests. Please try again later or on a "
    "different instance."
)


ANTHROPIC_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""Words of Anthropic's API for a status; a 5xx that is not here is an ``api_error``."""


class ApiError(Exception):
    """An answer other than 200, with its status and OpenAI-like body."""

    def __init__(
        self, status: int, message: str, kind: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind or _phrase(status)
        self.param = param

    def body(self) -> bytes:
        """The JSON body; the code is a number, as in vLLM, not OpenAI's word."""
        return orjson.dumps(
            {
                "error": {
                    "message": self.message,
                    "type": self.kind,
                    "param": self.param,
                    "code": self.status,
                }
            }
        )

    def event(self) -> bytes:
        """The same as one server-sent event."""
        return b"data: " + self.body() + b"\n\n"

    def message_body(self) -> bytes:
        """The JSON body on `/v1/messages`, in Anthropic's shape."""
        other = "invalid_request_error" if self.status < 500 else "api_error"
        kind = ANTHROPIC_KINDS.get(self.status, other)
        return orjson.dumps({"type": "error", "error": {"type": kind, "message": self.message}})

    def message_event(self) -> bytes:
        """The same as one server-sent event; its name is what clients go by."""
        return b"event: error\ndata: " + self.message_body() + b"\n\n"


def invalid(kind: str, where: str | None, message: str, got: str) -> ApiError:
    """One failed check of the body, in the form of vLLM's validation errors."""
    detail = {"type": kind, "loc": where, "msg": message, "input": got}
    return ApiError(400, f"1 validation error:\n  {detail}", "Bad Request", where)


def missing(field: str, body: dict[str, object]) -> ApiError:
    """A required field that is not there."""
    got = f"<dict of {len(body)} items>"
    return invalid("missing", f"body.{field}", "Field required", got)


def bad_value(param: str, value: object, message: str) -> ApiError:
    """A field whose value vLLM refuses."""
    text = f"{message} (parameter={param}, value={value})"
    return ApiError(400, text, "BadRequestError", param)


def unknown_model(model: str, models: tuple[str, ...]) -> ApiError:
    """vLLM answers this as JSON, also when a stream was asked for."""
    text = f"The model `{model}` does not exist. Valid aliases: {', '.join(models)}."
    return ApiError(404, text, "NotFoundError", "model")


def too_long(tokens: int, max_model_len: int) -> ApiError:
    """The prompt leaves no room for an answer."""
    text = (
        f"This model's maximum context length is {max_model_len} tokens. However, your prompt "
        f"contains at least {tokens} input tokens, which exceeds this limit even without any "
        "output tokens. Please reduce the length of the input prompt."
    )
    return bad_value("input_tokens", tokens, text)


def busy() -> ApiError:
    """Too many unfinished requests: no Retry-After, as in vLLM."""
    return ApiError(503, BUSY)


def demanded(status: int) -> ApiError:
    """The error a fault asked for."""
    if status == 503:
        return busy()
    return ApiError(status, f"simulated fault: status {status}")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
