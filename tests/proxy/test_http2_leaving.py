"""HTTP/2: how the two part in order, by GOAWAY (RFC 9113 section 6.8)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import h2.errors
import httpx
import pytest
import trio
from hyperframe.frame import GoAwayFrame, HeadersFrame, RstStreamFrame
from trio.testing import wait_all_tasks_blocked

from tests.certificates import Pair
from tests.proxy.asker import Asker, asking
from tests.proxy.serving import PATIENCE_S, Serving, eventually, port_tls, serving
from tests.proxy.test_http2 import Shelf
from trioroute.proxy.serving import http2
from trioroute.proxy.serving.http2_state import LAST_OF_ALL
from trioroute.proxy.serving.limits import ServerLimits
from trioroute.proxy.serving.parting import Parting
from trioroute.proxy.serving.wire import READ_BYTES, Wire

NO_ERROR, INTERNAL_ERROR = h2.errors.ErrorCodes.NO_ERROR, h2.errors.ErrorCodes.INTERNAL_ERROR


def goaway(code: int = NO_ERROR) -> bytes:
    return GoAwayFrame(0, last_stream_id=0, error_code=code).serialize()


@attrs.frozen
class Draining:
    """A connection to a server that will drain, which had a request already."""

    server: Serving
    shelf: Shelf
    drain: trio.Event
    asker: Asker
    first: int

    async def begin(self) -> None:
        """The server knows when this returns: what is asked then comes behind it."""
        self.drain.set()
        await wait_all_tasks_blocked()


@asynccontextmanager
async def to_drain(*, held: bool) -> AsyncIterator[Draining]:
    """``held``: the first request runs, as those behind it will, until the shelf lets go."""
    shelf, drain = Shelf(), trio.Event()
    if held:
        shelf.hold()
    async with serving(shelf, drain=drain) as server, asking(server) as asker:
        first = await asker.ask("/first")
        await shelf.reaches(1)
        if not held:
            await asker.read_whole(first)
        yield Draining(server, shelf, drain, asker, first)


async def test_a_client_that_leaves_gets_what_it_asked_for_first() -> None:
    shelf = Shelf()
    shelf.hold()
    async with serving(shelf) as server, asking(server) as asker:
        asked = [await asker.ask(f"/{number}") for number in range(3)]
        await shelf.reaches(3)
        await asker.raw.send(goaway())
        await trio.sleep(0.1)
        shelf.let_go()
        await asker.read(lambda: False)
        assert asker.whole == set(asked)
        assert asker.h2.farewells == [(5, NO_ERROR)]
    assert not any(gone for _, gone in shelf.ends)


async def test_a_client_that_leaves_and_gives_up_its_last_request_is_let_go() -> None:
    shelf = Shelf()
    shelf.hold()
    async with serving(shelf) as server, asking(server) as asker:
        stream = await asker.ask("/lost")
        await shelf.reaches(1)
        await asker.raw.send(goaway() + RstStreamFrame(stream, error_code=8).serialize())
        with trio.fail_after(40):
            await asker.read(lambda: False)
    assert shelf.ends == [("/lost", True)]


async def test_a_client_that_leaves_without_a_request_is_let_go_at_once() -> None:
    async with serving(Shelf()) as server, asking(server) as asker:
        await asker.raw.send(goaway())
        with trio.fail_after(40):
            await asker.read(lambda: False)


async def test_a_client_that_leaves_over_an_error_is_gone() -> None:
    shelf = Shelf()
    shelf.hold()
    async with serving(shelf) as server, asking(server) as asker:
        await asker.ask("/lost")
        await shelf.reaches(1)
        await asker.raw.send(goaway(h2.errors.ErrorCodes.INTERNAL_ERROR))
        await eventually(lambda: shelf.ends == [("/lost", True)])


@pytest.mark.parametrize("used", [False, True])
async def test_an_idle_connection_is_asked_to_leave_when_the_server_drains(used: bool) -> None:
    """First for what may be on its way, then, when that would be here, for good."""
    drain = trio.Event()
    async with serving(Shelf(), drain=drain) as server, asking(server) as asker:
        if used:
            await asker.read_whole(await asker.ask("/first"))
        drain.set()
        with trio.fail_after(40):
            await asker.read(lambda: False)
        assert asker.h2.farewells == [(LAST_OF_ALL, NO_ERROR), (1 if used else 0, NO_ERROR)]
        assert not server.shutdown.is_set()


async def test_a_request_that_crosses_with_the_farewell_is_served() -> None:
    async with to_drain(held=False) as on:
        shelf, asker = on.shelf, on.asker
        shelf.hold()
        await on.begin()
        await trio.sleep(2 * http2.CROSSING_S)  # it was asked, and has not read so yet
        crossing = await asker.ask("/crossing")
        await shelf.reaches(2)
        await asker.read(lambda: bool(asker.h2.farewells))
        await trio.sleep(0.1)
        shelf.let_go()
        await asker.read(lambda: False)
        assert crossing in asker.whole
        assert asker.h2.farewells == [(LAST_OF_ALL, NO_ERROR), (crossing, NO_ERROR)]


async def asked_to_leave(asker: Asker) -> None:
    """Reads until it is, and leaves the answer to the PING to what is sent next."""
    while not asker.h2.farewells:
        await asker.raw.fill()
        data, asker.raw.buffer = asker.raw.buffer, b""
        asker.h2.receive_data(data)


async def test_a_request_in_one_go_with_the_answer_to_the_ping_is_served() -> None:
    """It is here, and counted in the GOAWAY, when the connection has nothing else that runs."""
    async with to_drain(held=False) as on:
        asker = on.asker
        await on.begin()
        await asked_to_leave(asker)
        crossing = await asker.ask("/crossing", b"x")
        await asker.read(lambda: False)
        assert crossing in asker.whole
        assert asker.h2.farewells == [(LAST_OF_ALL, NO_ERROR), (crossing, NO_ERROR)]


async def test_a_request_that_is_read_when_the_connection_was_left_is_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its client may send it elsewhere, for the GOAWAY does not count it."""
    answered, left, held, late = trio.Event(), trio.Event(), trio.Event(), b""
    read, leave, answers = Wire.read, Parting.leave, Parting.answered

    async def read_early(wire: Wire, most: int = READ_BYTES) -> bytes:
        data = await read(wire, most)
        if late and data == late:
            held.set()
            with trio.CancelScope(shield=True):
                await left.wait()
        return data

    async def leave_late(parting: Parting, code: int = NO_ERROR) -> None:
        await leave(parting, code)
        left.set()

    def is_answered(parting: Parting, ping: bytes) -> bool:
        answered.set()
        return answers(parting, ping)

    monkeypatch.setattr(Wire, "read", read_early)
    monkeypatch.setattr(Parting, "answered", is_answered)
    monkeypatch.setattr(Parting, "leave", leave_late)
    async with to_drain(held=True) as on:
        shelf, asker = on.shelf, on.asker
        await on.begin()
        further = await asker.ask("/further")
        await asker.read(lambda: bool(asker.h2.farewells))
        await shelf.reaches(2)
        await answered.wait()
        fields = asker.h2.encoder.encode([(":method", "GET"), (":path", "/late")])
        late = HeadersFrame(5, data=fields, flags=["END_HEADERS", "END_STREAM"]).serialize()
        await asker.raw.send(late)
        await held.wait()
        shelf.let_go()
        await asker.read(lambda: False)
        assert asker.whole == {on.first, further}
        assert asker.h2.farewells == [(LAST_OF_ALL, NO_ERROR), (further, NO_ERROR)]
    assert shelf.begun == 2
    assert not on.server.refusals


