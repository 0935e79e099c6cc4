"""Client disconnect and cancellation: the replica is let go of, counted right, blamed never."""

import json
from collections import Counter
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.field.site import CANARY, STREAMED, OpenSite, Site, prompt
from tests.field.stub import Stub
from tests.loop_time import loop_time
from tests.proxy.replies import (
    DONE,
    GOOD_STREAM,
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

A_TICK_S = 0.05


async def ticking(peer: Peer) -> None:
    """One small event each tick, until the router leaves."""
    await peer.request()
    await peer.send(stream_head())
    while True:
        await peer.send(chunk(token("a")))
        await trio.sleep(A_TICK_S)


async def leave_after(site: Site, seen: bytes, body: object = STREAMED) -> None:
    """Ask, read up to ``seen``, reset."""
    async with site.connect() as raw:
        await site.send(raw, body)
        await raw.until(seen)
        raw.reset()


@pytest.mark.parametrize("how", ["reset", "close", "half-close"])
async def test_lost_disconnect_signal_in_the_server_layer(open_site: OpenSite, how: str) -> None:
    async with open_site(Stub(ticking)) as site:
        async with site.connect() as raw:
            await site.send(raw, STREAMED)
            for _ in range(3):
                await raw.until(b"\n\n")
            async with loop_time() as spent:
                if how == "reset":
                    raw.reset()
                elif how == "close":
                    raw.transport.socket.close()
                else:
                    await raw.half_close()
                await site.stubs["a"].peers[-1].gone.wait()
            assert spent.seconds < 1
        released = await site.released()
        assert (released.outcome, released.blame) == ("client_gone", "client")


async def test_cancel_not_passed_upstream_without_a_stream(open_site: OpenSite) -> None:
    async with open_site(Stub(silent)) as site:
        stub = site.stubs["a"]

        async def impatient() -> None:
            async with site.connect() as raw:
                await site.send(raw)
                await eventually(lambda: len(stub.peers) == 20)

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(impatient)
        await eventually(lambda: stub.open == 0)
        assert await site.outcomes() == ["client_gone"] * 20
        assert await site.standing("a") == "LIVE"


async def test_log_claims_an_outcome_the_wire_does_not_show(open_site: OpenSite) -> None:
    async with open_site(Stub(ticking)) as site:
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(leave_after, site, b"\n\n")
        logged = 0
        with trio.fail_after(20):
            while logged < 8:
                logged = (await site.outcomes()).count("client_gone")
        await eventually(lambda: site.stubs["a"].open == 0)


async def test_in_flight_counter_drift_then_herd(open_site: OpenSite) -> None:
    stubs = [Stub(silent) for _ in range(3)]
    soon = {"eject__cooldown": 0.1, "probing__window": 0.1}  # a scrape may meet the restart
    async with open_site(*stubs, **soon) as site:

        def all_of(count: int) -> bool:
            return sum(len(stub.peers) for stub in stubs) == count

        async def aborted(at: int, leave: trio.Event) -> None:
            async with site.connect() as raw:
                await site.send(raw, prompt(f"{at} will leave"))
                await leave.wait()
                raw.reset()

        for wave in (100, 200, 300):
            leave = trio.Event()
            async with trio.open_nursery() as nursery:
                for at in range(wave - 100, wave):
                    nursery.start_soon(aborted, at, leave)
                await eventually(partial(all_of, wave), 30)
                leave.set()
        await site.quiet()

        async def answers_late(peer: Peer) -> None:
            while await peer.request():
                await trio.sleep(0.3)
                await peer.send(reply())

        stubs[0].stop()
        for stub in stubs:
            stub.script = answers_late
            stub.peers.clear()
        await site.start("a")
        await site.becomes("a", "LIVE", 20)
        async with trio.open_nursery() as nursery:
            for at in range(90):
                nursery.start_soon(site.ask, prompt(f"{at} is new"))
        assert max(len(stub.peers) for stub in stubs) <= 45


async def test_clean_up_step_not_protected_from_a_failing_clean_up_step(
    open_site: OpenSite,
) -> None:
    async with open_site(Stub(ticking), eject__request_failures=1000) as site:
        stub = site.stubs["a"]
        for _ in range(5):
            stub.peers.clear()
            begun = 0
            async with trio.open_nursery() as nursery:

                async def both_break() -> None:
                    nonlocal begun
                    async with site.connect() as raw:
                        await site.send(raw, STREAMED)
                        await raw.until(b"\n\n")
                        begun += 1
                        await eventually(lambda: begun == 40)
                        stub.peers.pop().reset()
                        raw.reset()

                for _ in range(40):
                    nursery.start_soon(both_break)
        outcomes = await site.outcomes()
        assert len(outcomes) == 200
        assert set(outcomes) <= {"client_gone", "upstream_cut"}


async def test_accounting_hole_on_early_end(open_site: OpenSite) -> None:
    usage = event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 50}})

    async def counts_last(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head())
        for _ in range(50):
            await peer.send(chunk(token("a")))
            await trio.sleep(0.01)
        await peer.send(chunk(usage) + chunk(DONE))

    async with open_site(Stub(counts_last)) as site:
        await leave_after(site, token("a") * 1)
        released = await site.released()
        assert released.outcome == "client_gone"
        assert released.prompt_tokens is released.completion_tokens is None
        assert released.bytes >= len(token("a"))
        assert released.bytes % len(token("a")) == 0


