"""A whole router as ``trioroute serve`` runs it, over stubs, looked at from outside only.

Its data port, admin port, scrapes and log on disk are real. Leaving it makes the standing checks:
the router lives, nothing is in flight at quiet, each dispatch has one end, the log folds to the
state that ran and verifies, no error was logged, and no canary is anywhere.
"""

import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from eventlog.sqlite import SqliteReader
from tests.field.stub import MODEL, Stub
from tests.listlog import refold
from tests.loop_time import HELD_UP
from tests.proxy.serving import RawClient, Reply, client, eventually
from tests.proxy.whole import CHAT, cut_body, request
from trioroute import events as e
from trioroute import serve
from trioroute.assembly import Parts, assemble, open_log
from trioroute.projections.digest import digest
from trioroute.replay.read import Source
from trioroute.replay.verify import verify
from trioroute.settings import Settings, load

NAMES = "abcdefgh"
CANARY = "canary-7f3a"
"""In every prompt, key, cookie and query of these tests; nothing may keep it."""
TOLD_AS_ERRORS = {"trioroute.health"}
"""Loggers that tell operators of the fleet's trouble, not of the router's own faults."""
SECRET_HEADERS = (
    f"authorization: Bearer {CANARY}-key",
    f"cookie: session={CANARY}-cookie",
)
QUICK = {
    "scrape.interval": "100ms",
    "scrape.timeout": "2s",
    "scrape.stale_after": 50,
    "server.graceful_timeout": "5s",
    "log.sync": "normal",
}


def prompt(text: str = "hi", **fields: object) -> dict[str, object]:
    """A chat with a canary in it."""
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": f"{CANARY} {text}"}],
        **fields,
    }


STREAMED = prompt(stream=True)


@attrs.define
class Site:
    """The router and its stubs, by name a, b, ..."""

    parts: Parts
    stubs: dict[str, Stub]
    port: int
    admin_port: int
    log: Path
    caplog: pytest.LogCaptureFixture
    nursery: trio.Nursery
    _new_page_s: float = 0
    """When the router makes another metrics page: it keeps one for a second."""

    async def start(self, name: str) -> None:
        """A stub that was stopped listens again."""
        await self.nursery.start(self.stubs[name].run)

    # What clients do

    def connect(self) -> Any:
        return client(self.port)

    async def ask(
        self,
        body: object = None,
        path: str = CHAT,
        method: str = "POST",
        headers: Sequence[str] = (),
    ) -> Reply:
        """One request on its own connection, and its whole answer."""
        async with client(self.port) as raw:
            await self.send(raw, body, path, method, headers)
            return await raw.reply(bodiless=method == "HEAD")

    async def send(
        self,
        raw: RawClient,
        body: object = None,
        path: str = CHAT,
        method: str = "POST",
        headers: Sequence[str] = (),
    ) -> None:
        body = prompt() if body is None else body
        await raw.send(request(body, path, method, [*SECRET_HEADERS, *headers]))

    async def broken(self, body: object = STREAMED, path: str = CHAT) -> tuple[Reply, bytes]:
        """A request whose answer ends broken: its head and what came of its body."""
        async with client(self.port) as raw:
            await self.send(raw, body, path)
            head = await raw.head()
            return head, await cut_body(raw, head)

    # What operators see

    async def admin(self, path: str, method: str = "GET") -> Reply:
        async with client(self.admin_port) as raw:
            await raw.send(request(b"", path, method).replace(b"router.test", b"localhost"))
            reply = await raw.reply()
        if path == "/metrics":
            self._new_page_s = trio.current_time() + 1.05
        return reply

    async def state(self, name: str) -> dict[str, Any]:
        """The replica's part of ``/state``."""
        found = json.loads((await self.admin("/state")).body)["replicas"]
        return next(one for one in found if one["name"] == name)

    async def standing(self, name: str) -> str:
        return str((await self.state(name))["state"])

    async def becomes(self, name: str, standing: str, within_s: float = 40) -> None:
        async def there() -> bool:
            return await self.standing(name) == standing

        await _poll(there, within_s)

    async def in_flight(self) -> list[int]:
        found = json.loads((await self.admin("/state")).body)["replicas"]
        return [one["in_flight"] for one in found]

    async def quiet(self) -> None:
        """Nothing is in flight, as ``/state`` tells it."""

        async def idle() -> bool:
            return not any(await self.in_flight())

        await _poll(idle, 5)

    async def metrics(self) -> Counter[tuple[str, ...]]:
        """Every sample: its name and its label values in the order of their names."""
        await trio.sleep_until(self._new_page_s)
        page = (await self.admin("/metrics")).body.decode()
        return Counter(
            {
                (one.name, *(one.labels[key] for key in sorted(one.labels))): one.value
                for family in text_string_to_metric_families(page)
                for one in family.samples
            }
        )

    # What the log says

    async def events(self, *kinds: type[Any]) -> list[Any]:
        """All events, or those of some kinds, once everything is on disk."""
        await self.parts.journal.durable(self.parts.journal.position)
        found = [e.decode(row.kind, row.schema, row.body) for row in self.rows()]
        return [event for event in found if not kinds or isinstance(event, kinds)]

    def rows(self) -> list[Any]:
        with closing(SqliteReader.open(self.log)) as reader:
            return list(Source(reader).records())

    async def ends(self) -> list[Any]:
        """``Failed`` and ``Released`` in order, once nothing is in flight."""
        await self.quiet()
        return await self.events(e.Failed, e.Released)

    async def outcomes(self) -> list[str]:
        return [one.outcome for one in await self.ends() if isinstance(one, e.Released)]

    async def released(self) -> Any:
        (only,) = await self.ends()
        assert isinstance(only, e.Released), only
        return only

    # The standing checks

    async def check_running(self) -> None:
        assert (await self.admin("/healthz")).status == 200
        await self.quiet()
        for path in ("/metrics", "/state"):
            assert CANARY.encode() not in (await self.admin(path)).body

    def check_ended(self) -> None:
        rows = self.rows()
        ends: Counter[int] = Counter()
        dispatched = []
        for row in rows:
            event = e.decode(row.kind, row.schema, row.body)
            if isinstance(event, e.Dispatched):
                dispatched.append(row.version)
            elif isinstance(event, e.Failed | e.Released):
                ends[event.dispatch] += 1
        assert ends == Counter(dispatched)
        assert digest(refold(rows, check_decisions=True)) == digest(self.parts.router.state)
        with closing(SqliteReader.open(self.log)) as reader:
            assert verify(Source(reader)).difference is None
        for path in self.log.rglob("*"):
            assert path.is_dir() or CANARY.encode() not in path.read_bytes(), path
        faults = [
            one.getMessage()
            for one in self.caplog.records
            if one.exc_info or (one.levelno >= logging.ERROR and one.name not in TOLD_AS_ERRORS)
            if HELD_UP not in one.getMessage()
        ]
        assert not faults, faults
        assert "Traceback" not in self.caplog.text
        assert CANARY not in self.caplog.text


