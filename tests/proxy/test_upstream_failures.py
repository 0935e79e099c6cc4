"""The words for failures, and whose fault they are."""

import errno
import os
import resource
import socket
import time
from typing import Any

import httpx
import pytest
import trio

from tests.ports import free_port
from tests.proxy.scripted import OK, always, get, replica, transport_to
from tests.proxy.serving import open_files
from trioroute.proxy.upstream.error import UpstreamError, from_os_error
from trioroute.proxy.upstream.transport import ReplicaTransport


async def test_refused_and_dns_have_their_words() -> None:
    for url, cause in (
        (f"http://127.0.0.1:{free_port()}", "refused"),
        ("http://replica.invalid:1", "dns"),
    ):
        async with transport_to(url) as t:
            with pytest.raises(UpstreamError) as caught:
                await get(t)
            assert (caught.value.cause, caught.value.sent, caught.value.local) == (
                cause,
                False,
                False,
            )


async def test_a_connect_whose_time_is_over_before_it_begins_has_its_word_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a loop that is busy for longer than the limit."""
    resolve = trio.socket.getaddrinfo

    async def late(*asked: Any, **named: Any) -> Any:
        found = await resolve(*asked, **named)
        time.sleep(0.1)  # noqa: ASYNC251 - it is the loop that is to be held up
        return found

    monkeypatch.setattr(trio.socket, "getaddrinfo", late)
    async with transport_to("http://127.0.0.1:1", connect_timeout_s=0.05) as t:
        with pytest.raises(UpstreamError) as caught:
            await get(t)
    assert (caught.value.cause, caught.value.sent) == ("timeout", False)


async def test_a_connect_that_hangs_times_out_or_is_cancelled_and_leaks_nothing() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        files = open_files()
        async with transport_to(f"http://127.0.0.1:{full.getsockname()[1]}", 0.1) as t:
            with pytest.raises(UpstreamError) as caught:
                await get(t)
            assert (caught.value.cause, caught.value.sent) == ("timeout", False)
            with trio.move_on_after(0.02) as scope:
                await get(t)
            assert scope.cancelled_caught
        assert open_files() == files
        for filler in fillers:
            filler.close()


async def test_no_file_descriptors_is_our_own_fault() -> None:
    async with replica(always(OK)) as r, transport_to(r.url) as t:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            with pytest.raises(UpstreamError) as caught:
                await get(t)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert caught.value.local
        assert await get(t) == b"ok"


@pytest.mark.parametrize(
    ("number", "cause", "local"),
    [
        (errno.ECONNRESET, "reset", False),
        (errno.EPIPE, "reset", False),
        (errno.EHOSTUNREACH, "refused", False),
        (errno.ETIMEDOUT, "timeout", False),
        (errno.EADDRNOTAVAIL, "refused", True),
        (errno.EMFILE, "refused", True),
    ],
)
def test_errors_of_the_system_are_sorted(number: int, cause: str, local: bool) -> None:
    error = from_os_error(OSError(number, "x"), "doing")
    assert (error.cause, error.local) == (cause, local)


async def test_a_header_with_a_line_break_never_leaves() -> None:
    async with replica(always(OK)) as r, transport_to(r.url) as t:
        with pytest.raises(UpstreamError) as caught:
            await t.handle_async_request(
                httpx.Request("GET", r.url, headers=[(b"x", b"a\r\nb: c")])
            )
        assert caught.value.local


@pytest.mark.parametrize("url", ["replica:8000", "ftp://replica", "http://", "http://h:x"])
def test_a_url_that_is_no_origin_is_named(url: str) -> None:
    with pytest.raises(ValueError, match=url):
        ReplicaTransport(url, connect_timeout_s=1)
