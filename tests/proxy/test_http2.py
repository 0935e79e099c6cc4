"""HTTP/2 connections under a client that resets, stalls, leaves, and at a shutdown."""

import attrs
import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings
import pytest
import trio
from hyperframe.frame import HeadersFrame

from tests.certificates import Pair
from tests.proxy.asker import asking, stuck
from tests.proxy.serving import Endless, chunk, eventually, port_tls, serving, start
from trioroute.proxy.serving.asgi import BrokenEnding, Receive, Scope, Send
from trioroute.proxy.serving.hangup import client_gone
from trioroute.proxy.serving.limits import ServerLimits


@attrs.define
class Shelf:
    """/big streams without end, /whole/... answers at once with a header of its own."""

    ends: list[tuple[str, bool]] = attrs.field(factory=list)
    begun: int = 0
    held: trio.Event | None = None

    def hold(self) -> None:
        """Answers wait until ``let_go``."""
        self.held = trio.Event()

    def let_go(self) -> None:
        assert self.held is not None
        self.held.set()

    async def reaches(self, number: int) -> None:
        await eventually(lambda: self.begun == number)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        self.begun += 1
        try:
            if self.held is not None:
                await self.held.wait()
            headers = [(b"x-path", path.encode()), (b"x-new", path.encode() * 3)]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while path == "/big":
                await chunk(send, b"x" * 60_000)
            await chunk(send, path.encode() * 3, more=False)
        finally:
            self.ends.append((path, client_gone(scope)))


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_a_reset_request_takes_nothing_of_the_answers_behind_it(
    certificate: Pair, tls: bool
) -> None:
    """Heads are written in terms of those before (RFC 7541): one that is lost garbles the rest."""
    pair = certificate if tls else None
    shelf = Shelf()
    terms = port_tls(certificate) if tls else None
    async with serving(shelf, tls=terms) as server, asking(server, pair=pair) as asker:
        await asker.ask("/first")
        await asker.read_whole(1)
        await stuck(asker)
        for n in range(3):
            lost = await asker.ask(f"/lost/{n}")
            await shelf.reaches(3 + n)
            await trio.sleep(0.05)
            await asker.reset(lost)
        await eventually(lambda: [path for path, _ in shelf.ends].count("/lost/2") == 1)
        kept = [await asker.ask(f"/kept/{n}") for n in range(3)]
        await asker.read_whole(*kept)
        for n, stream in enumerate(kept):
            assert asker.heads[stream]["x-path"] == f"/kept/{n}"
            assert asker.heads[stream]["x-new"] == f"/kept/{n}" * 3
            assert asker.bodies[stream] == f"/kept/{n}".encode() * 3


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_a_shutdown_does_not_wait_longer_for_a_client_that_takes_nothing(
    certificate: Pair, tls: bool
) -> None:
    pair = certificate if tls else None
    shelf = Shelf()
    terms = port_tls(certificate) if tls else None
    limits = ServerLimits(graceful_timeout_s=0.5, client_stall_ms=60_000)
    async with serving(shelf, limits, tls=terms) as server, asking(server, pair=pair) as asker:
        await stuck(asker)
        await asker.ask("/behind")
        await shelf.reaches(2)
        server.shutdown.set()
        with trio.fail_after(40):
            await server.stopped.wait()
    assert sorted(shelf.ends) == [("/behind", False), ("/big", False)]


async def test_a_cancelled_server_ends_at_once_under_a_client_that_takes_nothing() -> None:
    shelf = Shelf()
    limits = ServerLimits(graceful_timeout_s=60, client_stall_ms=60_000)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            async with serving(shelf, limits) as server, asking(server) as asker:
                await stuck(asker)
                await asker.ask("/behind")
                await shelf.reaches(2)
            nursery.cancel_scope.cancel()
    assert sorted(shelf.ends) == [("/behind", False), ("/big", False)]


async def test_a_client_that_takes_nothing_is_given_up_at_client_stall() -> None:
    shelf = Shelf()
    limits = ServerLimits(client_stall_ms=300)
    async with serving(shelf, limits) as server, asking(server) as asker:
        await asker.ask("/big")
        await eventually(lambda: shelf.ends == [("/big", True)])
        server.shutdown.set()
        with trio.fail_after(20):
            await server.stopped.wait()


@pytest.mark.parametrize("path", ["/whole", "/big"])
async def test_an_answer_without_window_is_given_up_at_client_stall(path: str) -> None:
    shelf = Shelf()
    limits = ServerLimits(client_stall_ms=300)
    async with serving(shelf, limits) as server, asking(server, window=10) as asker:
        stream = await asker.ask(path)
        await eventually(lambda: shelf.ends == [(path, True)])
        await asker.read(lambda: stream in asker.broken)
        assert stream not in asker.whole
        server.shutdown.set()
        with trio.fail_after(20):
            await server.stopped.wait()


