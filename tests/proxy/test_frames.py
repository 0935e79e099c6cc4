"""Floods of HTTP/2 frames: taken in short steps, and ended when no request needs them."""

import random
from contextlib import suppress
from pathlib import Path

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import httpx
import pytest
import trio
from hyperframe.frame import Frame

from tests.certificates import self_signed
from tests.proxy.serving import (
    RawClient,
    Silent,
    chunk,
    client,
    echo,
    eventually,
    port_tls,
    serving,
    start,
)
from tests.proxy.test_chunked import Turns
from trioroute.proxy.serving.asgi import Receive, Scope, Send
from trioroute.proxy.serving.frames import BURST, RESET_COST, STEP_FRAMES, FrameMeter

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, payload: bytes = b"", stream: int = 0, flags: int = 0) -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
    )


SETTINGS = frame(4)
FLOODS = {
    "WINDOW_UPDATE": frame(8, b"\0\0\0\1"),
    "PRIORITY": frame(2, b"\0\0\0\0\x10", 3),
    "SETTINGS": SETTINGS,
    "PING": frame(6, b"12345678"),
    "unknown": frame(0xBB),
}


def test_pieces_are_the_bytes_however_they_come_and_end_in_few_frames() -> None:
    chance = random.Random(7)
    sizes = [chance.choice((0, 1, 4, 300, 16384)) for _ in range(2000)]
    data = PREFACE + b"".join(frame(0, bytes(size), 1) for size in sizes)
    meter = FrameMeter(0.0, 64 * 1024)
    pieces: list[bytes] = []
    at = 0
    while at < len(data):
        to = at + chance.choice((1, 8, 9, 10, 4096, 65536))
        pieces += meter.steps(data[at:to])
        at = to
    assert b"".join(pieces) == data
    ends = [len(PREFACE)]
    for size in sizes:
        ends.append(ends[-1] + 9 + size)
    reached = 0
    for piece in pieces:
        begun, reached = reached, reached + len(piece)
        assert sum(begun < end <= reached for end in ends[1:]) <= STEP_FRAMES


def spent(meter: FrameMeter, data: bytes) -> bool:
    for _ in meter.steps(data):
        pass
    return meter.overdrawn


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_is_over_the_limit_and_time_gives_some_back(flood: bytes) -> None:
    meter = FrameMeter(0.0, 64 * 1024)
    assert not spent(meter, PREFACE + flood * BURST)
    meter.pass_time(1.0)
    assert not spent(meter, flood * 100)
    assert spent(meter, flood)
    meter.pass_time(3600.0)
    assert not spent(meter, flood * BURST)
    assert spent(meter, flood)


def test_a_body_in_whole_frames_costs_nothing_and_one_in_crumbs_does() -> None:
    meter = FrameMeter(0.0, 64 * 1024)
    assert not spent(meter, PREFACE + frame(0, bytes(256), 1) * (5 * BURST))
    assert spent(meter, frame(0, b"x", 1) * (BURST + 1))
    assert spent(FrameMeter(0.0, 64 * 1024), PREFACE + frame(0, b"", 1) * (BURST + 1))


def test_answers_pay_for_the_frames_that_take_them() -> None:
    meter = FrameMeter(0.0, 64 * 1024)
    assert not spent(meter, PREFACE)
    for _ in range(5 * BURST):
        meter.sent(frame(0, b"data: 1\n\n", 1))
        assert not spent(meter, FLOODS["WINDOW_UPDATE"] * 2)
    meter = FrameMeter(0.0, 64 * 1024)
    for _ in range(5 * BURST):
        meter.sent(frame(6, b"12345678"))
    assert spent(meter, PREFACE + FLOODS["PING"] * (BURST + 1)), "its own echoes do not"


GET_H2 = [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "t")]


def h2_connection() -> h2.connection.H2Connection:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    connection.initiate_connection()
    return connection


