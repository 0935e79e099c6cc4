"""One TLS connection too many: what it is told, and what that may cost."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import h2.config
import h2.connection
import h2.events
import pytest
import trio

from tests.certificates import Pair
from tests.proxy.serving import (
    GET,
    RawClient,
    Serving,
    echo,
    eventually,
    open_files,
    port_tls,
    serving,
    speaking,
)
from trioroute.proxy.serving import overflow
from trioroute.proxy.serving.limits import ServerLimits


@asynccontextmanager
async def full(certificate: Pair) -> AsyncIterator[Serving]:
    limits = ServerLimits(max_connections=1, graceful_timeout_s=5)
    async with serving(echo, limits, tls=port_tls(certificate)) as server:
        async with speaking(server.port, certificate.client()) as c:
            await c.send(GET)
            await c.reply()
            yield server


async def test_an_http2_client_is_told_by_goaway(certificate: Pair) -> None:
    context = certificate.client()
    context.set_alpn_protocols(["h2"])
    async with full(certificate) as server, speaking(server.port, context) as c:
        told = h2.connection.H2Connection(h2.config.H2Configuration())
        told.initiate_connection()
        events = told.receive_data(await c.rest())
        (end,) = [e for e in events if isinstance(e, h2.events.ConnectionTerminated)]
        assert end.last_stream_id == 0
        assert end.additional_data is not None
        assert b"as many connections are open as this server takes (1)" in end.additional_data


async def test_a_client_that_speaks_first_gets_its_answer_all_the_same(certificate: Pair) -> None:
    async with full(certificate) as server, speaking(server.port, certificate.client()) as c:
        await c.send(b"POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 99999\r\n\r\n" + b"x" * 99999)
        assert (await c.reply()).status == 503


async def refused(server: Serving, certificate: Pair) -> bool:
    """Whether one more client was told so; else it was closed."""
    try:
        async with speaking(server.port, certificate.client()) as c:
            return (await c.reply()).status == 503
    except (EOFError, trio.BrokenResourceError):
        return False


async def test_a_flood_is_told_for_a_bounded_effort(
    certificate: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with full(certificate) as server:
        begun = trio.current_time()
        told = [await refused(server, certificate) for _ in range(40)]
        took_s = trio.current_time() - begun
        assert 1 <= sum(told) <= overflow.SHAKES_A_SECOND * (1 + took_s) + 1
        assert not all(told) or took_s > 2
        await trio.sleep(2 / overflow.SHAKES_A_SECOND)
        assert await refused(server, certificate)
    assert server.refusals == ["overloaded"] * 41


async def test_one_that_does_not_shake_hands_holds_nothing_for_long(
    certificate: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overflow, "TOLD_S", 0.3)
    monkeypatch.setattr(overflow, "SHAKES_A_SECOND", 1000)
    async with full(certificate) as server:
        before = open_files()
        silent = [await trio.open_tcp_stream("127.0.0.1", server.port) for _ in range(20)]
        late = RawClient(silent[-1])
        assert await late.ended()
        for stream in silent:
            with trio.fail_after(20):
                assert await RawClient(stream).ended()
            await stream.aclose()
        await eventually(lambda: open_files() <= before)
        assert await refused(server, certificate)
