"""Faults of health: what counts against a replica, what brings it back, who may wait (group G)."""

import json
from collections import Counter
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import attrs
import pytest
import trio

from tests.proxy.replies import reply, silent
from tests.proxy.scripted import OK, Peer, Script, always
from tests.proxy.serving import RawClient, Reply, client, eventually
from tests.proxy.whole import Whole, chat, request, whole
from trioroute import events as e
from trioroute.policy import commands as c

GOOD = reply(b'{"good":1}')


@attrs.define
class Moody:
    """A keep-alive replica that answers whatever ``response`` is at that moment."""

    response: bytes = GOOD
    asked: int = 0

    async def __call__(self, peer: Peer) -> None:
        while await peer.request():
            self.asked += 1
            await peer.send(self.response)


async def ask_on(raw: RawClient, body: object = None, *headers: str) -> Reply:
    await raw.send(request(body, headers=headers))
    return await raw.reply()


def where(answer: Reply) -> str:
    return answer.headers["x-trioroute-replica"]


async def test_client_error_counted_as_replica_failure() -> None:
    a = Moody()
    async with whole(a, always(GOOD)) as rig, client(rig.port) as raw:
        session = "x-session-id: s"
        assert where(await ask_on(raw, None, session)) == "a"
        for status in (400, 401, 404, 409, 413, 422):
            a.response = reply(b"told %d" % status, status)
            for _ in range(50):
                answer = await ask_on(raw, None, session)
                assert (answer.status, answer.body) == (status, b"told %d" % status)
        a.response = GOOD
        answer = await ask_on(raw, None, session)
        assert (answer.status, where(answer)) == (200, "a")
        assert rig.standing("a") == "LIVE"
        assert not await rig.events(e.Ejected)


async def test_429_from_one_replica_ignored() -> None:
    fleet = [Moody(), Moody(), Moody()]
    async with whole(*fleet) as rig:
        session = ["x-session-id: s"]
        pinned = where(await rig.ask(headers=session))
        full = fleet["abc".index(pinned)]
        full.response = reply(b"full", 429, "retry-after: 2")
        begin = trio.current_time()
        for body in (chat(), chat(stream=True)):
            for headers in ((), session):
                answer = await rig.ask(body, headers=headers)
                assert answer.status == 200
                assert where(answer) != pinned
        for _ in range(20):
            assert (await rig.ask()).status == 200
        asked = full.asked
        assert asked == 2, "the request that bound the session, and the one that found it full"
        assert trio.current_time() - begin < 2, "too slow to prove anything about Retry-After"
        assert not await rig.events(e.Ejected)
        full.response = GOOD
        await trio.sleep(begin + 2.1 - trio.current_time())
        assert pinned in {where(await rig.ask()) for _ in range(3)}


async def test_429_of_all_is_passed_on() -> None:
    async with whole(*[always(reply(b"full", 429, "retry-after: 7"))] * 3) as rig:
        for _ in range(5):
            answer = await rig.ask()
            assert (answer.status, answer.body) == (429, b"full")
            assert answer.headers["retry-after"] == "7"
        assert not await rig.events(e.Ejected)


async def test_no_recovery() -> None:
    """A replica that swallows everything for a while takes traffic again on fresh connections."""
    dead = False
    before_the_trouble: list[Peer] = []

    async def script(peer: Peer) -> None:
        while await peer.request():
            if dead:
                await peer.wait_gone()
                return
            assert peer not in before_the_trouble, "a request on a connection from before"
            await peer.send(OK)

    short: Any = {"eject": {"cooldown_ms": 50}, "probing": {"window_ms": 50}, "retries": {"max": 0}}
    async with whole(script, always(OK), **short) as rig:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(client(rig.port)) for _ in range(20)]
            for raw in clients:
                await raw.send(request())
            assert {(await raw.reply()).status for raw in clients} == {200}
        dead = True
        rig.configure(timeouts={"first_byte_ms": 100}, **short)
        before_the_trouble.extend(rig.replicas[0].peers)
        assert before_the_trouble
        async with trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(rig.ask)
        rig.do(c.ObserveFailure, replica="a", cause="timeout")
        rig.do(c.ObserveFailure, replica="a", cause="timeout")
        assert rig.standing("a") == "EJECTED"
        await eventually(lambda: all(peer.gone.is_set() for peer in before_the_trouble))
        dead = False
        rig.configure(**short)
        await trio.sleep(0.06)
        rig.scrape("a")
        rig.scrape("a")
        await trio.sleep(0.06)
        rig.do(c.Tick)
        assert rig.standing("a") == "LIVE"
        async with client(rig.port) as raw:
            went: Counter[str] = Counter()
            while went["a"] < 100:
                answer = await ask_on(raw)
                assert answer.status == 200
                went[where(answer)] += 1


