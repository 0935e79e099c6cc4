"""A whole data port in one process: router, journal, desk, server; replicas that follow scripts.

Leaving the rig waits for quiet and then reads the log back: one end for each dispatch, nothing in
flight, and the same state and decisions when the log is folded again.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Any

import attrs
import trio

from eventlog.journal import Journal
from eventlog.memory import MemoryStore
from eventlog.store import Store
from tests.listlog import check_sums, refold
from tests.proxy.replies import DONE as DONE
from tests.proxy.replies import chunk as chunk
from tests.proxy.replies import error as error
from tests.proxy.replies import says as says
from tests.proxy.replies import stream_head as stream_head
from tests.proxy.replies import token as token
from tests.proxy.scripted import Replica, Script, replica
from tests.proxy.serving import RawClient, Reply, client, eventually, serving
from tests.rig import settings
from trioroute import events as e
from trioroute.clock import running_clock
from trioroute.observe import Refusals
from trioroute.policy import commands as c
from trioroute.projections import State
from trioroute.projections.digest import digest
from trioroute.proxy.app import proxy_app
from trioroute.proxy.desk import Desk
from trioroute.proxy.door import Door, refusal_body
from trioroute.proxy.serving.limits import ServerLimits
from trioroute.proxy.upstream.upstreams import Upstreams
from trioroute.proxy.watch import Watch
from trioroute.replay.read import Source
from trioroute.replay.verify import verify
from trioroute.router import Router

MODEL = "m"
CHAT = "/v1/chat/completions"
LIMITS = ServerLimits(graceful_timeout_s=5, body_bytes=1 << 20)
SECRET = b"s" * 32
NAMES = "abcdefgh"
NOBODY = "http://127.0.0.1:1"
"""An address that refuses connections."""


@attrs.define
class Whole:
    """The router under test and what surrounds it."""

    router: Router
    journal: Journal
    store: Store
    desk: Desk
    replicas: list[Replica]
    port: int = 0
    shutdown: trio.Event = attrs.field(factory=trio.Event)
    unlogged: int = 0

    def do(self, command: Callable[..., c.Command], **fields: Any) -> tuple[e.Event, ...]:
        return self.router.handle(command(at_ms=self.desk.now_ms(), **fields)).events

    def scrape(self, *names: str) -> None:
        """The named replicas (or all) are found idle of others' requests."""
        state = self.router.state
        self.do(
            c.Observe,
            readings={
                name: e.Reading(
                    running=state.load.of(name).own,
                    waiting=0,
                    kv_m=None,
                    tokens=None,
                    asleep=False,
                    own=state.load.of(name).own,
                    models=None,
                )
                for name in names or tuple(state.fleet.replicas)
            },
        )

    def eject(self, name: str) -> None:
        self.do(c.ObserveFailure, replica=name, cause="refused")

    async def probing(self, name: str) -> None:
        """Eject it and bring it back as far as PROBING; needs a short ``eject.cooldown_ms``."""
        self.eject(name)
        await trio.sleep(0.01)
        self.scrape(name)
        self.scrape(name)
        assert self.standing(name) == "PROBING"

    def standing(self, name: str) -> str:
        return self.router.state.standing(name)

    @property
    def in_flight(self) -> int:
        return len(self.router.state.load.flights)

    def configure(self, **sections: dict[str, Any]) -> None:
        self.do(c.Configure, settings=settings(**sections))

    # What clients do

    async def ask(
        self,
        body: object = None,
        path: str = CHAT,
        method: str = "POST",
        headers: Sequence[str] = (),
    ) -> Reply:
        """One request on its own connection, and its whole answer."""
        async with client(self.port) as raw:
            await raw.send(request(body, path, method, headers))
            return await raw.reply(bodiless=method == "HEAD")

    async def broken(self, body: object = None, path: str = CHAT) -> tuple[Reply, bytes]:
        """A request whose answer ends broken: its head, and what came of its body, unframed."""
        async with client(self.port) as raw:
            await raw.send(request(body, path))
            head = await raw.head()
            return head, await cut_body(raw, head)

    # What the log says

    async def events(self, *kinds: type[Any]) -> list[Any]:
        """All events, or those of some kinds, once everything is durable."""
        await self.journal.durable(self.journal.position)
        found = [e.decode(r.kind, r.schema, r.body) for r in self.rows()]
        return [event for event in found if not kinds or isinstance(event, kinds)]

    def rows(self) -> list[Any]:
        return self.store.read(0, 1_000_000)

    async def ends(self) -> list[Any]:
        """``Failed`` and ``Released`` in order, once nothing is in flight."""
        await self.quiet()
        return await self.events(e.Failed, e.Released)

    async def end(self) -> Any:
        """The one end there is."""
        (only,) = await self.ends()
        return only

    async def released(self) -> Any:
        only = await self.end()
        assert isinstance(only, e.Released), only
        return only

    async def quiet(self) -> None:
        await eventually(lambda: not self.in_flight and not self.desk.in_use)

    async def check(self) -> None:
        """What must hold of any run, whatever happened in it."""
        await self.quiet()
        await self.journal.durable(self.journal.position)
        assert len(self.desk.line) == 0
        assert len(self.desk.watch) == 0
        ends: Counter[int] = Counter()
        dispatched = []
        for record in self.rows():
            event = e.decode(record.kind, record.schema, record.body)
            if isinstance(event, e.Dispatched):
                dispatched.append(record.version)
            elif isinstance(event, e.Failed | e.Released):
                ends[event.dispatch] += 1
        assert ends == Counter(dispatched)
        assert digest(refold(self.rows(), check_decisions=True)) == digest(self.router.state)
        check_sums(self.router.state)
        assert verify(Source(self.store)).difference is None


