"""Answers that the router makes itself."""

from trioroute.proxy.errors import RouterError
from trioroute.proxy.headers import RawHeaders
from trioroute.proxy.serving.asgi import Send


def named(request_id: str) -> tuple[bytes, bytes]:
    """The header that tells which request an answer is for."""
    return (b"x-request-id", request_id.encode("ascii"))


async def send_whole(
    send: Send, status: int, body: bytes, content_type: bytes, extra: RawHeaders = ()
) -> None:
    headers = [
        (b"content-type", content_type),
        (b"content-length", str(len(body)).encode("ascii")),
        *extra,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def send_error(
    send: Send,
    error: RouterError,
    request_id: str,
    extra: RawHeaders = (),
    *,
    anthropic: bool = False,
) -> None:
    headers = [named(request_id), *extra]
    if error.retry_after_s is not None:
        headers.append((b"retry-after", str(error.retry_after_s).encode("ascii")))
    body = error.body(anthropic=anthropic)
    await send_whole(send, error.status, body, b"application/json", headers)