@pytest.mark.parametrize(("retries", "errors"), [(2, 0), (0, 3)])
async def test_no_memory_across_requests_and_pin_beats_health(retries: int, errors: int) -> None:
    a, limit = Moody(), 3
    system = {"messages": [{"role": "system", "content": "you are"}], "model": "m"}
    async with whole(a, always(GOOD), retries={"max": retries}) as rig, client(rig.port) as raw:
        assert where(await ask_on(raw, system)) == "a", "the prefix is bound to a"
        a.response = reply(b"broken", 500)
        answers = [await ask_on(raw, system) for _ in range(200)]
        assert sum(answer.status != 200 for answer in answers) == errors
        first = [one for one in await rig.events(e.Dispatched) if one.attempt == 1][1:]
        assert [at for at, one in enumerate(first) if one.replica == "a"] == list(range(limit))
        assert a.asked == 1 + limit


def _waiting(rig: Whole, count: int) -> bool:
    return len(rig.desk.line) == count


async def test_scale_from_zero() -> None:
    """Who waits in line is chosen anew when a replica comes; who waits in vain is told so.

    Without any replica nobody waits (RULES 4.5): 503 and when to come back.
    """
    order: list[str] = []
    held = trio.Event()

    async def holds(peer: Peer) -> None:
        await peer.request()
        await held.wait()
        await peer.send(OK)

    async def serves(peer: Peer) -> None:
        while taken := await peer.request():
            order.append(json.loads(taken.partition(b"\r\n\r\n")[2])["user"])
            await peer.send(OK)

    admission = {"max_in_flight": 1, "max_wait_ms": 60_000}
    async with whole(holds, serves, admission=admission) as rig:
        rig.do(c.Leave, replica="b")
        answers: dict[str, Reply] = {}

        async def one(name: str) -> None:
            answers[name] = await rig.ask(chat(user=name))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "first")
            await eventually(lambda: rig.in_flight == 1)
            for at in range(10):
                nursery.start_soon(one, f"{at}")
                await eventually(partial(_waiting, rig, at + 1))
            rig.do(c.Join, replica="b", url=rig.replicas[1].url, models=("m",))
            rig.scrape("b")
            await eventually(lambda: len(answers) == 10)
            assert order == [f"{at}" for at in range(10)]
            assert {answer.status for answer in answers.values()} == {200}
            rig.do(c.Leave, replica="b")
            rig.configure(admission={"max_in_flight": 1, "max_wait_ms": 400})
            answer = await rig.ask()
            assert answer.status == 503
            assert json.loads(answer.body)["error"]["code"] == "overloaded"
            held.set()
        rig.do(c.Leave, replica="a")
        answer = await rig.ask()
        assert (answer.status, "retry-after" in answer.headers) == (503, True)


GARBAGE = b"SSH-2.0-OpenSSH_9.6\r\n"


async def _resets_after_head(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n")
    await trio.sleep(0.01)
    peer.reset()


async def _garbage(peer: Peer) -> None:
    await peer.request()
    await peer.send(GARBAGE)
    await peer.wait_gone()


@pytest.mark.parametrize(
    ("script", "kind"), [(_garbage, "protocol"), (_resets_after_head, "reset")]
)
async def test_probe_and_request_path_differ(script: Script, kind: str) -> None:
    """Probes are fine, requests are not: that counts, and the client is told what happened."""
    async with whole(script, always(GOOD), retries={"max": 0}) as rig:
        rig.do(c.Drain, replica="b", on=True)
        answer = await rig.ask()
        assert answer.status == 502
        assert kind in json.loads(answer.body)["error"]["message"]
        if kind == "protocol":
            assert rig.standing("a") == "LIVE"
            for _ in range(2):
                rig.scrape("a")
                await rig.ask()
        assert rig.standing("a") == "EJECTED"


async def test_both_paths_send_the_same_host() -> None:
    """A replica behind a name-based proxy: the request's Host is the address, as a probe's is."""
    hosts: list[bytes] = []

    async def picky(peer: Peer) -> None:
        while head := await peer.request():
            hosts.extend(
                line[6:] for line in head.split(b"\r\n") if line.lower().startswith(b"host: ")
            )
            await peer.send(OK)

    async with whole(picky) as rig:
        await rig.ask()
        assert hosts == [rig.replicas[0].url.removeprefix("http://").encode()]


async def test_wait_blocks_the_loop() -> None:
    async with whole(
        silent, admission={"max_in_flight": 1, "max_waiting": 200, "max_wait_ms": 60_000}
    ) as rig:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(client(rig.port)) for _ in range(201)]
            for raw in clients:
                await raw.send(request())
            await eventually(lambda: len(rig.desk.line) == 200)
            begin = trio.current_time()
            assert (await rig.ask(b"", "/health", "GET")).status == 200
            assert trio.current_time() - begin < 20
            answer = await rig.ask()
            assert answer.status == 503
            assert answer.headers["retry-after"] == "1"
            for raw in clients[101:]:
                raw.reset()
            await eventually(lambda: len(rig.desk.line) <= 101)


async def test_request_without_credentials_is_the_routers_own_fault() -> None:
    async with whole(always(reply(b"canary", 401)), keys={"a": "Bearer wrong-canary"}) as rig:
        for _ in range(5):
            answer = await rig.ask()
            error = json.loads(answer.body)["error"]
            assert (answer.status, error["code"]) == (502, "upstream_auth")
            assert b"canary" not in answer.body
            assert "api_key_env" in error["message"]
        assert not await rig.events(e.Ejected)