async def cut_body(raw: RawClient, head: Reply) -> bytes:
    """What came of a body until its end or its cut; fails if it ended as a whole."""
    body = b""
    try:
        if "transfer-encoding" not in head.headers:
            size = int(head.headers["content-length"])
            while len(raw.buffer) < size:
                if not await raw.fill():
                    return raw.buffer
        while "transfer-encoding" in head.headers:
            size = int(await raw.until(b"\r\n"), 16)
            if not size:
                break
            body += await raw.exactly(size)
            await raw.exactly(2)
    except (EOFError, trio.BrokenResourceError):
        return body
    raise AssertionError(f"the answer ended as a whole: {body!r}")


def request(
    body: object = None, path: str = CHAT, method: str = "POST", headers: Sequence[str] = ()
) -> bytes:
    """Raw bytes of a request; ``None`` is a small chat, bytes go as they are, b"" is no body."""
    if body is None:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "host: router.test", *headers]
    if data:
        lines.append(f"content-length: {len(data)}")
        if not any(line.lower().startswith("content-type") for line in lines):
            lines.append("content-type: application/json")
    return "\r\n".join([*lines, "", ""]).encode("utf-8") + data


def chat(**fields: object) -> dict[str, object]:
    return {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], **fields}


def _desk(
    router: Router, journal: Journal, authorizations: dict[str, str], made: Callable[[], Whole]
) -> Desk:
    now_ms = running_clock()

    def refuses(name: str) -> bool:
        health = router.state.health.get(name)
        return health is not None and health.refuses()

    def unlogged() -> None:
        made().unlogged += 1

    draws = count(1)
    return Desk(
        router=router,
        journal=journal,
        now_ms=now_ms,
        draw=lambda: next(draws),
        secret=SECRET,
        upstreams=Upstreams(2.0, {n: key.encode() for n, key in authorizations.items()}),
        watch=Watch(now_ms, lambda: router.state.settings, refuses),
        measure_decision=lambda ns: None,
        measure_overhead=lambda ns: None,
        count_unlogged=unlogged,
        count_refusal=Refusals().note,
    )


@asynccontextmanager
async def whole(
    *scripts: Script,
    models: Sequence[tuple[str, ...]] = (),
    live: bool = True,
    store: Store | None = None,
    threaded: bool = False,
    limits: ServerLimits = LIMITS,
    keys: dict[str, str] | None = None,
    watching: bool = True,
    entries_max: int = 100_000,
    refusing: Sequence[str] = (),
    reading: bool = False,
    pumping: bool = True,
    with_door: bool = False,
    **sections: dict[str, Any],
) -> AsyncIterator[Whole]:
    """Replicas a, b, ... run the scripts; ``models`` are theirs in order, ``("m",)`` for all.

    ``sections`` are settings as in tests/rig.py. ``live``: they were found healthy. Nobody listens
    where the ``refusing`` are said to be. ``with_door``: the server asks for keys before bodies.
    """
    store = store if store is not None else MemoryStore()
    journal = Journal(store, "router/r1", threaded=threaded, max_entries=entries_max)
    router = Router(State(), journal)
    async with AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(replica(script)) for script in scripts]
        rig: Whole
        desk = _desk(router, journal, keys or {}, lambda: rig)
        rig = Whole(router, journal, store, desk, replicas)
        nursery = await stack.enter_async_context(trio.open_nursery())
        await nursery.start(journal.run)
        rig.do(c.Start, router="r1", release="0", rules=1)
        rig.do(c.Configure, settings=settings(**sections))
        for at, made in enumerate(replicas):
            own = models[at] if models else (MODEL,)
            url = NOBODY if NAMES[at] in refusing else made.url
            rig.do(c.Join, replica=NAMES[at], url=url, models=own)
        if live and replicas:
            rig.scrape()
        if watching:
            nursery.start_soon(desk.watch.run)
        if pumping:
            nursery.start_soon(desk.pump.run)
        if reading:
            nursery.start_soon(desk.bodies.run)
        at_door: dict[str, Any] = {}
        if with_door:
            door = Door(desk)
            at_door = {"door": door, "refusal_headers": door.refusal_headers}
            at_door["refusal_body"] = refusal_body
        server = await stack.enter_async_context(serving(proxy_app(desk), limits, **at_door))
        rig.port, rig.shutdown = server.port, server.shutdown
        try:
            yield rig
            await rig.check()
        finally:
            await desk.upstreams.aclose()
            nursery.cancel_scope.cancel()
