"""From an exception of httpx to the word for what happened on the wire.

httpx and httpcore wrap what the socket said in layers, and httpcore cuts the explicit ``__cause__``
with ``raise ... from None``, so the whole web of causes, contexts and groups is searched. Happy
eyeballs (several addresses of one host) end in a group with one error per address.
"""

import errno
import socket
import ssl
from collections.abc import Iterator

import httpx

from trioroute.events.words import Cause

_BY_ERRNO: dict[int, Cause] = {
    errno.ECONNREFUSED: "refused",
    errno.ECONNRESET: "reset",
    errno.ECONNABORTED: "reset",
    errno.EPIPE: "reset",
    errno.ETIMEDOUT: "timeout",
    # No answer from that host or net: what a connect timeout says too, only sooner.
    errno.EHOSTUNREACH: "timeout",
    errno.EHOSTDOWN: "timeout",
    errno.ENETUNREACH: "timeout",
    errno.ENETDOWN: "timeout",
    errno.EACCES: "timeout",  # a filter on the way (ICMPv6 "administratively prohibited")
}

_OWN_ERRNO = {
    errno.EMFILE: "no file descriptor left in this process",
    errno.ENFILE: "no file descriptor left on this machine",
    errno.ENOBUFS: "no socket buffer left",
    errno.ENOMEM: "no memory left",
    errno.EADDRNOTAVAIL: "no local port left",
    errno.EPERM: "a local firewall does not let this process connect",
}

_FIN_TEXTS = ("server disconnected", "peer closed connection")
"""httpcore and h11 have no class of their own for a connection that ended early, only these texts;
``tests/scrape/test_fetch.py`` sees them come from real sockets."""


def own_fault(error: BaseException) -> str | None:
    """In words, if the router itself could not ask; that never counts against a replica (6.2).

    When one address of a host failed here and another one there, the other one is the news: a host
    without IPv6 says "no local address" for ``::1`` and "refused" for ``127.0.0.1``.
    """
    web = list(_web(error))
    if any(isinstance(each, OSError) and each.errno in _BY_ERRNO for each in web):
        return None
    for each in web:
        if isinstance(each, httpx.PoolTimeout):
            return "no connection free in the router's own pool"
        if isinstance(each, httpx.InvalidURL | httpx.UnsupportedProtocol):
            return "its url is not one to ask over http"
        if isinstance(each, httpx.LocalProtocolError):
            return "the request would not be valid HTTP"
        if isinstance(each, socket.gaierror):
            if each.errno == socket.EAI_MEMORY:
                return "no memory left"
        elif isinstance(each, OSError) and not isinstance(each, ssl.SSLError):
            words = _OWN_ERRNO.get(each.errno or 0)
            if words is not None:
                return words
    return None


def cause_of(error: BaseException) -> Cause | None:
    """The word for a failure of the replica or of the way to it; ``None`` if it is neither."""
    web = list(_web(error))
    if any(isinstance(each, socket.gaierror | UnicodeError) for each in web):
        return "dns"  # UnicodeError: the name cannot be a host name at all
    if any(isinstance(each, ssl.SSLEOFError | ssl.SSLZeroReturnError) for each in web):
        return "fin"
    if any(isinstance(each, ssl.SSLError) for each in web):
        return "tls"
    words = {_BY_ERRNO[e.errno] for e in web if isinstance(e, OSError) and e.errno in _BY_ERRNO}
    # With several addresses the surest news wins: somebody answered, and refused.
    for word in ("refused", "reset", "timeout"):
        if word in words:
            return word
    if any(isinstance(each, httpx.TimeoutException) for each in web):
        return "timeout"
    if any(isinstance(each, httpx.RemoteProtocolError) for each in web):
        text = " ".join(str(each).lower() for each in web)
        return "fin" if any(known in text for known in _FIN_TEXTS) else "protocol"
    if any(isinstance(each, httpx.NetworkError) for each in web):
        return "reset"
    return "protocol" if isinstance(error, httpx.HTTPError) else None


def _web(error: BaseException) -> Iterator[BaseException]:
    """Every exception behind this one, each once."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            todo.extend(each.exceptions)
        todo += (each.__context__, each.__cause__)
