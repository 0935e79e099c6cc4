"""Upstream death mid-stream, truncation and stalls: told from completion, each by its own limit."""

import json

import trio

from tests.field.site import STREAMED, OpenSite, prompt
from tests.field.stub import Stub
from tests.proxy.replies import (
    DONE,
    GOOD_STREAM,
    LAST,
    chunk,
    error,
    event,
    reply,
    says,
    silent,
    stream,
    stream_head,
    token,
)
from tests.proxy.scripted import Peer, Script
from tests.proxy.serving import eventually
from trioroute import events as e


def beats(count: int, every_s: float, *end: bytes, first_s: float = 0) -> Script:
    """Events at even times, then the end; without one it hangs."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await trio.sleep(first_s)
        await peer.send(stream_head())
        for _ in range(count):
            await peer.send(chunk(token("a")))
            await trio.sleep(every_s)
        if end:
            await peer.send(b"".join(map(chunk, end)) + LAST)
        await peer.wait_gone()

    return script


async def test_silent_truncation(open_site: OpenSite) -> None:
    async def dies(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head())
        for _ in range(3):
            await peer.send(chunk(token("a")))
            await trio.sleep(0.02)
        peer.reset()

    async with open_site(Stub(dies)) as site:
        _, body = await site.broken()
        assert body.startswith(token("a") * 3)
        told = json.loads(body[3 * len(token("a")) :].removeprefix(b"data: "))["error"]
        assert told["code"] == "upstream_cut"
        assert b"[DONE]" not in body
        assert (await site.released()).outcome == "upstream_cut"


async def test_invented_success_marker(open_site: OpenSite) -> None:
    async with open_site(Stub(says(stream()))) as site:
        answer = await site.ask(STREAMED)
        assert (answer.status, answer.body) == (200, b"")
        assert await site.outcomes() == ["upstream_empty"]


async def test_over_strict_end_detection(open_site: OpenSite) -> None:
    end = b'event: response.completed\ndata: {"type":"response.completed","response":{}}\n\n'
    async with open_site(Stub(says(stream(event({"type": "x"}), end)))) as site:
        for _ in range(5):
            answer = await site.ask(STREAMED, path="/v1/responses")
            assert answer.body == event({"type": "x"}) + end
        assert await site.outcomes() == ["ok"] * 5
        assert await site.standing("a") == "LIVE"


async def test_end_marker_after_an_error(open_site: OpenSite) -> None:
    sent = (token("a"), token("b"), error(500))
    async with open_site(Stub(says(stream_head(), *map(chunk, sent)))) as site:
        _, body = await site.broken()
        assert body == b"".join(sent)


async def test_wrong_kind_of_timeout(open_site: OpenSite) -> None:
    script = beats(20, 0.1, DONE)
    limits = {"timeouts__first_byte": 0.6, "timeouts__idle": 0.6}
    async with open_site(Stub(script), **limits) as site:
        answer = await site.ask(STREAMED)
        assert answer.body == token("a") * 20 + DONE
        assert await site.outcomes() == ["ok"]


async def test_a_total_limit_that_an_operator_sets_ends_as_an_error(open_site: OpenSite) -> None:
    limits = {"timeouts__idle": 0.6, "timeouts__total": 1}
    async with open_site(Stub(beats(60, 0.1, DONE)), **limits) as site:
        _, body = await site.broken()
        assert body.startswith(token("a") * 3)
        assert b"total" in body
        assert b"[DONE]" not in body
        released = await site.released()
        assert (released.outcome, released.blame) == ("idle_timeout", "router")
        assert await site.standing("a") == "LIVE"


async def test_missing_split_between_first_byte_and_idle_limits(open_site: OpenSite) -> None:
    limits = {"timeouts__first_byte": 4, "timeouts__idle": 0.4, "eject__request_failures": 2}
    stub = Stub(beats(2, 0.05, DONE, first_s=1.2))
    async with open_site(stub, **limits) as site:
        async with trio.open_nursery() as nursery:

            async def waits_long() -> None:
                assert (await site.ask(STREAMED)).body == token("a") * 2 + DONE

            async def stalls() -> None:
                begin = trio.current_time()
                _, body = await site.broken()
                assert 0.4 <= trio.current_time() - begin < 3.5
                assert b"upstream_cut" in body

            nursery.start_soon(waits_long)
            await eventually(lambda: len(stub.peers) == 1)
            stub.script = beats(2, 0)
            nursery.start_soon(stalls)
            nursery.start_soon(stalls)
        assert sorted(await site.outcomes()) == ["idle_timeout", "idle_timeout", "ok"]
        assert [one.replica for one in await site.events(e.Ejected)] == ["a"]


async def test_request_lost_in_membership_churn(open_site: OpenSite) -> None:
    async def answers(peer: Peer) -> None:
        while await peer.request():
            await trio.sleep(0.1)
            await peer.send(reply())

    async with open_site(Stub(answers), Stub(answers), Stub(answers)) as site:
        done = trio.Event()
        answered: list[int] = []

        async def churn() -> None:
            while not done.is_set():
                for name in site.stubs:
                    await site.admin(f"/replicas/{name}/drain", "POST")
                    await trio.sleep(0.05)
                    await site.admin(f"/replicas/{name}/undrain", "POST")

        async def one(at: int, places: trio.CapacityLimiter) -> None:
            async with places:
                with trio.fail_after(40):
                    answered.append((await site.ask(prompt(f"{at}"))).status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(churn)
            async with trio.open_nursery() as clients:
                places = trio.CapacityLimiter(50)
                for at in range(250):
                    clients.start_soon(one, at, places)
            done.set()
        assert len(answered) == 250
        assert set(answered) <= {200, 503}
        assert answered.count(200) > 220
        assert len(await site.events(e.Draining)) > 10


async def test_retry_after_the_body_was_delivered(open_site: OpenSite) -> None:
    stubs = [Stub(silent) for _ in range(3)]
    async with open_site(*stubs, timeouts__first_byte=0.5) as site:
        answer = await site.ask(prompt("x" * 5_000_000))
        assert answer.status == 504
        assert json.loads(answer.body)["error"]["code"] == "first_byte_timeout"
        await eventually(lambda: sum(len(stub.peers) for stub in stubs) == 1)
        await eventually(lambda: not any(stub.open for stub in stubs))
        assert sum(len(stub.peers) for stub in stubs) == 1
        assert len(await site.events(e.Dispatched)) == 1


async def test_a_stream_that_is_whole_needs_no_end_of_ours(open_site: OpenSite) -> None:
    async with open_site(Stub(says(stream(*GOOD_STREAM)))) as site:
        assert (await site.ask(STREAMED)).body == b"".join(GOOD_STREAM)
        assert await site.outcomes() == ["ok"]
