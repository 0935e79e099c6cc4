"""Faults of probes: what a scrape may prove, and what it must never do to traffic (group G)."""

import re
from collections import Counter

import attrs
import trio

from tests.field.site import STREAMED, OpenSite, Site
from tests.field.stub import Stub, load_page
from tests.proxy.replies import DONE, LAST, chunk, reply, silent, stream_head, token
from tests.proxy.scripted import OK, Peer, always
from tests.proxy.serving import Reply, eventually

TOKENS = b'vllm:generation_tokens_total{model_name="m"} %d\n'
SHORT = {"eject__cooldown": "100ms", "eject__cooldown_max": "100ms", "probing__window": "100ms"}


async def test_shallow_probe(open_site: OpenSite) -> None:
    """The pages of a frozen engine are quick. It loses traffic all the same, and gets none back.

    Scrapes alone bring it to LIVE (RULES 6.3), where it counts as stalled (RULES 6.10): nothing
    goes to it while another replica lives.
    """
    moves, tokens = True, 0

    async def page(peer: Peer) -> None:
        nonlocal tokens
        tokens += moves
        await peer.send(reply(load_page(2, 0) + TOKENS % tokens, 200, "content-type: text/plain"))

    frozen = Stub(silent, page)
    limits = {"timeouts__first_byte": "500ms", "eject__stall_after": "300ms"}
    async with open_site(
        frozen, Stub(always(OK), load_page(2, 0)), scrape__interval="50ms", **limits, **SHORT
    ) as site:
        answers: list[Reply] = []

        async def one() -> None:
            answers.append(await site.ask())

        async with trio.open_nursery() as nursery:
            for _ in range(12):
                nursery.start_soon(one)
            moves = False
        reached = len(frozen.peers)
        assert 0 < reached <= 12
        assert sum(answer.status == 504 for answer in answers) == reached
        for _ in range(60):
            assert (await site.ask()).status == 200
            await trio.sleep(0.02)
        assert len(frozen.peers) == reached
        assert (await site.state("a"))["stalled"]


async def test_probe_false_alarm_under_load(open_site: OpenSite) -> None:
    """One probe that failed changes nothing; after two it gets no more, but its streams run on."""
    slow, enough = False, trio.Event()

    async def ticking(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head())
        while not enough.is_set():
            await peer.send(chunk(token("a")))
            await trio.sleep(0.2)
        await peer.send(chunk(DONE) + LAST)

    async def page(peer: Peer) -> None:
        if slow:
            await peer.wait_gone()
        else:
            await peer.send(reply(load_page(0, 0), 200, "content-type: text/plain"))

    stub = Stub(ticking, page)
    quick = {"scrape__interval": "500ms", "scrape__timeout": "450ms"}
    async with open_site(stub, Stub(ticking), **quick) as site:
        bodies: list[bytes] = []

        async def one() -> None:
            bodies.append((await site.ask(STREAMED)).body)

        async def one_failure() -> None:
            nonlocal slow
            slow = True
            begin = stub.scrapes
            await eventually(lambda: stub.scrapes > begin)
            slow = False
            await eventually(lambda: stub.scrapes > begin + 1 and not stub.open_scrapes)

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(one)
            await eventually(lambda: len(stub.peers) == 10)
            await one_failure()
            assert await site.standing("a") == "LIVE"
            slow = True
            await site.becomes("a", "EJECTED")
            await trio.sleep(0.3)
            assert not bodies, "the streams still run"
            enough.set()
        assert [body.endswith(DONE) for body in bodies] == [True] * 20
        assert Counter(await site.outcomes()) == {"ok": 20}


@attrs.define
class Guarded(Stub):
    """Wants a bearer key for everything, its metrics included."""

    async def __call__(self, peer: Peer) -> None:
        first = await peer.request()
        if re.search(rb"(?im)^authorization: Bearer right-key\r$", first) is None:
            await peer.send(reply(b'{"error":"who are you?"}', 401))
            return
        peer.received = first + peer.received
        await super().__call__(peer)


async def test_probe_without_credentials(open_site: OpenSite) -> None:
    """With the key it is LIVE; else its state says authentication, and there is no loop."""
    stubs = [Guarded(always(OK), key_env=env) for env in ("RIGHT", "WRONG", "")]
    environ = {"RIGHT": "right-key", "WRONG": "canary-7f3a-wrong"}
    async with open_site(*stubs, live=False, environ=environ, scrape__interval="50ms") as site:
        await site.becomes("a", "LIVE")
        assert (await site.ask()).headers["x-trioroute-replica"] == "a"
        await eventually(lambda: "replica b: scrapes fail, authentication" in site.caplog.text)
        await eventually(lambda: "replica c: scrapes fail, authentication" in site.caplog.text)
        await trio.sleep(0.5)
        for name in "bc":
            assert await site.standing(name) in ("JOINING", "EJECTED")
            told = [
                one
                for one in site.caplog.messages
                if one.startswith(f"replica {name}") and "joined" not in one
            ]
            assert len(told) <= 2, told
        assert "right-key" not in site.caplog.text


async def _admin_at_once(site: Site, path: str, status: int) -> None:
    begin = trio.current_time()
    assert (await site.admin(path)).status == status
    assert trio.current_time() - begin < 20


async def test_wait_does_not_block_the_admin_port(open_site: OpenSite) -> None:
    """While 200 wait for a replica, everything else answers; alive and ready are two things."""
    async with open_site(
        Stub(silent), admission__max_in_flight=1, admission__max_wait="60s"
    ) as site:
        async with trio.open_nursery() as nursery:
            for _ in range(201):
                nursery.start_soon(site.ask)
            await eventually(lambda: len(site.parts.desk.line) == 200)
            for path in ("/healthz", "/readyz", "/metrics", "/state"):
                await _admin_at_once(site, path, 200)
            await site.admin("/replicas/a/drain", "POST")
            await _admin_at_once(site, "/healthz", 200)
            await _admin_at_once(site, "/readyz", 503)
            nursery.cancel_scope.cancel()
        await eventually(lambda: not len(site.parts.desk.line))