async def test_an_answer_without_window_that_the_application_gives_up_is_reset() -> None:
    """Whole answers wait in a buffer, and would leave it when the log says that they never did."""

    async def gives_up(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        with trio.move_on_after(0.1):
            await chunk(send, b"x" * 100, more=False)
        raise BrokenEnding

    async with serving(gives_up) as server, asking(server, window=10) as asker:
        asked = [await asker.ask(f"/{number}") for number in range(100)]
        await asker.read(lambda: asker.broken.keys() >= set(asked))
        beyond = await asker.ask("/beyond")
        await asker.read(lambda: beyond in asker.broken)
        assert set(asker.broken.values()) == {h2.errors.ErrorCodes.INTERNAL_ERROR}
        assert not asker.whole


async def test_what_waits_for_a_window_is_bounded() -> None:
    """A replica is read no faster than its client reads."""
    app = Endless()
    async with serving(app) as server, asking(server, window=10) as asker:
        stream = await asker.ask("/")
        for _ in range(20):
            await asker.read(lambda: stream in asker.bodies)
            del asker.bodies[stream]
            asker.h2.increment_flow_control_window(10, stream)
            await asker.raw.send(asker.h2.data_to_send())
        await trio.sleep(0.2)
        assert app.taken < 100_000


async def test_a_client_that_closes_while_much_waits_for_it_is_gone_and_no_shutdown() -> None:
    shelf = Shelf()
    async with serving(shelf) as server:
        for _ in range(5):
            async with asking(server) as asker:
                await stuck(asker)
                await asker.ask("/behind")
                await trio.sleep(0.05)
        await eventually(lambda: len(shelf.ends) == 10)
    assert all(gone for _, gone in shelf.ends)


@pytest.mark.parametrize("twice", [False, True], ids=["resets", "asks twice"])
async def test_who_cancels_a_request_and_closes_at_once_is_gone_and_no_shutdown(
    twice: bool,
) -> None:
    """Also when the end of the connection comes in the middle of what its frames do."""
    shelf = Shelf(held=trio.Event())
    async with serving(shelf) as server:
        for number in range(30):
            async with asking(server) as asker:
                stream = await asker.ask("/lost")
                await shelf.reaches(number + 1)
                if twice:
                    again = HeadersFrame(stream, data=b"", flags=["END_HEADERS", "END_STREAM"])
                    asker.say_and_close(again.serialize())
                else:
                    asker.h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
                    asker.say_and_close(asker.h2.data_to_send())
        await eventually(lambda: len(shelf.ends) == 30)
    assert all(gone for _, gone in shelf.ends)


async def test_answers_at_the_end_of_a_shutdown_are_whole() -> None:
    for _ in range(10):
        shelf = Shelf(held=trio.Event())
        assert shelf.held is not None
        async with serving(shelf, ServerLimits(graceful_timeout_s=10)) as server:
            async with asking(server) as asker:
                streams = {await asker.ask(f"/{n}") for n in range(8)}
                await shelf.reaches(8)
                server.shutdown.set()
                await trio.sleep(0.01)
                shelf.held.set()
                await asker.read(lambda: False)
            assert asker.whole == streams
            assert {asker.bodies[stream] for stream in streams} == {
                f"/{n}".encode() * 3 for n in range(8)
            }


async def test_a_shutdown_that_ends_a_request_makes_up_no_answer() -> None:
    shelf = Shelf(held=trio.Event())
    async with serving(shelf, ServerLimits(graceful_timeout_s=0.2)) as server:
        async with asking(server) as asker:
            for number in range(4):
                await asker.ask(f"/{number}")
            await shelf.reaches(4)
            server.shutdown.set()
            await asker.read(lambda: False)
    assert not asker.heads


async def test_a_request_behind_a_shutdown_may_be_sent_elsewhere() -> None:
    """REFUSED_STREAM says that nothing was done for it (RFC 9113 section 8.7)."""
    shelf = Shelf(held=trio.Event())
    assert shelf.held is not None
    async with serving(shelf, ServerLimits(graceful_timeout_s=10)) as server:
        async with asking(server) as asker:
            begun = await asker.ask("/begun")
            await shelf.reaches(1)
            server.shutdown.set()
            await trio.sleep(0.05)
            late = await asker.ask("/late")
            await asker.read(lambda: late in asker.broken)
            shelf.held.set()
            await asker.read_whole(begun)
    assert asker.broken == {late: h2.errors.ErrorCodes.REFUSED_STREAM}
    assert shelf.begun == 1


async def test_an_idle_connection_is_told_of_a_shutdown() -> None:
    shelf = Shelf()
    async with serving(shelf) as server, asking(server) as asker:
        await asker.ask("/first")
        await asker.read_whole(1)
        server.shutdown.set()
        await asker.read(lambda: False)
        assert asker.h2.farewells[-1] == (1, h2.errors.ErrorCodes.NO_ERROR)


async def test_a_slow_reader_gets_its_answer_while_others_stand() -> None:
    """The end of a body is behind its last byte, whatever the window does."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        for _ in range(3):
            await chunk(send, b"x" * 50)
        await chunk(send, b"", more=False)

    async with serving(app) as server, asking(server, window=10) as asker:
        stream = await asker.ask("/")
        told = 0

        def more() -> bool:
            return stream in asker.whole or len(asker.bodies.get(stream, b"")) > told

        while stream not in asker.whole:
            await asker.read(more)
            told = len(asker.bodies[stream])
            if stream not in asker.whole:
                asker.h2.increment_flow_control_window(10, stream)
                await asker.raw.send(asker.h2.data_to_send())
        assert asker.bodies[stream] == b"x" * 150
