"""Faults of bounds and secrets: series, memory, keys that leak, clients that dawdle (group N)."""

import gc
import json
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from click.testing import CliRunner

from eventlog.sqlite import SqliteStore
from tests.field.site import CANARY, OpenSite, prompt
from tests.field.stub import Stub
from tests.proxy.replies import Recorder, dies, reply
from tests.proxy.scripted import OK, Peer, always
from tests.proxy.serving import RawClient, client
from tests.proxy.whole import LIMITS, Whole, chat, request, whole
from trioroute import events as e
from trioroute.cli.root import main

MADE_UP = 500


async def test_label_cardinality(open_site: OpenSite) -> None:
    """Made-up models add one series at most, and real ones keep theirs."""
    async with open_site(Stub(always(OK))) as site, site.connect() as raw:

        async def flood() -> None:
            for at in range(MADE_UP):
                model = "m" if at % 10 == 0 else f"made-up-{at}"
                await site.send(raw, prompt(model=model))
                assert (await raw.reply()).status == (200 if model == "m" else 404)

        await site.ask()
        before = await site.metrics()
        await flood()
        after = await site.metrics()
        grown = Counter(name for name, *_ in after.keys() - before.keys())
        assert grown["trioroute_requests_total"] <= 1
        assert not [labels for labels in after if any("made-up" in text for text in labels)]
        key = ("trioroute_requests_total", "m", "ok")
        assert after[key] - before[key] == MADE_UP // 10


async def _ends_in_five_ways(peer: Peer) -> None:
    """What the request's user says: ok, bad, broken, silent, cut."""
    while taken := await peer.request():
        match json.loads(taken.partition(b"\r\n\r\n")[2])["user"]:
            case "bad":
                await peer.send(reply(b"no", 400))
            case "broken":
                await peer.send(reply(b"no", 502))
            case "silent":
                await peer.wait_gone()
                return
            case "cut":
                await peer.send(reply(b"x" * 100)[:-50])
                return
            case _:
                await peer.send(OK)


async def _rounds(rig: Whole, count: int) -> None:
    async def one(what: str, patience_s: float) -> None:
        async with client(rig.port) as raw:
            await raw.send(request(chat(user=what)))
            with trio.move_on_after(patience_s):
                await raw.fill()

    for _ in range(count):
        async with trio.open_nursery() as nursery:
            for what in ("ok", "bad", "broken", "silent", "cut"):
                nursery.start_soon(one, what, 5)
                nursery.start_soon(one, "silent", 0.01)
    await rig.quiet()


async def test_memory_growth(tmp_path: Path) -> None:
    """Whatever ends a request, nothing of it stays: objects are counted after a warm-up."""
    store = SqliteStore.open(tmp_path / "log", sync="normal")
    limits: Any = {"timeouts": {"first_byte_ms": 40}, "eject": {"request_failures": 100_000}}
    async with whole(*[_ends_in_five_ways] * 3, store=store, **limits) as rig:
        kept: list[int] = []
        for _ in range(3):
            await _rounds(rig, 15)
            for made in rig.replicas:
                made.peers.clear()
            gc.collect()
            kept.append(len(gc.get_objects()))
        assert kept[2] <= kept[1] * 1.05
        assert rig.in_flight == len(rig.desk.in_use) == len(rig.desk.watch) == len(rig.desk.line)
    store.close()


async def test_secrets_in_logs(open_site: OpenSite) -> None:
    """The standing checks look for the canary: in every key, cookie, query, error and at debug."""
    refusing = Stub(always(reply(f"{CANARY} who?".encode(), 401)), key_env="KEY")
    broken = Stub(dies)
    environ = {"KEY": f"{CANARY}-upstream"}
    async with open_site(refusing, broken, environ=environ) as site:
        site.caplog.set_level("DEBUG")
        for path in ("/v1/chat/completions", f"/v1/files?key={CANARY}", f"/nowhere?k={CANARY}"):
            for headers in ((), (f"x-api-key: {CANARY}",), (f"x-session-id: {CANARY}",)):
                answer = await site.ask(path=path, headers=headers)
                assert answer.status >= 400
                assert CANARY.encode() not in answer.body


@pytest.mark.parametrize(
    "url",
    [f"http://user:{CANARY}@127.0.0.1:9", f"http://127.0.0.1:9/?key={CANARY}", f"a=x://{CANARY}@h"],
)
def test_a_secret_in_a_replicas_address_is_not_shown(url: str) -> None:
    done = CliRunner().invoke(main, ["serve", "--replica", url])
    assert done.exit_code == 2
    assert CANARY not in done.output


PLACES = (
    "authorization: Bearer client-key",
    "x-api-key: client-key",
    "proxy-authorization: Basic client-key",
)


@pytest.mark.parametrize("forward", [True, False])
async def test_credential_passed_on(forward: bool) -> None:
    """A replica with a key of its own sees that one; the caller's never, and no empty header."""
    recorder = Recorder()
    server = {"forward_client_auth": forward}
    async with whole(recorder, keys={"a": "Bearer replica-key"}, server=server) as rig:
        await rig.ask(headers=PLACES)
        assert recorder.header("authorization") == "Bearer replica-key"
        assert b"client-key" not in recorder.requests[-1]
    async with whole(recorder, server={"forward_client_auth": False}) as rig:
        await rig.ask(headers=PLACES)
        assert b"client-key" not in recorder.requests[-1]
        assert not [name for name, _ in recorder.headers() if name.lower() == "authorization"]
    async with whole(recorder) as rig:
        await rig.ask(headers=PLACES[:1])
        assert recorder.header("authorization") == "Bearer client-key", (
            "the client's own, untouched"
        )


async def test_slow_upload() -> None:
    """A byte now and then holds no place: 408 and closed; everybody else is served as before."""
    limits = attrs.evolve(LIMITS, body_timeout_s=0.6)
    head = request(b"x")[:-1].replace(b"content-length: 1\r\n", b"content-length: 1000000\r\n")
    assert b"1000000" in head
    async with whole(always(OK), limits=limits) as rig, AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(client(rig.port)) for _ in range(100)]
        statuses: list[int] = []

        async def drips(raw: RawClient) -> None:
            for _ in range(600):
                try:
                    await raw.send(b"{")
                except trio.BrokenResourceError:
                    return
                await trio.sleep(0.1)

        async with trio.open_nursery() as nursery:
            for raw in slow:
                await raw.send(head)
                nursery.start_soon(drips, raw)
            begin = trio.current_time()
            for _ in range(20):
                assert (await rig.ask()).status == 200
                await trio.sleep(0.02)
            for raw in slow:
                statuses.append((await raw.reply()).status)
                assert await raw.ended()
            assert trio.current_time() - begin < 40
            nursery.cancel_scope.cancel()
        assert statuses == [408] * 100
        assert len(await rig.events(e.Dispatched)) == 20


async def test_a_slow_but_steady_upload_is_served() -> None:
    limits = attrs.evolve(LIMITS, body_timeout_s=0.3)
    async with whole(always(OK), limits=limits) as rig, client(rig.port) as raw:
        data = request(chat(user="u" * 200_000))
        begin = trio.current_time()
        for at in range(0, len(data), 20_000):
            await raw.send(data[at : at + 20_000])
            await trio.sleep(0.1)
        assert trio.current_time() - begin > 0.9
        assert (await raw.reply()).status == 200
