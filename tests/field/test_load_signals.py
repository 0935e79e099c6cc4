"""Scraped metrics and load signals: unknown is not zero, and the router's own count leads."""

import json
from collections import Counter
from typing import Any

import pytest
import trio

from tests.field.site import STREAMED, OpenSite, Site, prompt
from tests.field.stub import Stub, load_page
from tests.loop_time import loop_time
from tests.proxy.replies import LAST, chunk, reply, stream_head, token
from tests.proxy.scripted import Peer, always
from tests.proxy.serving import eventually
from trioroute import events as e

OTHER_PREFIX = load_page(0, 0).replace(b"vllm:", b"acme:")
OLD_CACHE_NAME = load_page(3, 4).replace(b"kv_cache_usage", b"gpu_cache_usage")
HALF = b"\n".join(line for line in load_page(3, 0).split(b"\n") if b"waiting" not in line)


async def until_scraped(stub: Stub, times: int = 2) -> None:
    before = stub.scrapes
    await eventually(lambda: stub.scrapes >= before + times)
    await trio.sleep(0.05)


def choosing(site: Site) -> Any:
    async def replicas(count: int) -> Counter[str]:
        seen: Counter[str] = Counter()
        for at in range(count):
            answer = await site.ask(prompt(f"choose {at} {len(await site.events())}"))
            seen[answer.headers["x-trioroute-replica"]] += 1
        return seen

    return replicas


@pytest.mark.parametrize(
    ("page", "running", "waiting", "cache"),
    [
        (OTHER_PREFIX, None, None, None),
        (OLD_CACHE_NAME, 3, 4, 0.1),
        (HALF, None, None, 0.1),
        (b"", None, None, None),
    ],
    ids=["other prefix", "old name", "half", "empty"],
)
async def test_missing_or_renamed_metric_read_as_zero(
    open_site: OpenSite, page: bytes, running: object, waiting: object, cache: object
) -> None:
    stub = Stub(always(reply()), page)
    other = Stub(always(reply()), load_page(0, 5))
    async with open_site(stub, other) as site:
        await until_scraped(stub)
        state = await site.state("a")
        assert (state["running"], state["waiting"], state["kv_usage"]) == (running, waiting, cache)
        samples = await site.metrics()
        shown = [key for key in samples if key[0] == "trioroute_replica_kv_usage_ratio"]
        assert (("trioroute_replica_kv_usage_ratio", "a") in shown) == (cache is not None)


async def test_a_page_that_is_no_metrics_is_a_failed_scrape_told_once(open_site: OpenSite) -> None:
    stub = Stub(always(reply()))
    async with open_site(stub, Stub(always(reply())), eject__cooldown=0.1) as site:
        stub.page = b"<!doctype html><html><body>welcome</body></html>"
        await site.becomes("a", "EJECTED")
        await until_scraped(stub, 5)
        told = [line for line in site.caplog.messages if "replica a: " in line and "fail" in line]
        assert len(told) == 1


async def test_multiple_engines_in_one_page(open_site: OpenSite) -> None:
    first = load_page(0, 0, 0.1)
    second = load_page(8, 40, 0.9).replace(b'engine="0"', b'engine="1"')
    third = load_page(1, 2, 0.2, model="n")
    busy, other = Stub(always(reply()), first + second + third), Stub(always(reply()))
    other.page = load_page(1, 10)
    async with open_site(busy, other) as site:
        await until_scraped(busy)
        state = await site.state("a")
        assert (state["running"], state["waiting"], state["kv_usage"]) == (9, 42, 0.9)
        assert await choosing(site)(5) == {"b": 5}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "0x10", "", "1_000"])
async def test_nan_inf_and_exponents(open_site: OpenSite, value: str) -> None:
    stub = Stub(always(reply()), load_page(2, value, value))
    async with open_site(stub, Stub(always(reply()))) as site:
        await until_scraped(stub)
        state = json.loads(
            (await site.admin("/state")).body, parse_constant=lambda name: pytest.fail(name)
        )
        found = next(one for one in state["replicas"] if one["name"] == "a")
        assert found["running"] is found["waiting"] is found["kv_usage"] is None
        scraped = [one.readings["a"] for one in await site.events(e.Scraped) if "a" in one.readings]
        assert {(one.running, one.waiting, one.kv_m) for one in scraped} == {(2, None, None)}
        stub.page = load_page("1.5E+02", "1e3", "5e-1")
        await until_scraped(stub)
        found = await site.state("a")
        assert (found["running"], found["waiting"], found["kv_usage"]) == (150, 1000, 0.5)


