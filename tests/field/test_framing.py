"""Header, framing and body edge cases: refused whole, or passed on untouched."""

import json
import os
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest
import trio

from tests.field.site import CANARY, STREAMED, OpenSite, Site, prompt
from tests.field.stub import Stub
from tests.proxy.replies import (
    LAST,
    Recorder,
    chunk,
    reply,
    stream_head,
    token,
)
from tests.proxy.scripted import Peer, always
from tests.proxy.serving import RawClient, eventually
from tests.proxy.whole import CHAT, request
from trioroute import events as e

POST = f"POST {CHAT} HTTP/1.1\r\nhost: t\r\n".encode()
MIB = 1 << 20
SMALL = b'{"model":"m"}'


async def raw_status(site: Site, data: bytes) -> int | None:
    """The status of the first answer to raw bytes, None for a close without one."""
    async with site.connect() as raw:
        try:
            await raw.send(data)
            answer = await raw.head()
        except (EOFError, trio.BrokenResourceError):
            return None
        return int(answer.status)


@pytest.mark.parametrize(
    ("response", "status", "body"),
    [
        (stream_head() + chunk(b"data: 1\n\n") + LAST, 200, b"data: 1\n\n"),
        (b"HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nto the end", 200, b"to the end"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 500\r\n\r\n", 304, b""),
        (reply(b"{}", 200, "connection: X-Foo", "X-Foo: 1", "keep-alive: timeout=5"), 200, b"{}"),
        (
            (
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n"
                b"2\r\n{}\r\n0\r\nx-sum: 1\r\n\r\n"
            ),
            200,
            b"{}",
        ),
        (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + reply(b"{}"), 200, b"{}"),
    ],
    ids=["chunked", "HTTP/1.0", "204", "304", "named", "trailers", "103"],
)
async def test_two_framings_in_one_response(
    open_site: OpenSite, response: bytes, status: int, body: bytes
) -> None:
    async def answers(peer: Peer) -> None:
        await peer.request()
        await peer.send(response)

    async with open_site(Stub(answers)) as site:
        answer = await site.ask()
        assert (answer.status, answer.body) == (status, body)
        framings = {"transfer-encoding", "content-length"} & set(answer.headers)
        assert len(framings) == (0 if status == 204 else 1)
        gone = {"x-foo", "keep-alive", "trailer", "x-sum", "link"}
        assert not gone & set(answer.headers)


SMUGGLED = b"GET /v1/smuggled HTTP/1.1\r\nhost: t\r\n\r\n"
CHUNKS = b"d\r\n" + SMALL + b"\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        POST + b"content-length: 13\r\ncontent-length: 0\r\n\r\n" + SMALL + SMUGGLED,
        POST + b"content-length: 13, 0\r\n\r\n" + SMALL + SMUGGLED,
        POST + b"content-length: +13\r\n\r\n" + SMALL,
        POST + b"content-length: 0x0d\r\n\r\n" + SMALL,
        POST + b"content-length: -13\r\n\r\n" + SMALL,
        POST + b"content-length: 13\r\ntransfer-encoding: chunked\r\n\r\n" + CHUNKS + SMUGGLED,
        POST + b"transfer-encoding: chunked, gzip\r\n\r\n" + CHUNKS + SMUGGLED,
        POST + b"transfer-encoding: gzip, chunked\r\n\r\n" + CHUNKS + SMUGGLED,
        POST + b"transfer-encoding: chunked \r\ntransfer-encoding: x\r\n\r\n" + CHUNKS,
        POST + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n" + CHUNKS,
        POST + b"transfer-encoding: \x0bchunked\r\n\r\n" + CHUNKS,
        POST + b"transfer-encoding: xchunked\r\n\r\n" + CHUNKS,
        POST + b"transfer-encoding\x00: chunked\r\n\r\n" + CHUNKS,
        POST + b"transfer-encoding : chunked\r\n\r\n" + CHUNKS,
        POST + b"content-length : 13\r\n\r\n" + SMALL,
        POST + b" folded: 1\r\ncontent-length: 13\r\n\r\n" + SMALL,
        POST + b"x: a\r\n folded\r\ncontent-length: 13\r\n\r\n" + SMALL,
        POST + b"x: a\rb\r\ncontent-length: 13\r\n\r\n" + SMALL,
        POST + b"x: a\ncontent-length: 13\r\n\r\n" + SMALL,
        POST.replace(b"\r\n", b"\n") + b"content-length: 13\n\n" + SMALL,
        POST + b"transfer-encoding: chunked\r\n\r\n0xd\r\n" + SMALL + b"\r\n0\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\n\r\nd\n" + SMALL + b"\n0\n\n",
        POST + b"transfer-encoding: chunked\r\n\r\nd\r\n" + SMALL + b"xx0\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\n\r\n-1\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 13\r\n\r\n" + SMALL,
        b"POST /v1/chat/completions  HTTP/1.1\r\nhost: t\r\n\r\n",
        b"POST /v1/chat\x7fcompletions HTTP/1.1\r\nhost: t\r\n\r\n",
    ],
    ids=lambda data: repr(data[len(POST) :][:44]),
)
async def test_request_smuggling(open_site: OpenSite, data: bytes) -> None:
    async with open_site(Stub(made := Recorder())) as site:
        async with site.connect() as raw:
            await raw.send(data)
            answer = await raw.reply()
            assert answer.status == 400
            assert answer.headers["connection"] == "close"
            await raw.half_close()
            assert await raw.rest() == b""
        assert made.requests == []
        assert await site.events(e.Dispatched) == []


