"""Browsers of other origins: answered here where ``server.cors_origins`` is set (Fetch standard).

Where it is not set, CORS is the engines' business and passes through.
"""

from collections.abc import Sequence

from trioroute.proxy.headers import RawHeaders, header_value
from trioroute.proxy.reply import named
from trioroute.proxy.serving.asgi import Message, Send

MAX_AGE_S = 600
_METHODS = b"GET, POST, PUT, PATCH, DELETE, OPTIONS, HEAD"
_EXPOSED = (
    b"x-request-id, x-trioroute-decision, x-trioroute-attempts, x-trioroute-replica,"
    b" x-trioroute-reason, retry-after"
)
_VARY = (b"vary", b"origin")


def allowed_origin(headers: RawHeaders, origins: Sequence[str]) -> bytes | None:
    """The request's origin if it may call from a browser; ``*`` allows every one."""
    origin = header_value(headers, b"origin")
    if origin is None:
        return None
    return origin if "*" in origins or origin.decode("latin-1") in origins else None


def is_preflight(method: str, headers: RawHeaders) -> bool:
    """What a browser asks before it sends the request itself; it never has credentials."""
    return (
        method == "OPTIONS"
        and header_value(headers, b"origin") is not None
        and header_value(headers, b"access-control-request-method") is not None
    )


async def answer_preflight(
    send: Send, headers: RawHeaders, origins: Sequence[str], request_id: str
) -> None:
    """204 in any case; only an allowed origin is told that it may go on."""
    answer = [_VARY, (b"content-length", b"0"), named(request_id)]
    origin = allowed_origin(headers, origins)
    if origin is not None:
        asked = header_value(headers, b"access-control-request-headers")
        answer += [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", asked or b"authorization, content-type"),
            (b"access-control-max-age", b"%d" % MAX_AGE_S),
        ]
    await send({"type": "http.response.start", "status": 204, "headers": answer})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def readers(headers: RawHeaders, origins: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """The headers that tell a browser whether its page may read this answer."""
    origin = allowed_origin(headers, origins)
    if origin is None:
        return [_VARY]
    return [
        _VARY,
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", _EXPOSED),
    ]


def readers_of_refusals(origins: Sequence[str], asked: RawHeaders) -> list[tuple[bytes, bytes]]:
    """The same for a refusal below the application, whose request may not have been read whole.

    Where its origin is not known, the answer for every origin, if there is only one.
    """
    if not origins:
        return []
    if header_value(asked, b"origin") is None and len(origins) == 1:
        asked = [(b"origin", origins[0].encode())]
    return readers(asked, origins)


def with_cors(send: Send, headers: RawHeaders, origins: Sequence[str]) -> Send:
    """``send``, but every answer says who may read it; what a replica said of that is dropped."""
    ours = readers(headers, origins)

    async def saying(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [
                (name, value)
                for name, value in message.get("headers", ())
                if not name.lower().startswith(b"access-control-")
            ]
            message = {**message, "headers": [*kept, *ours]}
        await send(message)

    return saying