async def test_stale_load_signal(open_site: OpenSite) -> None:
    """All replicas always report 0: the router's own counts lead in a burst."""
    go = trio.Event()

    async def waits(peer: Peer) -> None:
        while await peer.request():
            await go.wait()
            await peer.send(reply())

    stubs = [Stub(waits) for _ in range(3)]
    async with open_site(*stubs) as site:
        async with trio.open_nursery() as nursery:
            for at in range(150):
                nursery.start_soon(site.ask, prompt(f"{at}"))
            await eventually(lambda: sum(stub.open for stub in stubs) == 150, 20)
            assert all(45 <= count <= 55 for count in await site.in_flight())
            go.set()


async def test_scrape_failure_noise(open_site: OpenSite) -> None:
    stub, good = Stub(always(reply())), Stub(always(reply()))
    async with open_site(stub, good, scrape__interval="10ms", eject__cooldown=0.1) as site:
        before = len(site.caplog.messages)
        stub.stop()
        await trio.sleep(1.5)
        assert len(site.caplog.messages) - before < 10
        failed = await site.events(e.ScrapeFailed)
        assert len(failed) > 5
        samples = await site.metrics()
        assert samples["trioroute_scrapes_total", "a", "failed"] >= len(failed)
        assert await choosing(site)(5) == {"b": 5}


async def test_slow_scrape(open_site: OpenSite) -> None:
    async def drips(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        while True:
            await peer.send(b"#")
            await trio.sleep(0.05)

    slow, quick = Stub(always(reply())), Stub(always(reply()))
    async with open_site(slow, quick, scrape__timeout=0.5) as site:
        slow.page = drips
        before = quick.scrapes
        await site.becomes("a", "EJECTED")
        async with loop_time() as spent:
            assert (await site.ask()).status == 200
        assert spent.seconds < 0.5
        assert slow.most_open_scrapes == 1
        assert quick.scrapes - before >= 5


@pytest.mark.parametrize("turned", [False, True])
async def test_negative_counters_and_biased_ties(open_site: OpenSite, turned: bool) -> None:
    stubs = [Stub(always(reply()), models=("m",)) for _ in range(3)]
    async with open_site(*(reversed(stubs) if turned else stubs)) as site:
        for at in range(45):
            await site.ask(prompt(f"{at}"))
            if at % 10 == 0:
                assert min(await site.in_flight()) >= 0
        for at in range(24):
            async with trio.open_nursery() as nursery:
                for half in "ab":
                    nursery.start_soon(site.ask, prompt(f"{at}{half}"))
        chosen = Counter(one.replica for one in await site.events(e.Dispatched))
        assert chosen.total() == 93
        assert all(24 <= count <= 38 for count in chosen.values()), chosen


async def test_one_subsystem_resets_anothers_state(open_site: OpenSite) -> None:
    end = trio.Event()

    async def until_the_end(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head())
        while not end.is_set():
            await peer.send(chunk(token("a")))
            await trio.sleep(0.1)
        await peer.send(LAST)

    async def resets(peer: Peer) -> None:
        peer.reset()

    async def fails_once(peer: Peer) -> None:
        stub.page = load_page(0, 0)
        await peer.send(reply(b"", 500))

    stub = Stub(until_the_end)
    async with open_site(stub, eject__cooldown=0.2, probing__window=0.1) as site:
        async with trio.open_nursery() as nursery:
            for at in range(30):
                nursery.start_soon(site.ask, prompt(f"{at}", stream=True))
            await eventually(lambda: stub.open == 30)
            for trouble in (None, fails_once, resets):
                if trouble is not None:
                    stub.page = trouble
                for _ in range(5):
                    await trio.sleep(0.1)
                    assert await site.in_flight() == [30]
                await site.admin("/replicas/a/drain", "POST")
                assert await site.in_flight() == [30]
                await site.admin("/replicas/a/undrain", "POST")
            assert await site.standing("a") == "EJECTED"
            stub.page = load_page(0, 0)
            end.set()
        assert await site.outcomes() == ["ok"] * 30
        await site.becomes("a", "LIVE")
        assert (await site.ask(STREAMED)).status == 200
