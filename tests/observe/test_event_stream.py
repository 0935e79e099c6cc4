"""The log as a stream: in order, from memory or the log; no watcher costs more than a page."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, cast

import attrs
import pytest
import trio
import trio.testing
from hypercorn.typing import ASGIFramework, ASGIReceiveCallable, ASGISendCallable, Scope

from eventlog.errors import StoreFailed
from tests.observe.rig import T0_MS, Rig
from trioroute.observe import Feed, Seen, event_stream
from trioroute.observe.answer import Answer
from trioroute.observe.event_stream import TAKES_AT_MOST_S, WATCHERS_MAX, EventStream, StreamDesk
from trioroute.observe.feed import BODY_MAX, MEMORY_EVENTS, PAGE_BYTES, PAGE_EVENTS
from trioroute.policy.commands import Drain
from trioroute.proxy.serving.asgi import ASGIApp, BrokenEnding
from trioroute.proxy.serving.limits import ServerLimits
from trioroute.proxy.serving.server import serve_http


def blocks(page: bytes) -> list[dict[str, Any]]:
    """Server-sent events as a client reads them: fields, ``data`` as JSON."""
    found = []
    for block in page.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        fields: dict[str, Any] = dict(line.split(": ", 1) for line in lines)
        if "data" in fields:
            fields["data"] = json.loads(fields["data"])
        if fields:
            found.append(fields)
    return found


async def told(feed: Feed, after: int, count: int, *kinds: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with trio.fail_after(20):
        async with aclosing(feed.pages(after, kinds)) as pages:
            async for page in pages:
                found += [block for block in blocks(page) if "data" in block]
                if len(found) >= count:
                    break
    return found


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_each_event_is_told_once_in_order_with_its_version_as_id(rig: Rig) -> None:
    feed = rig.feed()
    rig.live("a", "b")
    for _ in range(5):
        rig.finish(rig.arrive())
    durable = rig.log.durable_position
    found = await told(feed, 0, durable)
    assert [one["id"] for one in found] == [str(n) for n in range(1, durable + 1)]
    assert [one["data"]["version"] for one in found] == [*range(1, durable + 1)]
    kinds = [entry.kind for entry in rig.log.taken[:durable]]
    assert [one["data"]["kind"] for one in found] == kinds
    dispatched = next(one["data"] for one in found if one["data"]["kind"] == "Dispatched")
    assert dispatched["body"]["replica"] in ("a", "b")
    assert dispatched["at_ms"] == rig.now_ms


async def test_what_is_not_committed_is_not_told(
    rig: Rig, autojump_clock: trio.testing.MockClock
) -> None:
    feed = rig.feed()
    rig.live("a")
    position = rig.log.position
    async with aclosing(feed.pages(position - 4, ())) as pages:
        first = blocks(await anext(pages))
        assert [one["id"] for one in first] == [str(position - 3)]
        assert blocks(await anext(pages)) == [
            {"event": "now", "id": str(position - 3), "data": {"from_ms": T0_MS}}
        ], "what comes from here on is new"
        assert blocks(await anext(pages)) == [{"id": str(position - 3)}], "a beat, nothing new"


def reads_of(rig: Rig, feed: Feed) -> list[int]:
    """Behind which event the feed reads the log, each time that it does from now on."""
    asked: list[int] = []

    def past(after: int, limit: int) -> list[Seen]:
        asked.append(after)
        return rig.past(after, limit)

    feed.past = past
    return asked


async def test_events_before_the_memory_come_from_the_log(rig: Rig) -> None:
    rig.live("a")
    feed = rig.feed()
    asked = reads_of(rig, feed)
    for _ in range(MEMORY_EVENTS):
        rig.arrive()
    found = await told(feed, 0, rig.log.durable_position)
    assert [one["data"]["version"] for one in found] == [*range(1, rig.log.durable_position + 1)]
    assert asked
    assert max(asked) < rig.log.position - MEMORY_EVENTS + PAGE_EVENTS, "the rest was in memory"


async def test_only_the_kinds_asked_for_are_told_and_the_id_moves_on_all_the_same(
    rig: Rig, autojump_clock: trio.testing.MockClock
) -> None:
    feed = rig.feed()
    rig.live("a")
    rig.scrape()
    async with aclosing(feed.pages(0, {"Started"})) as pages:
        assert [one["data"]["kind"] for one in blocks(await anext(pages))] == ["Started"]
        there = str(rig.log.durable_position)
        assert blocks(await anext(pages)) == [
            {"event": "now", "id": there, "data": {"from_ms": T0_MS}}
        ]
        assert blocks(await anext(pages)) == [{"id": there}], "and not said twice"


async def test_a_few_kinds_of_a_long_past_come_in_few_reads_and_none_is_missed(rig: Rig) -> None:
    rig.live("a")
    feed = rig.feed()
    asked = reads_of(rig, feed)
    for _ in range(3):
        for _ in range(2 * PAGE_EVENTS):
            rig.handle(Drain, replica="a", on=True)
            rig.handle(Drain, replica="a", on=False)
        for _ in range(MEMORY_EVENTS // 2):
            rig.finish(rig.arrive())
    drains = [n for n, one in enumerate(rig.log.taken, 1) if one.kind == "Draining"]
    found = await told(feed, 0, len(drains), "Draining")
    assert [one["data"]["version"] for one in found] == drains
    assert len(asked) < rig.log.position / PAGE_EVENTS / 2


async def test_a_deleted_past_is_told_as_a_gap(rig: Rig) -> None:
    rig.live("a", "b", "c", "d")
    feed = rig.feed()
    feed.past = lambda after, limit: rig.past(max(after, 3), limit)
    found = await told(feed, 1, 2)
    assert found[0]["event"] == "gap"
    assert found[0]["data"] == {"from": 2, "to": 3}
    assert found[1]["data"]["version"] == 4


async def test_a_watcher_of_another_log_is_told_to_begin_anew(rig: Rig) -> None:
    feed = rig.feed()
    rig.live("a")
    found = await told(feed, 10_000, 2)
    assert found[0]["event"] == "reset"
    assert found[1]["data"]["version"] == 1


async def test_a_page_is_bounded_and_a_huge_body_is_told_by_its_size(rig: Rig) -> None:
    rig.live("a", *(f"r{n}" for n in range(20)))
    feed = rig.feed()
    size = BODY_MAX - 1

    def past(after: int, limit: int) -> list[Seen]:
        body = json.dumps("x" * (size - 2)).encode()
        huge = json.dumps("x" * BODY_MAX).encode()
        return [Seen(n, 1, "Gap", huge if n == 1 else body) for n in range(after + 1, after + 10)]

    feed.past = past
    async with aclosing(feed.pages(0, ())) as pages:
        page = await anext(pages)
    assert blocks(page)[0]["data"]["body"] == {"omitted_bytes": BODY_MAX + 2}
    assert len(page) < PAGE_BYTES + 1000


@attrs.define
class Reader:
    """An ASGI ``send`` that stops taking bytes after ``takes`` messages."""

    takes: int = 10**9
    taken: list[bytes] = attrs.field(factory=list)
    ended: bool = False

    async def __call__(self, message: Any) -> None:
        if len(self.taken) >= self.takes:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        self.taken.append(message["body"])
        self.ended = not message["more_body"]


def opened(desk: StreamDesk, query: bytes = b"", *last: bytes) -> EventStream:
    found = desk.open([(b"last-event-id", value) for value in last], query)
    assert isinstance(found, EventStream)
    return found


async def test_a_watcher_that_takes_nothing_is_let_go(
    rig: Rig, autojump_clock: trio.testing.MockClock
) -> None:
    desk = StreamDesk(rig.feed())
    rig.live("a")
    reader = Reader(takes=1)
    started = trio.current_time()
    with pytest.raises(event_stream.WatcherLetGo):
        await opened(desk, b"since=0").run(reader)
    assert TAKES_AT_MOST_S <= trio.current_time() - started < TAKES_AT_MOST_S + 5
    assert desk.watching == 0
    assert not reader.ended, "a cut stream never looks whole"


async def test_a_log_that_cannot_be_read_ends_the_stream(rig: Rig) -> None:
    rig.live("a")
    desk = StreamDesk(rig.feed())

    def past(after: int, limit: int) -> list[Seen]:
        raise StoreFailed("log-1.sqlite", "disk I/O error")

    desk.feed.past = past
    reader = Reader()
    await opened(desk, b"since=0").run(reader)
    assert reader.ended
    assert desk.watching == 0


@asynccontextmanager
async def watching(desk: StreamDesk, count: int) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(opened(desk).run, Reader())
        await trio.testing.wait_all_tasks_blocked()
        assert desk.watching == count
        yield
        nursery.cancel_scope.cancel()


async def test_one_watcher_too_many_is_refused_and_a_place_comes_free(rig: Rig) -> None:
    desk = StreamDesk(rig.feed())
    async with watching(desk, WATCHERS_MAX):
        refused = desk.open([], b"")
        assert isinstance(refused, Answer)
        assert refused.status == 503
        assert b"too_many_watchers" in refused.body
        assert (b"retry-after", b"5") in refused.headers
    assert desk.watching == 0
    opened(desk)


def test_the_id_a_browser_saw_last_wins_over_since(rig: Rig) -> None:
    desk = StreamDesk(rig.feed())
    rig.live("a")
    assert opened(desk, b"since=1").after == 1
    assert opened(desk, b"since=1", b"3").after == 3
    assert opened(desk).after == rig.log.durable_position, "from now on"
    assert opened(desk, b"kinds=Ejected,Live&kinds=Probing").kinds == {"Ejected", "Live", "Probing"}


@pytest.mark.parametrize("query", [b"since=x", b"since=-1", b"since=", b"kinds=Nothing"])
def test_a_bad_question_is_400_and_says_what_to_ask(rig: Rig, query: bytes) -> None:
    refused = StreamDesk(rig.feed()).open([], query)
    assert isinstance(refused, Answer)
    assert refused.status == 400
    assert b"such as 42" in refused.body or b"there are: " in refused.body


@asynccontextmanager
async def served(app: ASGIFramework) -> AsyncIterator[int]:
    """The port of the server that ``serve`` uses."""
    async with trio.open_nursery() as nursery:
        serve = partial(serve_http, cast("ASGIApp", app), ["127.0.0.1:0"], ServerLimits())
        bound = await nursery.start(partial(serve, shutdown=trio.Event()))
        yield bound[0][1]
        nursery.cancel_scope.cancel()


async def until(check: Callable[[], bool]) -> None:
    with trio.fail_after(20):
        while not check():  # noqa: ASYNC110 - what the far end does sets no event here
            await trio.sleep(0.01)


def streaming(desk: StreamDesk, query: bytes) -> ASGIFramework:
    async def app(_: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await receive()
        stream = opened(desk, query)
        head = stream.answer.head(endless=True)
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await stream.run(send)

    return app


async def test_a_real_client_that_reads_nothing_is_let_go(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_stream, "TAKES_AT_MOST_S", 0.3)
    rig.live("a")
    desk = StreamDesk(rig.feed(), broken=BrokenEnding)
    body = json.dumps("x" * (BODY_MAX - 2)).encode()
    desk.feed.past = lambda after, _: [Seen(after + 1, 1, "Gap", body)]
    rig.log.taken *= 200  # more than sockets hold
    async with served(streaming(desk, b"since=0")) as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            await until(lambda: desk.watching == 1)
            await until(lambda: desk.watching == 0)
    assert not caplog.records, "it is let go on purpose"


async def test_a_watcher_that_leaves_frees_its_place_at_once(rig: Rig) -> None:
    rig.live("a")
    desk = StreamDesk(rig.feed())
    async with served(streaming(desk, b"")) as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert b"200 OK" in await stream.receive_some()
            assert desk.watching == 1
        await until(lambda: desk.watching == 0)
