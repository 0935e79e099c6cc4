"""Faults of replay and clocks: another day, place, interpreter, release; stepped clocks (K, M)."""

import os
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
import trio

from eventlog.sqlite import SqliteStore
from tests.ended import ended
from tests.field.site import OpenSite
from tests.field.stub import Stub
from tests.proxy.scripted import OK, Peer, always
from tests.proxy.serving import eventually
from tests.proxy.whole import chat, whole
from tests.replay.rig import STREAM
from tests.scenario import play
from trioroute import events as e
from trioroute.assembly import assemble, open_log
from trioroute.events.codec import UnreadableEvent
from trioroute.events.sections import Slack
from trioroute.projections.digest import digest
from trioroute.recovery import recover
from trioroute.settings import load

LATER = (
    "import sys, time; real = time.time, time.time_ns;"
    "time.time = lambda: real[0]() + 90_000;"
    "time.time_ns = lambda: real[1]() + 90_000 * 10**9;"
    "from trioroute.cli.root import main; sys.argv[0] = 'trioroute'; main()"
)
ELSEWHERE = (("1", "Asia/Tokyo"), ("4711", "America/St_Johns"))
"""Seeds of Python's hashes, and time zones."""


def verified_elsewhere(log: Path) -> set[str]:
    """What replay says of the log, run a day later, at other places, under other hash seeds."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", LATER, "replay", str(log), "--verify", "--json"],
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for seed, zone in ELSEWHERE
    ]
    with ended(*running):
        told = {process.communicate(timeout=100)[0] for process in running}
    assert {process.returncode for process in running} == {0}, told
    return told


async def test_concurrency_order_not_recorded(tmp_path: Path) -> None:
    """A hundred requests that end in any order, an eject and other settings in between."""
    chance = random.Random(136)

    async def shuffled(peer: Peer) -> None:
        while await peer.request():
            await trio.sleep(chance.random() * 0.2)
            await peer.send(OK)

    store = SqliteStore.open(tmp_path / "log", sync="normal")
    async with whole(*[shuffled] * 3, store=store, threaded=True) as rig:
        async with trio.open_nursery() as nursery:
            for at in range(100):
                session = [f"x-session-id: s{at % 30}"] if at % 3 else []
                nursery.start_soon(rig.ask, chat(user=f"{at}"), "/v1/completions", "POST", session)
                if at == 40:
                    await trio.sleep(0.05)
                    rig.eject("b")
                if at == 70:
                    await trio.sleep(0.05)
                    rig.configure(policy={"slack": Slack(session=3, prefix=1)})
        assert len(await rig.events(e.Released)) == 100
    store.close()
    (told,) = verified_elsewhere(tmp_path / "log")
    assert '"decisions"' in told


def test_clock_read_in_replay(tmp_path: Path) -> None:
    """A course of hours with ejects, expiries and restarts is the same wherever it is replayed."""
    rig = play(134, 700)
    with closing(SqliteStore.open(tmp_path / "log", sync="normal")) as store:
        store.append(STREAM, rig.log.entries, 0)
        assert digest(recover(store, STREAM).state) == digest(rig.state)
    assert rig.logged(e.Ejected)
    assert [one for one in rig.logged(e.Unbound) if one.cause == "ttl"]
    assert len(verified_elsewhere(tmp_path / "log")) == 1


CHANGES = {
    "UPDATE events SET kind = 'Teleported' WHERE seq = 7": "Teleported",
    "UPDATE events SET schema = 99 WHERE seq = 7": "schema 99",
    "UPDATE events SET body = json_remove(body, '$.release') WHERE seq = 1": "Started",
    "UPDATE events SET body = json_insert(body, '$.more', 1) WHERE seq = 1": "Started",
}
"""Rows of another release, and what the refusal names."""

ENTRIES = play(133, 50).log.entries


@pytest.mark.parametrize(("change", "told"), CHANGES.items())
def test_unknown_events(tmp_path: Path, change: str, told: str) -> None:
    """What another release may have written is refused by name, before anything is written.

    An extra field too: a recorded kind never changes its shape without a new schema number.
    """
    log = tmp_path / "log"
    with closing(SqliteStore.open(log, sync="normal")) as store:
        store.append(STREAM, ENTRIES, 0)
    with closing(sqlite3.connect(log / "log-1.sqlite")) as base:
        base.execute(change)
        base.commit()
    settings = load(None, environ={}, overrides={"log.path": str(log)})
    with closing(open_log(settings.in_force)) as store:
        with pytest.raises(UnreadableEvent, match=told):
            assemble(settings, store, {})
        assert store.head().seq == len(ENTRIES)


async def test_clock_jump(open_site: OpenSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall clock steps by two hours both ways: cooldowns and pins keep their time."""
    real, real_ns = time.time, time.time_ns
    alive = True

    async def script(peer: Peer) -> None:
        while await peer.request():
            if not alive:
                peer.reset()
                return
            await peer.send(OK)

    short = {"eject__cooldown": "1s", "probing__window": "300ms"}
    async with open_site(Stub(script), Stub(always(OK)), **short) as site:
        session = ["x-session-id: s"]
        home = (await site.ask(headers=session)).headers["x-trioroute-replica"]
        for step_s in (-7200, 7200):
            alive = False
            while await site.standing("a") != "EJECTED":
                begin = trio.current_time()  # before it: its end may be told late
                await site.ask()
            alive = True
            monkeypatch.setattr(time, "time", lambda s=step_s: real() + s)
            monkeypatch.setattr(time, "time_ns", lambda s=step_s: real_ns() + s * 10**9)
            await site.becomes("a", "PROBING", 20)
            assert trio.current_time() - begin >= 0.9
            await site.becomes("a", "LIVE")
            home_now = (await site.ask(headers=session)).headers
            assert home_now["x-trioroute-reason"] == "affinity:session" or home == "a"
            home = home_now["x-trioroute-replica"]
        await site.events()
        times = [row.at_ms for row in site.rows()]
        assert times == sorted(times)
        assert times[-1] - times[0] < 60_000


async def test_a_router_that_slept_does_not_storm_its_replicas(open_site: OpenSite) -> None:
    """Held up for twelve rounds of scrapes, it goes on with the next one."""
    stub = Stub(always(OK))
    async with open_site(stub) as site:
        begin = stub.scrapes
        await eventually(lambda: stub.scrapes > begin)
        before = stub.scrapes
        time.sleep(1.2)  # noqa: ASYNC251 - the whole process stands still, as if it were suspended
        begin_s = trio.current_time()
        await trio.sleep(0.25)
        await eventually(lambda: stub.scrapes > before)
        rounds = (trio.current_time() - begin_s) / 0.1
        assert stub.scrapes - before <= 3 + rounds, "the twelve would come at once"
        assert await site.standing("a") == "LIVE"
