"""Discovery in a whole router: real files and scrapes, outages, restarts and reloads."""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.discovery.told import Told
from tests.field.site import Site, site
from tests.field.stub import Stub
from tests.proxy.replies import reply
from tests.proxy.scripted import Peer
from tests.proxy.serving import eventually
from trioroute import events as e
from trioroute.discovery import Discovery, Found, Tell
from trioroute.policy import commands as c
from trioroute.projections import State
from trioroute.settings import FileDiscovery


async def answer(peer: Peer) -> None:
    while await peer.request():
        await peer.send(reply())


@asynccontextmanager
async def listening(stub: Stub) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(stub.run)
        yield
        nursery.cancel_scope.cancel()


async def discovery_in_state(made: Site) -> dict[str, object]:
    found = json.loads((await made.admin("/state")).body)["discovery"]["file"]
    assert isinstance(found, dict)
    return found


async def test_a_listed_replica_serves_and_an_outage_keeps_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found, path = Stub(answer, name="found"), tmp_path / "list.json"
    async with listening(found):
        path.write_text(json.dumps([{"name": "found", "url": found.url}]))
        async with site(tmp_path, caplog, discovery__file__path=str(path)) as made:
            await made.becomes("found", "LIVE")
            assert (await made.ask()).status == 200
            assert (await made.state("found"))["source"] == "discovery"
            told = await discovery_in_state(made)
            assert (told["listed"], told["failing"]) == (1, "")
            path.write_text("[{")
            await eventually(lambda: "the last known replicas stay" in caplog.text)
            assert (await made.ask()).status == 200
            assert "is not JSON" in str((await discovery_in_state(made))["failing"])
            read = await made.metrics()
            assert read["trioroute_discovery_failing", "file"] == 1
            assert read["trioroute_discovery_last_success_timestamp_seconds", "file"] > 1e9
            path.write_text("[]")
            await eventually(lambda: "found" not in made.parts.router.state.fleet.replicas)
    (joined,) = await made.events(e.ReplicaJoined)
    (left,) = await made.events(e.ReplicaLeft)
    assert (joined.source, joined.by, joined.why) == ("discovery", "discovery", "file: listed")
    assert (left.by, left.why) == ("discovery", "file: not listed any more")


async def test_after_a_restart_the_logs_replicas_serve_before_the_first_list(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found, path = Stub(answer, name="found"), tmp_path / "list.json"
    async with listening(found):
        path.write_text(json.dumps([{"name": "found", "url": found.url}]))
        async with site(tmp_path, caplog, discovery__file__path=str(path)) as made:
            await made.becomes("found", "LIVE")
        path.unlink()
        async with site(tmp_path, caplog, discovery__file__path=str(path)) as made:
            await made.becomes("found", "LIVE")
            assert (await made.ask()).status == 200
            path.write_text("[]")
            await eventually(lambda: not made.parts.router.state.fleet.replicas)


class Scripted:
    """A source that tells what a test says."""

    name = "file"

    def __init__(self) -> None:
        self.tell: Tell = Told()
        self.runs = 0

    async def watch(self, tell: Tell) -> None:
        self.tell = tell
        self.runs += 1
        try:
            await trio.sleep_forever()
        finally:
            self.runs -= 1


async def test_sources_come_and_go_with_a_reload_and_take_their_replicas_along(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    state = State()
    sources = {"1": Scripted(), "2": Scripted()}
    asked: list[c.Command] = []
    discovery = Discovery(
        state=lambda: state,
        now_ms=lambda: 5,
        handle=asked.extend,
        make=lambda setting: sources[getattr(setting, "path", "")],
    )
    discovery.renew([FileDiscovery("1")])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(discovery.run)
        await eventually(lambda: sources["1"].runs)
        sources["1"].tell.found([Found(name=f"r{n}", url=f"http://a:{n + 1}") for n in range(1001)])
        assert asked == []
        assert "more than 1000 are not believed" in discovery.standings["file"].failing
        sources["1"].tell.found([Found(name="a", url="http://a:1")])
        assert [type(one) for one in asked] == [c.Join]
        discovery.renew([FileDiscovery("2")])
        await eventually(lambda: not sources["1"].runs and sources["2"].runs)
        assert discovery.standings["file"].last_success_ms == 0
        nursery.cancel_scope.cancel()
    assert caplog.text.count("not believed") == 1
