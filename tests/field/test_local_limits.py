"""The router's own limits are not the replicas' fault (group C)."""

from collections import Counter
from contextlib import closing
from pathlib import Path

import trio

from eventlog.sqlite import SqliteReader
from tests.field.process import router_process, stop
from tests.field.stub import Stub
from tests.proxy.replies import reply
from tests.proxy.scripted import Peer
from tests.proxy.serving import client
from tests.proxy.whole import request
from trioroute import events as e
from trioroute.replay.read import Source

FEW_FILES = ("sh", "-c", 'ulimit -n 256 && exec "$0" "$@"')
AT_ONCE = 1000
PATIENT = {"scrape_timeout": "60s", "timeouts_connect": "60s"}
"""The replicas live in the process of the thousand clients: slow to answer it may well be."""


async def slow(peer: Peer) -> None:
    """Long enough that the requests of a burst meet."""
    while await peer.request():
        await trio.sleep(0.2)
        await peer.send(reply())


async def ask(port: int) -> tuple[int, bytes]:
    """The status, 0 for a connection that got no answer, and the body."""
    try:
        async with client(port) as raw:
            await raw.send(request())
            answer = await raw.reply()
            return answer.status, answer.body
    except (OSError, EOFError, trio.BrokenResourceError):
        return 0, b""


async def asked_at_once(port: int, count: int) -> list[tuple[int, bytes]]:
    got: list[tuple[int, bytes]] = []

    async def one() -> None:
        got.append(await ask(port))

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(one)
    return got


async def test_local_exhaustion_blamed_on_replicas(tmp_path: Path) -> None:
    """1000 at once where 256 files may be open."""
    stubs = [Stub(slow) for _ in range(3)]
    async with router_process(tmp_path, *stubs, under=FEW_FILES, settings=PATIENT) as router:
        got = await asked_at_once(router.port, AT_ONCE)
        statuses = Counter(status for status, _ in got)
        assert set(statuses) == {200, 503}, statuses
        assert statuses[200] >= 50, statuses
        assert all(b'"overloaded"' in body for status, body in got if status == 503)
        for _ in range(5):
            assert {status for status, _ in await asked_at_once(router.port, 20)} == {200}
        assert await stop(router) == 0
        with closing(SqliteReader.open(router.log)) as reader:
            source = Source(reader)
            events = [source.event(record) for record in source.records()]
        assert not [event for event in events if isinstance(event, e.Ejected)]
        failed = [event for event in events if isinstance(event, e.Failed)]
        assert not [event for event in failed if event.blame == "replica"], failed
