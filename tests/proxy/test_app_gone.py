"""Clients that go away, in every phase: the replica is let go of, and not blamed."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio

from tests.loop_time import loop_time
from tests.proxy.replies import LAST, chunk, dies, heads, reply, says, silent, stream_head, token
from tests.proxy.scripted import Peer, always
from tests.proxy.serving import RawClient, client, eventually
from tests.proxy.whole import LIMITS, chat, request, whole
from trioroute import events as e
from trioroute.policy import commands as c
from trioroute.proxy import app
from trioroute.proxy.passage import Passage

pytestmark = pytest.mark.usefixtures("either_way")

STREAMED = chat(stream=True)


async def closes(raw: RawClient) -> None:
    raw.transport.socket.close()


async def resets(raw: RawClient) -> None:
    raw.reset()


async def half_closes(raw: RawClient) -> None:
    await raw.half_close()


Leave = Callable[[RawClient], Awaitable[None]]
LEAVES = pytest.mark.parametrize("leave", [closes, resets, half_closes])


async def endless(peer: Peer) -> None:
    await peer.request()
    await peer.send(stream_head() + chunk(token("a")))
    await peer.wait_gone()


async def half_json(peer: Peer) -> None:
    await peer.request()
    await peer.send(reply(b"x" * 100)[:-50])
    await peer.wait_gone()


async def headers_only(peer: Peer) -> None:
    await peer.request()
    await peer.send(stream_head())
    await peer.wait_gone()


PHASES = pytest.mark.parametrize(
    ("script", "body", "began"),
    [
        (silent, None, False),
        (silent, STREAMED, False),
        (headers_only, STREAMED, False),
        (endless, STREAMED, True),
        (half_json, None, True),
    ],
    ids=["waiting", "prefill", "headers came", "streaming", "half a body"],
)


@LEAVES
@PHASES
async def test_the_replica_is_let_go_of_within_a_second_and_not_blamed(
    script: Any, body: Any, began: bool, leave: Leave
) -> None:
    async with whole(script, always(reply())) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(body))
            await eventually(lambda: len(rig.replicas[0].peers) == 1)
            if began:
                await raw.head()
            else:
                await trio.sleep(0.02)
            async with loop_time() as spent:
                await leave(raw)
                await rig.replicas[0].peers[0].gone.wait()
            assert spent.seconds < 1
            released = await rig.released()
        assert (released.outcome, released.cause, released.blame) == (
            "client_gone",
            "cancelled",
            "client",
        )
        assert (released.ttfb_ms is not None) == began
        assert released.prompt_tokens is released.completion_tokens is None
        assert rig.router.state.health["a"].request_failures == 0
        assert rig.standing("a") == "LIVE"
        assert heads(rig.replicas[1])() == 0


async def test_while_connecting_too() -> None:
    """A replica whose queue of connections is full does not answer the handshake."""
    full = trio.socket.socket()
    await full.bind(("127.0.0.1", 0))
    full.listen(0)
    port = full.getsockname()[1]
    stuck = [trio.socket.socket() for _ in range(3)]
    try:
        async with trio.open_nursery() as nursery:
            for one in stuck:
                nursery.start_soon(one.connect, ("127.0.0.1", port))
            await trio.sleep(0.02)
            async with whole(dies) as rig:
                rig.do(c.Join, replica="a", url=f"http://127.0.0.1:{port}", models=("m",))
                rig.scrape()
                async with client(rig.port) as raw:
                    await raw.send(request())
                    await eventually(lambda: rig.in_flight == 1)
                    await trio.sleep(0.02)
                    assert rig.in_flight == 1
                    raw.reset()
                assert (await rig.released()).outcome == "client_gone"
                assert rig.standing("a") == "LIVE"
            nursery.cancel_scope.cancel()
    finally:
        full.close()
        for one in stuck:
            one.close()


async def test_between_two_attempts() -> None:
    """The first replica failed, the second one is silent."""
    async with whole(dies, silent) as rig:
        async with client(rig.port) as raw:
            await raw.send(request())
            await eventually(lambda: len(rig.replicas[1].peers) == 1)
            raw.reset()
        failed, released = await rig.ends()
        assert isinstance(failed, e.Failed)
        assert released.outcome == "client_gone"


async def test_a_client_that_leaves_after_its_answer_is_no_leaver() -> None:
    async with whole(always(reply())) as rig:
        for _ in range(20):
            async with client(rig.port) as raw:
                await raw.send(request())
                await raw.until(b"true}")
                raw.reset()
        assert {one.outcome for one in await rig.ends()} == {"ok"}


async def test_twenty_who_leave_together_are_twenty_connections_closed() -> None:
    async with whole(silent) as rig:
        async with trio.open_nursery() as nursery:

            async def one() -> None:
                async with client(rig.port) as raw:
                    await raw.send(request())
                    await eventually(lambda: len(rig.replicas[0].peers) == 20)
                    await trio.sleep(0.02)
                    raw.reset()

            for _ in range(20):
                nursery.start_soon(one)
        await eventually(lambda: all(p.gone.is_set() for p in rig.replicas[0].peers))
        assert [one.outcome for one in await rig.ends()] == ["client_gone"] * 20
        assert rig.standing("a") == "LIVE"


async def test_both_ends_break_at_the_same_moment() -> None:
    async with whole(endless) as rig:
        for _ in range(30):
            async with client(rig.port) as raw:
                await raw.send(request(STREAMED))
                await raw.head()
                rig.replicas[0].peers[-1].reset()
                raw.reset()
            await rig.quiet()
            rig.scrape()
        outcomes = {one.outcome for one in await rig.ends()}
        assert outcomes <= {"client_gone", "upstream_cut"}


async def test_usage_of_an_answer_left_early_is_unknown_and_not_zero() -> None:
    begins = b'event: message_start\ndata: {"type":"message_start","message":{"usage":'
    begins += b'{"input_tokens":9,"output_tokens":0}}}\n\n'
    async with whole(says(stream_head(), chunk(begins), hang=True)) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(STREAMED, "/v1/messages"))
            await raw.until(b"}}}")
            raw.reset()
        released = await rig.released()
        assert (released.prompt_tokens, released.completion_tokens) == (9, None)
        assert released.bytes == len(begins)


async def test_a_shutdown_that_cancels_is_no_clients_fault() -> None:
    async with whole(endless, limits=attrs.evolve(LIMITS, graceful_timeout_s=0.05)) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(STREAMED))
            await raw.head()
            rig.shutdown.set()
            released = await rig.released()
        assert (released.outcome, released.cause, released.blame) == (
            "shutdown",
            "shutdown",
            "router",
        )


async def test_a_draining_router_takes_nothing_new() -> None:
    async with whole(always(reply())) as rig:
        rig.desk.stopping = True
        refused = await rig.ask()
        assert refused.status == 503
        assert refused.headers["retry-after"] == "1"
        assert b"shutting_down" in refused.body
        (logged,) = await rig.events(e.Refused)
        assert (logged.code, logged.model) == ("shutting_down", "m")


async def test_a_request_on_its_way_is_still_tried_elsewhere_while_draining() -> None:
    go = trio.Event()

    async def dies_later(peer: Peer) -> None:
        await peer.request()
        await go.wait()

    async with whole(dies_later, always(reply())) as rig:
        async with client(rig.port) as raw:
            await raw.send(request())
            await eventually(lambda: len(rig.replicas[0].peers) == 1)
            rig.desk.stopping = True
            go.set()
            assert (await raw.reply()).status == 200


async def test_a_stream_goes_on_when_its_replica_is_ejected_for_other_reasons() -> None:
    go = trio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head() + chunk(token("a")))
        await go.wait()
        await peer.send(LAST)

    async with whole(script, eject={"stream_grace_ms": 50, "scrape_failures": 1}) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(STREAMED))
            await raw.head()
            rig.do(c.ObserveFailure, replica="a", cause="timeout")
            assert rig.standing("a") == "EJECTED"
            await trio.sleep(0.15)
            go.set()
            await raw.until(LAST)
        assert (await rig.released()).outcome == "ok"


async def test_the_end_waits_for_no_request_that_is_told_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clients that go on asking would put it off for ever."""
    counted: list[int] = []
    attempts = app._attempts

    async with whole(always(reply())) as rig:

        async def looking(passage: Passage) -> None:
            counted.append(rig.desk.running)
            await attempts(passage)

        monkeypatch.setattr(app, "_attempts", looking)
        assert (await rig.ask(chat())).status == 200
        rig.desk.stopping = True
        assert (await rig.ask(chat())).status == 503
        assert counted == [1, 0]
        await eventually(lambda: not rig.desk.running)
