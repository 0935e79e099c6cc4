"""What can go wrong between the router and a replica, in closed words."""

import errno
import ssl
from typing import Literal

import trio

Cause = Literal["refused", "dns", "tls", "fin", "reset", "timeout", "protocol"]

LOCAL_ERRNOS = frozenset(
    (
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOMEM,
        errno.EADDRNOTAVAIL,  # no free local port
        errno.EACCES,
        errno.EPERM,  # a local firewall
    )
)
ERRNO_CAUSES: dict[int, Cause] = {
    errno.ECONNREFUSED: "refused",
    errno.EHOSTUNREACH: "refused",
    errno.ENETUNREACH: "refused",
    errno.EHOSTDOWN: "refused",
    errno.ENETDOWN: "refused",
    errno.ETIMEDOUT: "timeout",
}


class UpstreamError(Exception):
    """An exchange with a replica failed.

    `cause`: refused (nobody listens there, or no route), dns, tls, fin (closed too early), reset,
    timeout, protocol (not HTTP/1.1 as we read it).
    `sent`: the whole request had been given to the network, so the replica may have acted on it.
    `sent_before`: so had it been on a kept connection that was lost without a byte of an answer.
    `local`: the router's own fault (no file descriptors, no ports); says nothing of the replica.
    The message goes to clients, so it names no address: the event log has it by the replica's name.
    """

    def __init__(
        self, cause: Cause, message: str, *, sent: bool = False, local: bool = False
    ) -> None:
        super().__init__(message)
        self.cause: Cause = cause
        self.sent = sent
        self.sent_before = False
        self.local = local

    def __str__(self) -> str:
        before = "; before, the request was on a kept connection that was lost without an answer"
        return super().__str__() + (before if self.sent_before else "")


def from_os_error(error: OSError, doing: str, *, sent: bool = False) -> UpstreamError:
    """Sort an error of the operating system into the closed words."""
    number = error.errno or 0
    text = f"{doing}: {error.strerror or error}"
    if isinstance(error, ssl.SSLError):
        return UpstreamError("tls", f"{doing}: {error}", sent=sent)
    if number in LOCAL_ERRNOS:
        return UpstreamError("refused", text, sent=sent, local=True)
    return UpstreamError(ERRNO_CAUSES.get(number, "reset"), text, sent=sent)


def from_stream_error(
    error: trio.BrokenResourceError, doing: str, *, sent: bool = False
) -> UpstreamError:
    """The same for errors that Trio's streams wrap."""
    cause = error.__cause__
    if isinstance(cause, OSError):
        return from_os_error(cause, doing, sent=sent)
    return UpstreamError("reset", f"{doing}: the connection broke", sent=sent)
