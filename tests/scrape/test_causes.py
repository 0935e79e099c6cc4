"""Errors that a test cannot make a real socket give: put together as httpx would raise them."""

import errno
import socket
import ssl

import httpx
import pytest

from trioroute.events.words import Cause
from trioroute.scrape.causes import cause_of, own_fault


def wrapped(*inner: Exception, outer: Exception | None = None) -> Exception:
    """As through httpcore and httpx: only contexts are left, several addresses are a group."""
    error = outer or httpx.ConnectError("all attempts to connect failed")
    middle = OSError("all attempts to connect failed")
    middle.__cause__ = ExceptionGroup("attempts", inner) if len(inner) > 1 else inner[0]
    error.__context__ = middle
    return error


def os_error(number: int) -> OSError:
    return OSError(number, "as the kernel says")


@pytest.mark.parametrize(
    ("numbers", "cause"),
    [
        ([errno.ECONNREFUSED], "refused"),
        ([errno.ECONNREFUSED, errno.ETIMEDOUT], "refused"),
        ([errno.EADDRNOTAVAIL, errno.ECONNREFUSED], "refused"),  # no IPv6 here
        ([errno.ECONNRESET], "reset"),
        ([errno.EPIPE], "reset"),
        ([errno.EHOSTUNREACH], "timeout"),
        ([errno.ENETUNREACH, errno.EHOSTUNREACH], "timeout"),
    ],
)
def test_the_kernels_word_is_found_behind_every_wrapper(numbers: list[int], cause: Cause) -> None:
    error = wrapped(*map(os_error, numbers))
    assert own_fault(error) is None
    assert cause_of(error) == cause


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EMFILE, "file descriptor"),
        (errno.ENFILE, "file descriptor"),
        (errno.EADDRNOTAVAIL, "local port"),
        (errno.ENOMEM, "memory"),
        (errno.EPERM, "firewall"),
    ],
)
def test_what_the_router_lacks_is_its_own_fault(number: int, words: str) -> None:
    assert words in (own_fault(wrapped(os_error(number))) or "")


def test_a_full_pool_and_a_bad_url_are_the_routers_own() -> None:
    assert own_fault(httpx.PoolTimeout("")) is not None
    assert own_fault(httpx.UnsupportedProtocol("ftp")) is not None
    assert own_fault(httpx.InvalidURL("no port")) is not None
    assert own_fault(httpx.LocalProtocolError("illegal header value")) is not None


def test_names_certificates_and_half_closed_tls() -> None:
    assert cause_of(wrapped(socket.gaierror(socket.EAI_NONAME, "unknown"))) == "dns"
    assert cause_of(wrapped(UnicodeError("label too long"))) == "dns"
    assert cause_of(wrapped(ssl.SSLCertVerificationError(1, "expired"))) == "tls"
    assert cause_of(wrapped(ssl.SSLEOFError(8, "eof"))) == "fin"


def test_a_cycle_of_contexts_ends() -> None:
    one, two = httpx.ReadError("one"), OSError("two")
    one.__context__, two.__context__ = two, one
    assert cause_of(one) == "reset"


def test_what_is_no_error_of_the_wire_has_no_cause() -> None:
    assert cause_of(KeyError("bug")) is None
