"""Changes of a running router: whole or not at all, and requests in the middle of them."""

import json
from contextlib import closing
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from eventlog import JournalFull
from tests.field.site import Site, prompt, site
from tests.field.stub import Stub
from tests.proxy.replies import reply
from tests.proxy.scripted import Peer
from tests.proxy.serving import client
from tests.test_assembly import FullLog, parts_in
from trioroute import events as e
from trioroute.assembly import begin, rounds_of
from trioroute.changes import RunningChanges
from trioroute.observe import BadReplica, NoSuchReplica, ReplicaExists
from trioroute.settings import ReplicaSetting


async def slow(peer: Peer) -> None:
    while await peer.request():
        await trio.sleep(0.2)
        await peer.send(reply())


async def change(made: Site, method: str, path: str, told: object = None) -> int:
    body = json.dumps(told).encode() if told is not None else b""
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    async with client(made.admin_port) as raw:
        await raw.send(head.encode() + body)
        return (await raw.reply()).status


async def test_no_request_is_lost_while_replicas_come_and_go(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stubs = [Stub(slow) for _ in range(3)]
    statuses: list[int] = []
    async with site(tmp_path, caplog, *stubs) as made, trio.open_nursery() as churn:

        async def come_and_go() -> None:
            while True:
                for stub in stubs:
                    await trio.sleep(0.05)
                    assert await change(made, "DELETE", f"/replicas/{stub.name}?now") == 200
                    await trio.sleep(0.15)
                    told = {"name": stub.name, "url": stub.url}
                    assert await change(made, "POST", "/replicas", told) == 201

        async def ask() -> None:
            statuses.append((await made.ask(prompt())).status)

        churn.start_soon(come_and_go)
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(ask)
                await trio.sleep(0.02)
        churn.cancel_scope.cancel()
    assert len(statuses) == 100
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) > 60, "503 only while none of the three was seen well again"
    left = [event for event in await made.events(e.ReplicaLeft) if event.by == "admin"]
    assert len(left) > 3


def changes_in(directory: Path) -> RunningChanges:
    parts = parts_in(directory)
    begin(parts)
    return RunningChanges(parts, rounds_of(parts), lambda: parts.settings, {})


async def test_a_reload_that_the_log_refuses_changes_nothing(tmp_path: Path) -> None:
    changes = changes_in(tmp_path / "log")
    parts = changes.parts
    with closing(parts.store):
        before = parts.settings
        moved = ReplicaSetting(name="gpu1", url="http://127.0.0.1:2")
        changes.reread = partial(attrs.evolve, before, replicas=(moved,))
        log, parts.router.log = parts.router.log, FullLog()
        with pytest.raises(JournalFull):
            await changes.read_again("signal")
        assert parts.settings is before
        assert parts.router.state.fleet.replicas["gpu1"].url == "http://127.0.0.1:1"
        assert parts.timings.reloads["rejected"] == 1
        parts.router.log = log
        assert (await changes.read_again("signal")).result == "applied"
        assert parts.router.state.fleet.replicas["gpu1"].url == "http://127.0.0.1:2"


def test_what_the_admin_port_may_not_add(tmp_path: Path) -> None:
    changes = changes_in(tmp_path / "log")
    url = "http://127.0.0.1:2"
    with closing(changes.parts.store):
        for told in (
            {},
            {"url": "ftp://x"},
            {"url": url, "name": "two words"},
            {"url": url, "models": "m"},
            {"url": url, "engine": "ollama"},
            {"url": url, "api_key_env": "AWS_SECRET_ACCESS_KEY"},
            {"url": url, "x": 1},
        ):
            with pytest.raises(BadReplica):
                changes.add(told, "")
        with pytest.raises(ReplicaExists, match="configuration"):
            changes.add({"name": "gpu1", "url": url}, "")
        with pytest.raises(ReplicaExists, match="gpu1 is at"):
            changes.add({"name": "other", "url": "http://127.0.0.1:1/"}, "")
        with pytest.raises(NoSuchReplica):
            changes.remove("nobody", "", now=True)
        assert list(changes.parts.router.state.fleet.replicas) == ["gpu1"]
