"""Keep-alive, stale connections, uploads, cancellation, TLS."""

from collections.abc import AsyncIterator

import httpx
import pytest
import trio

from tests.certificates import Pair
from tests.proxy.scripted import OK, Peer, always, answers, get, replica, transport_to
from tests.proxy.serving import Recorder, eventually, open_files, port_tls, serving
from trioroute.proxy.upstream.error import UpstreamError
from trioroute.proxy.upstream.transport import ReplicaTransport


async def test_the_last_connection_used_is_the_next_one() -> None:
    async with replica(always(OK)) as r, transport_to(r.url) as t:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(get, t)
        assert (len(r.peers), t.idle) == (5, 5)
        for _ in range(10):
            await get(t)
        assert (len(r.peers), t.idle) == (5, 5)


async def test_idle_connections_are_few_and_do_not_grow_old() -> None:
    async with replica(always(OK)) as r, transport_to(r.url, max_idle=2, idle_expiry_s=0.2) as t:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(get, t)
        assert t.idle == 2
        await eventually(lambda: sum(p.gone.is_set() for p in r.peers) == 3)
        await trio.sleep(0.25)
        await get(t)
        assert len(r.peers) == 6
        assert t.idle == 1


async def test_a_connection_closed_while_idle_is_not_tried() -> None:
    async with replica(answers(OK)) as r, transport_to(r.url) as t:
        for _ in range(3):
            await get(t)
            await eventually(lambda: r.peers[-1].gone.is_set())
            await trio.sleep(0.02)
        assert len(r.peers) == 3
        assert t.stale_retries == 0


