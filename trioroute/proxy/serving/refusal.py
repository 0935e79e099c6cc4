"""Refusals before the application: a status, a closed code, and a body a client can read."""

import json
from http import HTTPStatus

import attrs

MAX_MESSAGE = 500


@attrs.frozen
class Refusal(Exception):
    """A request that is answered by the server itself and never reaches the application.

    `code` is one of invalid_request, uri_too_long, headers_too_large, body_too_large,
    request_timeout, unsupported_version, no_websocket, overloaded, internal_error; or what a door
    says.
    """

    status: int
    code: str
    message: str
    extra: tuple[tuple[bytes, bytes], ...] = ()
    told: bytes = b""
    """The body, where it is worded elsewhere: by a door, or for clients of its path."""

    def __str__(self) -> str:
        return f"{self.status} {self.code}: {self.message}"

    def body(self) -> bytes:
        """The error in OpenAI's shape, so that the official clients show the message; or as it was
        worded for its path."""
        if self.told:
            return self.told
        kind = "server_error" if self.status in (500, 501, 503) else "invalid_request_error"
        error = {
            "message": self.message[:MAX_MESSAGE],
            "type": kind,
            "param": None,
            "code": self.code,
        }
        return json.dumps({"error": error}).encode()

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Content headers of the body."""
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(self.body())),
            *self.extra,
        ]
        if self.status == 503:
            headers.append((b"retry-after", b"1"))
        return headers

    def response(self) -> bytes:
        """The whole HTTP/1.1 response. It always closes: framing is not trusted any more."""
        reason = HTTPStatus(self.status).phrase.encode()
        lines = [b"HTTP/1.1 %d %b" % (self.status, reason)]
        lines += [b"%b: %b" % header for header in self.headers()]
        lines += [b"connection: close", b"", self.body()]
        return b"\r\n".join(lines)


def invalid(message: str) -> Refusal:
    """400: the bytes are no HTTP request, or one that two readers could read differently."""
    return Refusal(400, "invalid_request", message)


FAILED = Refusal(500, "internal_error", "the server failed to answer this request")
NO_WEBSOCKET = Refusal(
    501, "no_websocket", "no websockets are served here: send a request without an upgrade"
)
PLAIN_ON_TLS = invalid("plain HTTP was sent to a port that speaks TLS: use https://")
TLS_ON_PLAIN = invalid("a TLS handshake was sent to a port that speaks plain HTTP: use http://")
MIXED_UP = (PLAIN_ON_TLS, TLS_ON_PLAIN)
"""What who runs the router is told of, for its clients may not be able to read it."""
