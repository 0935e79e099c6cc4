"""Faults of shutdown (group J): nobody waits for ever, nobody who would have ended is cut."""

import signal
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import attrs
import pytest
import trio

from tests.e2e.fleet import RouterProcess
from tests.field.process import exit_code, router_process
from tests.field.stub import Stub
from tests.proxy.replies import DONE, LAST, chunk, silent, stream_head, token
from tests.proxy.scripted import Peer
from tests.proxy.serving import RawClient, Reply, client, eventually
from tests.proxy.whole import LIMITS, chat, cut_body, request, whole
from trioroute import events as e

GRACE_S = 3.0
CHUNKED = Reply(200, {"transfer-encoding": "chunked"}, b"")


async def _streams(peer: Peer) -> None:
    """For half the grace time, or for ever if the user says so."""
    taken = await peer.request()
    await peer.send(stream_head())
    for _ in range(10 if b"brief" in taken else 10_000):
        await peer.send(chunk(token("a")))
        await trio.sleep(GRACE_S / 20)
    await peer.send(chunk(DONE) + LAST)


async def test_graceful_shutdown() -> None:
    """The exit code and the signals are those of ../e2e/test_process.py."""
    limits = attrs.evolve(LIMITS, graceful_timeout_s=GRACE_S)
    async with whole(_streams, limits=limits) as rig, AsyncExitStack() as stack:

        async def connected() -> RawClient:
            return await stack.enter_async_context(client(rig.port))

        idle, half = await connected(), [await connected() for _ in range(5)]
        await idle.send(request(b"", "/health", "GET"))
        await idle.reply()
        for raw in half:
            await raw.send(request()[:-5])
        running: dict[str, list[RawClient]] = {"brief": [], "endless": []}
        for what, raws in running.items():
            for _ in range(10):
                raws.append(await connected())
                await raws[-1].send(request(chat(stream=True, user=what)))
                await raws[-1].until(b"\r\n\r\n")
        rig.desk.stopping = True
        rig.shutdown.set()
        begin = trio.current_time()
        assert await idle.ended()
        with pytest.raises((OSError, EOFError, trio.BrokenResourceError)):
            await (await connected()).reply()
        for raw in running["brief"]:
            body = await raw.rest()
            assert body.endswith(b"0\r\n\r\n")
            assert DONE in body
        assert trio.current_time() - begin < GRACE_S
        for raw in running["endless"]:
            body = await cut_body(raw, CHUNKED)
            assert b"[DONE]" not in body
        for raw in half:
            assert b" 200 " not in await raw.rest()
        assert trio.current_time() - begin < 2 * GRACE_S
        await eventually(lambda: not rig.in_flight)
        outcomes = [one.outcome for one in await rig.events(e.Released)]
        assert sorted(outcomes) == ["ok"] * 10 + ["shutdown"] * 10


async def _falls_silent(peer: Peer) -> None:
    """A token, then nothing if the user says so, else more of them."""
    taken = await peer.request()
    await peer.send(stream_head() + chunk(token("a")))
    if b"silent" in taken:
        await peer.wait_gone()
    for _ in range(30):
        await peer.send(chunk(token("a")))
        await trio.sleep(0.1)
    await peer.send(chunk(DONE) + LAST)


async def test_unclosed_response_at_shutdown(tmp_path: Path) -> None:
    """25 streams that run into a limit and 25 that go on, and SIGTERM while they do."""
    stub = Stub(_falls_silent)
    limits = {"timeouts_idle": "700ms", "server_graceful_timeout": "60s", "server_settle": "100ms"}
    ends: list[tuple[str, bool]] = []
    async with router_process(tmp_path, stub, settings=limits) as router:
        begun = 0

        async def listens(user: str) -> None:
            nonlocal begun
            async with client(router.port) as raw:
                await raw.send(request(chat(stream=True, user=user)))
                await raw.until(token("a"))
                begun += 1
                body = await raw.rest()
                ends.append((user, DONE in body and body.endswith(LAST)))

        async with trio.open_nursery() as nursery:
            for _ in range(25):
                nursery.start_soon(listens, "goes on")
            await eventually(lambda: begun == 25)
            for _ in range(25):
                nursery.start_soon(listens, "silent")
            await eventually(lambda: begun == 50)
            router.popen.send_signal(signal.SIGTERM)
            begin = trio.current_time()
            assert await exit_code(router) == 0
        assert trio.current_time() - begin < 50
        assert sorted(ends) == [("goes on", True)] * 25 + [("silent", False)] * 25
        assert stub.open == 0
        assert "in flight" in router.text()
        assert "exception" not in router.text().lower()


@pytest.mark.parametrize(
    ("grace", "signals"),
    [("0s", [signal.SIGTERM]), ("60s", [signal.SIGINT, signal.SIGINT])],
    ids=["no grace", "SIGINT twice"],
)
async def test_sockets_left_open_on_cancel(
    tmp_path: Path, grace: str, signals: list[signal.Signals]
) -> None:
    stub = Stub(silent)
    async with router_process(
        tmp_path, stub, settings={"server_graceful_timeout": grace}
    ) as router:
        ended: list[float] = []

        async def waits() -> None:
            async with client(router.port) as raw:
                await raw.send(request())
                assert b" 200 " not in await _all_there_is(raw)
                ended.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(waits)
            await eventually(lambda: stub.open == 20)
            for number in signals:
                router.popen.send_signal(number)
                await trio.sleep(0.1)
            begin = trio.current_time()
        assert len(ended) == 20
        assert max(ended) - begin < 20
        assert await exit_code(router) == 0
        _bind_again(router)
        assert stub.open == 0


async def _all_there_is(raw: RawClient) -> bytes:
    try:
        return await raw.rest()
    except trio.BrokenResourceError:
        return raw.buffer


def _bind_again(router: RouterProcess) -> None:
    """Both ports are free at once, for a router that asks for them as ours does."""
    for port in (router.port, router.admin_port):
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", port))
            taken.listen()
