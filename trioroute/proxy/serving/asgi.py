"""The ASGI types of the server, and the one exception an application may raise on purpose."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class BrokenEnding(Exception):
    """Raised by an application to end its response as broken, on purpose.

    The client sees a body that stops short (no last chunk, fewer bytes than announced, a reset
    stream), never a clean end. Not logged as an error.
    """


def broken_on_purpose(error: BaseException) -> bool:
    """Whether nothing but BrokenEnding was raised, alone or out of nurseries."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(BrokenEnding)[1] is None
    return isinstance(error, BrokenEnding)


def tells_length(status: int) -> bool:
    """Whether an answer may have a Content-Length: RFC 9110 section 8.6."""
    return status >= 200 and status != 204