@pytest.mark.parametrize("how", ["fin", "reset"])
async def test_a_connection_that_closes_on_reuse_is_replaced_once(how: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        if peer.index == 0:
            await peer.request()  # the race: it closes as the second request arrives
            if how == "reset":
                peer.reset()
        else:
            await peer.wait_gone()

    async with replica(script) as r, transport_to(r.url) as t:
        assert await get(t) == b"ok"
        response = await t.handle_async_request(httpx.Request("POST", r.url, content=b"again"))
        assert await response.aread() == b"ok"
        assert response.extensions["stale_retry"] is True
        assert (len(r.peers), t.stale_retries) == (2, 1)


async def test_a_byte_of_a_response_forbids_the_second_try() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.request()
        await peer.send(b"H")

    async with replica(script) as r, transport_to(r.url) as t:
        await get(t)
        with pytest.raises(UpstreamError) as caught:
            await get(t)
        assert (caught.value.cause, len(r.peers), t.stale_retries) == ("fin", 1, 0)


async def test_a_body_that_cannot_be_repeated_is_not() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"once"

    async with replica(answers(OK, b"")) as r, transport_to(r.url) as t:
        await get(t)
        with pytest.raises(UpstreamError):
            await t.handle_async_request(httpx.Request("POST", r.url, content=pieces()))
        assert (len(r.peers), t.stale_retries) == (1, 0)


async def test_a_streamed_body_is_chunked_on_the_wire() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"hello"
        yield b""
        yield b" world"

    app = Recorder()
    async with serving(app) as server:
        async with transport_to(f"http://127.0.0.1:{server.port}") as t:
            response = await t.handle_async_request(
                httpx.Request("POST", "http://r/", content=pieces())
            )
            assert await response.aread() == b"hello world"
            assert t.idle == 1


@pytest.mark.parametrize("ending", ["polite", "rude"])
@pytest.mark.parametrize("size", [10, 64 * 1024 * 1024])
async def test_an_answer_before_the_whole_request_is_read(ending: str, size: int) -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig"

    async def script(peer: Peer) -> None:
        await peer.stream.receive_some(5)
        await peer.send(refusal)
        if ending == "polite":
            await trio.sleep_forever()

    async with replica(script) as r, transport_to(r.url) as t:
        body = b"x" * size
        response = await t.handle_async_request(httpx.Request("POST", r.url, content=body))
        assert response.status_code == 413
        assert await response.aread() == b"big"
        if size > 10:
            assert t.idle == 0  # the rest of the upload was never sent on it


async def test_a_replica_that_dies_during_the_upload_is_an_unsent_reset() -> None:
    async def script(peer: Peer) -> None:
        await peer.stream.receive_some(5)
        peer.reset()

    async with replica(script) as r, transport_to(r.url) as t:
        with pytest.raises(UpstreamError) as caught:
            await get(t, "POST", b"x" * 64 * 1024 * 1024)
        assert caught.value.cause == "reset"
        assert not caught.value.sent


async def test_a_large_body_arrives_whole() -> None:
    body = bytes(range(256)) * 40_000
    app = Recorder()
    async with serving(app) as server:
        async with transport_to(f"http://127.0.0.1:{server.port}") as t:
            assert await get(t, "POST", body) == body
            assert await get(t, "POST", b"small") == b"small"
            assert t.idle == 1


async def test_a_request_with_its_own_headers_and_a_byte_stream_leaves_as_given() -> None:
    app = Recorder()
    async with serving(app) as server:
        async with transport_to(f"http://127.0.0.1:{server.port}") as t:
            headers = [(b"host", b"me"), (b"content-length", b"3")]
            stream = httpx.ByteStream(b"abc")
            request = httpx.Request("POST", "http://r/", headers=headers, stream=stream)
            assert await (await t.handle_async_request(request)).aread() == b"abc"
    assert app.scopes[0]["headers"] == headers


@pytest.mark.parametrize("phase", ["head", "body", "closed early", "upload"])
async def test_a_cancelled_exchange_closes_its_connection_at_once(phase: str) -> None:
    async def script(peer: Peer) -> None:
        if phase == "upload":
            await trio.sleep(0.3)
        else:
            await peer.request()
        if phase in ("body", "closed early"):
            await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc")
        await peer.wait_gone()

    async with replica(script) as r, transport_to(r.url) as t:
        content = b"x" * (64 * 1024 * 1024 if phase == "upload" else 1)
        with trio.move_on_after(0.15 if phase != "closed early" else 5):
            response = await t.handle_async_request(httpx.Request("POST", r.url, content=content))
            if phase == "closed early":
                await response.aclose()
            else:
                await response.aread()
        await eventually(lambda: r.peers[0].gone.is_set())
        assert t.idle == 0


async def test_closing_the_transport_closes_idle_connections_now_and_others_later() -> None:
    go = trio.Event()

    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no")
            if peer.index == 0:
                await go.wait()
            await peer.send(b"k")
        await peer.wait_gone()

    async with replica(script) as r, transport_to(r.url) as t:
        busy = await t.handle_async_request(httpx.Request("GET", r.url))
        await get(t)
        assert t.idle == 1
        await t.aclose()
        await eventually(lambda: r.peers[1].gone.is_set())
        go.set()
        assert await busy.aread() == b"ok"
        await eventually(lambda: r.peers[0].gone.is_set())


async def test_close_idle_drops_what_was_kept() -> None:
    async with replica(always(OK)) as r, transport_to(r.url) as t:
        await get(t)
        t.close_idle()
        assert t.idle == 0
        await get(t)
        assert len(r.peers) == 2


async def test_tls_is_spoken_kept_alive_and_its_failures_have_a_word(
    certificate: Pair,
) -> None:
    context = certificate.client()
    app = Recorder()
    async with serving(app, tls=port_tls(certificate)) as server:
        url = f"https://127.0.0.1:{server.port}"
        trusting = ReplicaTransport(url, connect_timeout_s=5, tls=context)
        for size in (3, 3_000_000):
            assert len(await get(trusting, "POST", b"x" * size)) == size
        assert trusting.idle == 1
        assert len({scope["client"] for scope in app.scopes}) == 1
        await trusting.aclose()
        async with transport_to(url, 5) as distrusting:
            with pytest.raises(UpstreamError) as caught:
                await get(distrusting)
            assert (caught.value.cause, caught.value.sent) == ("tls", False)
    async with replica(always(OK)) as plain:
        async with transport_to(plain.url.replace("http:", "https:"), 1) as t:
            with pytest.raises(UpstreamError) as caught:
                await get(t)
            assert caught.value.cause in ("tls", "timeout")


async def test_hundreds_of_cancelled_requests_leave_nothing_behind() -> None:
    async def script(peer: Peer) -> None:
        while await peer.request():
            await trio.sleep(0.005 * (peer.index % 7))
            await peer.send(OK)

    async def visit(n: int) -> None:
        await trio.sleep(n * 0.001)
        with trio.move_on_after(0.002 * (n % 15)):
            await get(t)

    async with replica(script) as r, transport_to(r.url) as t:
        files = open_files()
        tasks = trio.lowlevel.current_statistics().tasks_living
        async with trio.open_nursery() as nursery:
            for n in range(400):
                nursery.start_soon(visit, n)
        with trio.fail_after(20):
            assert await get(t) == b"ok"
        t.close_idle()
        await eventually(lambda: open_files() == files)
        await eventually(lambda: trio.lowlevel.current_statistics().tasks_living == tasks)