async def test_clients_made_of_h2_lose_nothing_while_the_server_drains() -> None:
    """They take no frame behind GOAWAY, so it comes with the last of an answer, in one go."""
    drain = trio.Event()
    shelf = Shelf()
    async with serving(shelf, drain=drain) as server:
        http = httpx.AsyncClient(http1=False, http2=True, base_url=server.url, timeout=PATIENCE_S)
        async with http:
            for number in range(60):
                if number == 20:
                    drain.set()
                answer = await http.get(f"/{number}")
                assert answer.text == f"/{number}" * 3
    assert shelf.begun == 60


async def test_a_draining_server_asks_no_client_to_leave_over_running_requests() -> None:
    """Those of h2 (httpx) would give them up; who begins another is asked, and it is served."""
    async with to_drain(held=True) as on:
        shelf, asker = on.shelf, on.asker
        await on.begin()
        with trio.move_on_after(0.3):
            await asker.read(lambda: bool(asker.h2.farewells))
        assert not asker.h2.farewells
        further = await asker.ask("/further")
        await asker.read(lambda: bool(asker.h2.farewells))
        assert asker.h2.farewells == [(LAST_OF_ALL, NO_ERROR)]
        shelf.let_go()
        await asker.read(lambda: False)
        assert asker.whole == {on.first, further}
        assert asker.h2.farewells[1:] == [(further, NO_ERROR)]


async def test_a_connection_whose_last_request_was_reset_is_idle() -> None:
    limits = ServerLimits(keep_alive_s=0.3)
    shelf = Shelf()
    shelf.hold()
    async with serving(shelf, limits) as server, asking(server) as asker:
        stream = await asker.ask("/lost")
        await shelf.reaches(1)
        await asker.reset(stream)
        with trio.fail_after(40):
            await asker.read(lambda: False)
        assert asker.h2.farewells == [(1, NO_ERROR)]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_what_runs_when_the_grace_time_is_over_is_reset_and_the_end_is_told(
    certificate: Pair, tls: bool
) -> None:
    """RFC 9113 section 6.8: an end without GOAWAY leaves it open what was taken."""
    pair, terms = (certificate, port_tls(certificate)) if tls else (None, None)
    shelf = Shelf()
    limits = ServerLimits(graceful_timeout_s=0.3)
    async with (
        serving(shelf, limits, tls=terms) as server,
        asking(server, window=100, pair=pair) as asker,
    ):
        whole = await asker.ask("/whole")
        begun = await asker.ask("/big")
        await asker.read(lambda: whole in asker.whole and len(asker.bodies.get(begun, b"")) == 100)
        shelf.hold()
        upload = await asker.ask("/upload", b"x", more=True)
        silent = await asker.ask("/silent")
        await shelf.reaches(3)  # of the upload the server knows, its application does not
        server.shutdown.set()
        await asker.go_on(upload, b"x" * 16_000, more=True)
        await asker.read(lambda: False)
        assert asker.broken == dict.fromkeys((begun, silent, upload), INTERNAL_ERROR)
        assert asker.h2.farewells == [(silent, NO_ERROR)]
        assert asker.whole == {whole}
        assert silent not in asker.heads