OpenSite = Callable[..., Any]


@asynccontextmanager
async def site(
    directory: Path,
    caplog: pytest.LogCaptureFixture,
    *stubs: Stub,
    environ: dict[str, str] | None = None,
    live: bool = True,
    **settings: object,
) -> AsyncIterator[Site]:
    """Run a router over the stubs; ``settings`` are keys with ``__`` for the dot.

    ``live``: all stubs are LIVE before it is entered.
    """
    caplog.set_level(logging.INFO)
    environ = environ or {}
    async with AsyncExitStack() as stack:
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        # What pytest holds is not the router's to look through and to freeze, nor are its threads.
        patched.setattr(serve, "_settle_process", lambda: None)
        nursery = await stack.enter_async_context(trio.open_nursery())
        for name, stub in zip(NAMES, stubs, strict=False):
            stub.name = name
            await nursery.start(stub.run)
        loaded = _settings(directory, stubs, environ, settings)
        store = stack.enter_context(closing(open_log(loaded.in_force)))
        parts = assemble(loaded, store, environ)
        ports: list[int] = []
        stopped = trio.Event()

        async def router() -> None:
            try:
                await serve.run(parts, environ, lambda *urls: ports.extend(map(_port, urls)))
            finally:
                stopped.set()

        nursery.start_soon(router)
        await eventually(lambda: ports)
        by_name = {stub.name: stub for stub in stubs}
        log = directory / "log"
        made = Site(parts, by_name, ports[0], ports[1], log, caplog, nursery)
        try:
            if live:
                for stub in stubs:
                    await made.becomes(stub.name, "LIVE")
            yield made
            await made.check_running()
            parts.desk.stopping = True
            parts.shutdown.set()
            with trio.fail_after(40):
                await stopped.wait()
            made.check_ended()
        finally:
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True), trio.move_on_after(40):
                await stopped.wait()  # the log is closed behind it


def _settings(
    directory: Path, stubs: Sequence[Stub], environ: dict[str, str], chosen: dict[str, object]
) -> Settings:
    overrides: dict[str, object] = {
        **QUICK,
        **{key.replace("__", "."): value for key, value in chosen.items()},
        "server.listen": "127.0.0.1:0",
        "server.admin": "127.0.0.1:0",
        "log.path": str(directory / "log"),
        "replicas": tuple(f"{stub.name}={stub.url}" for stub in stubs),
    }
    loaded = load(None, environ=environ, overrides=overrides)
    with_keys = [
        attrs.evolve(replica, api_key_env=stub.key_env)
        for replica, stub in zip(loaded.replicas, stubs, strict=True)
    ]
    return attrs.evolve(loaded, replicas=tuple(with_keys))


async def _poll(check: Callable[[], Awaitable[bool]], within_s: float) -> None:
    with trio.fail_after(within_s):
        while True:
            if await check():
                return
            await trio.sleep(0.02)


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])
