"""What the admin port answers with: a whole, short response, and errors in OpenAI's shape."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import orjson

_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_NOTHING_ACTIVE = b"default-src 'none'; frame-ancestors 'none'"


@attrs.frozen(slots=True)
class Answer:
    """``policy`` is the Content-Security-Policy; without one nothing in it may run or load."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    policy: bytes = _NOTHING_ACTIVE

    def head(self, *, endless: bool = False) -> list[tuple[bytes, bytes]]:
        """All response headers; of an ``endless`` body nobody knows the length."""
        length = () if endless else ((b"content-length", b"%d" % len(self.body)),)
        return [
            (b"content-type", self.content_type.encode()),
            *length,
            (b"content-security-policy", self.policy),
            *_HEADERS,
            *self.headers,
        ]


def json_answer(value: Any, status: int = 200) -> Answer:  # noqa: ANN401 - any JSON value
    return Answer(status, "application/json", orjson.dumps(value))


def text_answer(text: str) -> Answer:
    return Answer(200, "text/plain; charset=utf-8", text.encode())


def error(
    status: int,
    code: str,
    message: str,
    *headers: tuple[bytes, bytes],
    problems: Sequence[Mapping[str, str]] = (),
) -> Answer:
    """An error as the official OpenAI clients read it (HTTP.md); ``problems`` stand beside it."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    body: dict[str, Any] = {
        "error": {"message": message, "type": kind, "param": None, "code": code}
    }
    if problems:
        body["problems"] = list(problems)
    return Answer(status, "application/json", orjson.dumps(body), headers)


def shown(text: str) -> str:
    """A value that a client sent, short and printable, for a message."""
    return ascii(text if len(text) <= 100 else text[:97] + "...")