async def test_outcome_misfiled(open_site: OpenSite) -> None:
    async def resets(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head() + chunk(token("a")))
        await trio.sleep(0.05)
        peer.reset()

    async with open_site(Stub(ticking), eject__request_failures=3) as site:
        stub = site.stubs["a"]

        async def outcomes() -> Counter[Any]:
            found = await site.metrics()
            name = "trioroute_requests_total"
            return Counter({key[2]: n for key, n in found.items() if key[0] == name and n})

        for _ in range(5):
            await leave_after(site, b"\n\n")
        assert await outcomes() == {"client_gone": 5}
        assert await site.standing("a") == "LIVE"
        stub.script = resets
        await site.broken()
        stub.script = says(stream(token("a"), error("server_error")))
        assert (await site.ask(STREAMED)).status == 200
        stub.script = says(stream(*GOOD_STREAM))
        assert (await site.ask(STREAMED)).status == 200
        assert await outcomes() == {
            "client_gone": 5,
            "upstream_cut": 1,
            "upstream_error": 1,
            "ok": 1,
        }
        stub.script = resets
        for _ in range(3):
            await site.broken()
        await site.becomes("a", "EJECTED")


async def time_to_let_go(site: Site, script: Script, body: object, seen: bytes) -> float:
    """Seconds from the client's reset until the replica's side of it is closed, at worst of 10."""
    stub = site.stubs["a"]
    stub.script = script
    worst = 0.0
    for _ in range(10):
        stub.peers.clear()
        async with site.connect() as raw:
            await site.send(raw, body, headers=["origin: https://app.test"])
            await eventually(lambda: stub.peers)
            await raw.until(seen)
            begin = trio.current_time()
            raw.reset()
            await stub.peers[-1].gone.wait()
            worst = max(worst, trio.current_time() - begin)
    return worst


@pytest.mark.parametrize("features", ["off", "on"])
async def test_middleware_swallows_the_disconnect(
    open_site: OpenSite, tmp_path: Path, features: str
) -> None:
    """With keys, access log, CORS, a body limit and metrics on, the same time limit holds."""
    keys, access_log = tmp_path / "keys", tmp_path / "access.log"
    keys.write_text(f"team:{sha256(f'{CANARY}-key'.encode()).hexdigest()}\n")
    every_feature: dict[str, object] = {
        "server__api_keys_file": str(keys),
        "server__access_log": str(access_log),
        "server__cors_origins": ("https://app.test",),
        "server__max_body_bytes": 4096,
    }
    chosen = every_feature if features == "on" else {}
    async with open_site(Stub(silent), **chosen) as site:
        worst = [
            await time_to_let_go(site, silent, prompt(), b""),
            await time_to_let_go(site, silent, STREAMED, b""),
            await time_to_let_go(site, ticking, STREAMED, b"\n\n"),
        ]
        assert max(worst) < 0.25
        assert await site.outcomes() == ["client_gone"] * 30
        site.stubs["a"].script = says(reply())
        assert (await site.ask(prompt("x" * 4096))).status == (413 if chosen else 200)
        if chosen:
            assert (await site.ask()).status == 200
            await eventually(lambda: access_log.read_text().count("\n") == 31)
            lines = [json.loads(line) for line in access_log.read_text().splitlines()]
            assert [line["whole"] for line in lines] == [False] * 30 + [True]