async def last_word(c: RawClient, connection: h2.connection.H2Connection) -> int | None:
    """The error code of the GOAWAY that ends the connection."""
    code: int | None = None
    try:
        while await c.fill():
            for event in connection.receive_data(c.buffer):
                if isinstance(event, h2.events.ConnectionTerminated):
                    code = event.error_code
            c.buffer = b""
    except trio.BrokenResourceError:
        pass
    return code


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_a_flooding_client_is_sent_away_and_others_run_meanwhile(
    flood: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    turns = Turns()
    frames_by_turn: dict[int, int] = {}
    receive = h2.connection.H2Connection._receive_frame
    served: list[h2.connection.H2Connection] = []

    def counting(self: h2.connection.H2Connection, one: Frame) -> object:
        if not self.config.client_side:
            served.append(self)
            frames_by_turn[turns.count] = frames_by_turn.get(turns.count, 0) + 1
        return receive(self, one)

    async with serving(echo) as server, client(server.port) as c:
        connection = h2_connection()
        monkeypatch.setattr(h2.connection.H2Connection, "_receive_frame", counting)
        trio.lowlevel.add_instrument(turns)
        await c.send(connection.data_to_send() + flood * (BURST + 50))
        assert await last_word(c, connection) == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
        trio.lowlevel.remove_instrument(turns)
        assert server.refusals == ["invalid_request"]
    assert BURST < sum(frames_by_turn.values()) <= BURST + STEP_FRAMES + 150  # more as time passes
    assert max(frames_by_turn.values()) <= STEP_FRAMES
    assert not caplog.records


async def test_requests_that_are_reset_at_once_are_ended_too() -> None:
    app = Silent()

    async with serving(app) as server, client(server.port) as c:
        connection = h2_connection()
        for stream in range(1, 2 * BURST, 2):
            connection.send_headers(stream, GET_H2, end_stream=True)
            connection.reset_stream(stream)
        await c.send(connection.data_to_send())
        assert await last_word(c, connection) == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
        await eventually(lambda: app.begun == app.ended)
        assert app.begun <= BURST


async def test_requests_that_are_reset_together_are_taken_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = Turns()
    resets_by_turn: dict[int, int] = {}
    receive = h2.connection.H2Connection._receive_frame
    app = Silent()

    def counting(self: h2.connection.H2Connection, one: Frame) -> object:
        resets_by_turn[turns.count] = resets_by_turn.get(turns.count, 0) + 1
        return receive(self, one)

    async with serving(app) as server, client(server.port) as c:
        connection = h2_connection()
        streams = range(1, 200, 2)
        for stream in streams:
            connection.send_headers(stream, GET_H2, end_stream=True)
        await c.send(connection.data_to_send())
        await eventually(lambda: app.begun == len(streams))
        monkeypatch.setattr(h2.connection.H2Connection, "_receive_frame", counting)
        trio.lowlevel.add_instrument(turns)
        for stream in streams:
            connection.reset_stream(stream)
        await c.send(connection.data_to_send())
        await eventually(lambda: app.ended == app.begun)
        trio.lowlevel.remove_instrument(turns)
    assert sum(resets_by_turn.values()) == len(streams)
    assert max(resets_by_turn.values()) <= STEP_FRAMES // RESET_COST


async def test_many_requests_and_long_streams_of_one_client_are_let_through() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await start(send)
        for _ in range(2000 if scope["path"] == "/stream" else 1):
            await chunk(send, b"data: 1\n\n")
        await chunk(send, b"", more=False)

    async with serving(app) as server, client(server.port) as c:
        connection = h2_connection()
        for stream in (1, 3):
            headers = {":method": "GET", ":path": "/stream", ":scheme": "http", ":authority": "t"}
            connection.send_headers(stream, list(headers.items()), end_stream=True)
        await c.send(connection.data_to_send())
        ended = 0
        while ended < 2:
            assert await c.fill(), "the connection closed"
            for event in connection.receive_data(c.buffer):
                ended += isinstance(event, h2.events.StreamEnded)
                if isinstance(event, h2.events.DataReceived) and event.data:
                    connection.increment_flow_control_window(len(event.data))
                    with suppress(h2.exceptions.StreamClosedError):  # its end is here already
                        connection.increment_flow_control_window(len(event.data), event.stream_id)
            c.buffer = b""
            await c.send(connection.data_to_send())
        url = f"http://127.0.0.1:{server.port}"
        async with httpx.AsyncClient(http1=False, http2=True, base_url=url) as many:
            for _ in range(BURST // 2):
                assert (await many.post("/", content=b"{}")).status_code == 200
        assert not server.refusals


async def test_a_flood_over_tls_is_ended(tmp_path: Path) -> None:
    pair = self_signed(tmp_path, "t")
    context = pair.client()
    context.set_alpn_protocols(["h2"])
    async with serving(echo, tls=port_tls(pair)) as server:
        stream = await trio.open_ssl_over_tcp_stream(
            "127.0.0.1", server.port, ssl_context=context, https_compatible=True
        )
        connection = h2_connection()
        await stream.send_all(connection.data_to_send() + FLOODS["PING"] * (BURST + 50))
        code = None
        with trio.fail_after(10):
            while code is None:
                for event in connection.receive_data(await stream.receive_some()):
                    if isinstance(event, h2.events.ConnectionTerminated):
                        code = event.error_code
        assert code == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
        stream.transport_stream.socket.close()


@pytest.mark.parametrize(
    ("first", "answer"),
    [
        (PREFACE + SETTINGS + FLOODS["PING"] * 5000, b"HTTP/1.1 505"),
        (
            b"GET / HTTP/1.1\r\nhost: t\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n\r\n",
            b"HTTP/1.1 200",
        ),
    ],
    ids=["prior knowledge", "h2c"],
)
async def test_http1_over_tls_does_not_become_http2(
    tmp_path: Path, first: bytes, answer: bytes
) -> None:
    pair = self_signed(tmp_path, "t")
    async with serving(echo, tls=port_tls(pair)) as server:
        stream = await trio.open_ssl_over_tcp_stream(
            "127.0.0.1", server.port, ssl_context=pair.client(), https_compatible=True
        )
        await stream.send_all(first)
        with trio.fail_after(10):
            got = bytes(await stream.receive_some())
        assert got[: len(answer)] == answer
        assert server.refusals == ([] if b"200" in answer else ["unsupported_version"])
        stream.transport_stream.socket.close()
