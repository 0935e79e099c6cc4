"""HTTP/1.1 on the wire: reuse, limits, disconnects."""

import orjson
import pytest
import trio

from tests.engine.conftest import StartEngine, chat, until
from trioroute.engine import EngineHandle, connection

HEALTH = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"


async def connect(handle: EngineHandle) -> trio.SocketStream:
    host, port = handle.url.removeprefix("http://").rsplit(":", 1)
    return await trio.open_tcp_stream(host, int(port))


async def receive(stream: trio.SocketStream, ending: bytes) -> bytes:
    """Reads until the bytes end so."""
    got = b""
    with trio.fail_after(40):
        while not got.endswith(ending):
            piece = await stream.receive_some()
            assert piece, f"closed after {got!r}"
            got += piece
    return got


async def receive_all(stream: trio.SocketStream) -> bytes:
    with trio.fail_after(40):
        return b"".join([piece async for piece in stream])


def post(body: dict[str, object], *headers: str, version: str = "1.1") -> bytes:
    raw = orjson.dumps(body)
    lines = [
        f"POST /v1/chat/completions HTTP/{version}",
        "host: x",
        "content-type: application/json",
        f"content-length: {len(raw)}",
        *headers,
    ]
    return "\r\n".join((*lines, "\r\n")).encode() + raw


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_its_slot_and_lets_the_next_run(
    start_engine: StartEngine, stream: bool
) -> None:
    handle = await start_engine(max_running=1, decode_tokens_per_s=100.0)
    leaving, staying = await connect(handle), await connect(handle)
    await leaving.send_all(post(chat("a", max_tokens=50_000, stream=stream)))
    await until(lambda: len(handle.batch.running) == 1)
    await staying.send_all(post(chat("b", max_tokens=50_000, stream=True)))
    await until(lambda: len(handle.batch.waiting) == 1)
    first = handle.batch.running[0]
    await leaving.aclose()
    await until(lambda: first.done)
    await until(lambda: not handle.batch.waiting and len(handle.batch.running) == 1)
    assert handle.batch.counters.finished["abort"] == 0
    await staying.aclose()
    await until(lambda: not handle.batch.running)


async def test_a_client_that_leaves_while_it_waits_is_forgotten(start_engine: StartEngine) -> None:
    handle = await start_engine(max_running=1, decode_tokens_per_s=100.0)
    running, waiting = await connect(handle), await connect(handle)
    await running.send_all(post(chat(max_tokens=50_000)))
    await until(lambda: len(handle.batch.running) == 1)
    await waiting.send_all(post(chat(max_tokens=50_000)))
    await until(lambda: len(handle.batch.waiting) == 1)
    await waiting.aclose()
    await until(lambda: not handle.batch.waiting)
    assert len(handle.batch.running) == 1
    await running.aclose()


async def test_a_connection_serves_one_request_after_another_and_pipelined_ones(
    start_engine: StartEngine,
) -> None:
    async with await connect(await start_engine()) as stream:
        await stream.send_all(HEALTH)
        await receive(stream, b"\r\n\r\n")
        await stream.send_all(HEALTH + HEALTH)
        got = b""
        while got.count(b"HTTP/1.1 200 OK") < 2 or not got.endswith(b"\r\n\r\n"):
            got += await receive(stream, b"\r\n\r\n")


async def test_an_idle_connection_is_closed_after_its_answer_but_not_a_fresh_one(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "KEEP_ALIVE_S", 0.05)
    handle = await start_engine()
    async with await connect(handle) as fresh, await connect(handle) as used:
        await used.send_all(HEALTH)
        assert (await receive_all(used)).startswith(b"HTTP/1.1 200 OK")
        await trio.sleep(0.1)
        await fresh.send_all(HEALTH)
        assert (await receive(fresh, b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")


async def test_a_refusal_ends_idle_connections_at_once_and_busy_ones_after_their_answer(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "KEEP_ALIVE_S", 600.0)
    handle = await start_engine(decode_tokens_per_s=100.0)
    async with await connect(handle) as idle, await connect(handle) as busy:
        await idle.send_all(HEALTH)
        await receive(idle, b"\r\n\r\n")
        await busy.send_all(post(chat(max_tokens=30, stream=True)))
        await until(lambda: handle.batch.counters.generation_tokens > 0)
        handle.faults.set(refuse=True, refuse_s=60)
        with trio.fail_after(20):
            assert await idle.receive_some() == b""
        assert (await receive_all(busy)).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


async def test_connection_close_is_honoured(start_engine: StartEngine) -> None:
    async with await connect(await start_engine()) as stream:
        await stream.send_all(post(chat(), "connection: close"))
        assert b"connection: close" in await receive_all(stream)


async def test_an_http_1_0_stream_is_not_chunked_and_ends_with_the_connection(
    start_engine: StartEngine,
) -> None:
    async with await connect(await start_engine()) as stream:
        await stream.send_all(post(chat(stream=True), version="1.0"))
        head, body = (await receive_all(stream)).split(b"\r\n\r\n", 1)
        assert b"transfer-encoding" not in head
        assert body.startswith(b"data: ")
        assert body.endswith(b"data: [DONE]\n\n")


async def test_a_chunked_body_in_pieces_is_read(start_engine: StartEngine) -> None:
    raw = orjson.dumps(chat())
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        b"transfer-encoding: chunked\r\n\r\n"
    )
    async with await connect(await start_engine()) as stream:
        for piece in (head[:30], head[30:], b"%x\r\n%b\r\n" % (len(raw), raw), b"0\r\n\r\n"):
            await stream.send_all(piece)
            await trio.sleep(0.01)
        assert (await receive(stream, b"}")).startswith(b"HTTP/1.1 200 OK")


async def test_a_client_that_expects_100_continue_gets_it(start_engine: StartEngine) -> None:
    asked = post(chat(), "expect: 100-continue")
    head, body = asked.split(b"\r\n\r\n", 1)
    async with await connect(await start_engine()) as stream:
        await stream.send_all(head + b"\r\n\r\n")
        assert await receive(stream, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await stream.send_all(body)
        assert (await receive(stream, b"}")).startswith(b"HTTP/1.1 200 OK")


async def test_an_offer_to_upgrade_is_ignored_as_uvicorn_does(start_engine: StartEngine) -> None:
    asked = HEALTH.replace(b"host: x", b"host: x\r\nconnection: upgrade\r\nupgrade: h2c")
    async with await connect(await start_engine()) as stream:
        await stream.send_all(asked)
        assert (await receive(stream, b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"this is no HTTP\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nlong: " + b"x" * (connection.MAX_HEAD_BYTES + 1), b"431"),
        (b"POST / HTTP/1.1\r\ncontent-length: 99\r\n\r\n" + b"x" * 99, b"413"),
    ],
)
async def test_what_is_no_http_or_too_large_is_refused_and_closed(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch, sent: bytes, status: bytes
) -> None:
    monkeypatch.setattr(connection, "MAX_BODY_BYTES", 98)
    async with await connect(await start_engine()) as stream:
        await stream.send_all(sent)
        with trio.fail_after(40):
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 " + status)