async def test_equal_lengths_and_odd_chunks_become_one_well_formed_request(
    open_site: OpenSite,
) -> None:
    async with open_site(Stub(made := Recorder())) as site:
        for data in (
            POST + b"content-length: 13\r\ncontent-length: 13\r\n\r\n" + SMALL,
            POST + b"Transfer-Encoding:  CHUNKED\r\n\r\n" + CHUNKS,
            POST
            + b"transfer-encoding: chunked\r\n\r\n00d;a=b\r\n"
            + SMALL
            + b"\r\n000\r\nx: y\r\n\r\n",
        ):
            assert await raw_status(site, data) == 200
            head, _, body = made.requests[-1].partition(b"\r\n\r\n")
            assert body == SMALL
            assert head.lower().count(b"content-length: 13") == 1
            assert b"transfer-encoding" not in head.lower()
            assert b"\nx: y" not in head


@pytest.mark.parametrize("chunked", [False, True])
async def test_poisoned_connection_after_early_refusal(open_site: OpenSite, chunked: bool) -> None:
    async with open_site(Stub(made := Recorder()), server__max_body_bytes=MIB) as site:
        framing = b"transfer-encoding: chunked" if chunked else b"content-length: %d" % (8 * MIB)
        part = b"x" * 65536
        async with site.connect() as raw:
            await raw.send(POST + framing + b"\r\n\r\n")
            for _ in range(8 * MIB // len(part)):
                await raw.send(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
            answer = await raw.reply()
            assert answer.status == 413
            assert answer.headers["connection"] == "close"
            assert json.loads(answer.body)["error"]["code"] == "body_too_large"
            await raw.half_close()
            assert await raw.ended()
        assert made.requests == []
        assert (await site.ask()).status == 200


async def test_invisible_refusal_in_the_server_layer(open_site: OpenSite) -> None:
    async with open_site(Stub(made := Recorder())) as site:
        many = b"".join(b"x-%d: y\r\n" % at for at in range(300))
        for data, status, code in (
            (POST + b"x: " + b"y" * 65536 + b"\r\n\r\n", 431, "headers_too_large"),
            (POST + many + b"\r\n", 431, "headers_too_large"),
            (b"GET /v1/%b HTTP/1.1\r\nhost: t\r\n\r\n" % (b"u" * 16384), 414, "uri_too_long"),
        ):
            assert await raw_status(site, data) == status
            await trio.sleep(1.05)  # a line a second at most
            await raw_status(site, b"noise\r\n\r\n")
            assert code in site.caplog.text
        assert made.requests == []


async def test_one_connection_kills_the_process(open_site: OpenSite) -> None:
    end = trio.Event()

    async def until_the_end(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head())
        while not end.is_set():
            await peer.send(chunk(token("a")))
            await trio.sleep(0.1)
        await peer.send(LAST)

    upgrade = b"GET /v1/x HTTP/1.1\r\nhost: t\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
    key = b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    evil = (
        upgrade + key + b"x",
        upgrade.replace(b"websocket", b"h2c") + b"http2-settings: AAMAAABkAAQ\r\n\r\nx",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 9 + os.urandom(200),
        b"PRI * HTTP/2.0\r\n\r\nnonsense",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(500),
        POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
        os.urandom(MIB),
        b"\r\n" * 50_000,
    )
    async with open_site(Stub(until_the_end)) as site:
        answers: list[bytes] = []

        async def listens() -> None:
            answers.append((await site.ask(STREAMED)).body)

        async def attacks(data: bytes) -> None:
            async with site.connect() as raw:
                with trio.move_on_after(3):
                    await _drown(raw, data)

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(listens)
            await eventually(lambda: site.stubs["a"].open == 50)
            async with trio.open_nursery() as attackers:
                for data in evil * 3:
                    attackers.start_soon(attacks, data)
            end.set()
        assert len(answers) == 50
        outcomes = Counter(await site.outcomes())
        assert outcomes.pop("ok") == 50
        assert set(outcomes) <= {"client_gone"}  # who asked for h2c was a plain request


async def _drown(raw: RawClient, data: bytes) -> None:
    try:
        await raw.send(data)
        await raw.half_close()
        await raw.rest()
    except trio.BrokenResourceError:
        pass


async def test_head_handling(open_site: OpenSite) -> None:
    response = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n"
    async with open_site(Stub(always(response))) as site, site.connect() as raw:
        for path in ("/health", "/v1/models", "/"):
            await site.send(raw, b"", path, "HEAD")
            probed = await raw.reply(bodiless=True)
            await site.send(raw, b"", path, "GET")
            got = await raw.reply()
            assert probed.status == got.status
            assert probed.headers["content-length"] == str(len(got.body))
        with trio.fail_after(20):
            await site.send(raw, b"", "/v1/files/1", "HEAD")
            assert (await raw.reply(bodiless=True)).headers["content-length"] == "500"
            await site.send(raw, b"", "/health", "GET")
            assert (await raw.reply()).status == 200
        async with trio.open_nursery():
            assert (await site.admin("/metrics")).status == 200
        await site.send(raw, b"", "/health", "DELETE")
        refused = await raw.reply()
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


async def test_options_and_cors_that_is_off_are_the_engines_business(open_site: OpenSite) -> None:
    allowed = "access-control-allow-origin: https://app.test"
    made = Recorder(reply(b"", 200, allowed))
    asked = ["origin: https://app.test", "access-control-request-method: POST"]
    async with open_site(Stub(made)) as site:
        for method, body in (("OPTIONS", b""), ("POST", None)):
            answer = await site.ask(body, method=method, headers=asked)
            assert answer.headers["access-control-allow-origin"] == "https://app.test"
            assert made.line() == f"{method} {CHAT} HTTP/1.1"
            assert made.header("origin") == "https://app.test"


async def test_options_and_cors_that_is_on_are_answered_here(
    open_site: OpenSite, tmp_path: Path
) -> None:
    """A preflight without a key, then the real request; one allow-origin header on all of them."""
    app = "https://app.test"
    keys = tmp_path / "keys"
    keys.write_text(f"team:{sha256(f'{CANARY}-key'.encode()).hexdigest()}\n")
    made = Recorder(reply(b"{}", 200, "access-control-allow-origin: *"))
    asks = ("access-control-request-method: POST", "access-control-request-headers: x-a, x-b")
    chosen = {"server__cors_origins": (app,), "server__api_keys_file": str(keys)}
    async with open_site(Stub(made), **chosen) as site:
        async with site.connect() as raw:
            await raw.send(request(b"", CHAT, "OPTIONS", [f"origin: {app}", *asks]))
            answer = await raw.reply()
            assert (answer.status, answer.body) == (204, b"")
            assert answer.headers["access-control-allow-origin"] == app
            assert answer.headers["access-control-allow-headers"] == "x-a, x-b"
            assert made.requests == []
            await site.send(raw, headers=[f"origin: {app}"])
            answer = await raw.reply()  # which takes no header twice
            assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, app)
            await raw.send(request(headers=[f"origin: {app}"]))
            answer = await raw.reply()
            assert (answer.status, answer.headers["access-control-allow-origin"]) == (401, app)
        for body, path, status in ((b"{", CHAT, 400), (prompt(), "/nowhere", 404)):
            answer = await site.ask(body, path, headers=[f"origin: {app}"])
            assert (answer.status, answer.headers["access-control-allow-origin"]) == (status, app)
        large = await site.ask(headers=[f"origin: {app}", f"x: {'a' * 70_000}"])
        assert (large.status, large.headers["access-control-allow-origin"]) == (431, app)
