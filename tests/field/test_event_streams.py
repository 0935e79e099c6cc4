"""Event streams: byte for byte as they came, when they came; usage is read from the side."""

import json
import shutil
import time
from itertools import pairwise
from pathlib import Path

import pytest
import trio
import trio.lowlevel

from tests.field.site import STREAMED, OpenSite, Site, prompt
from tests.field.stub import Stub
from tests.ports import free_port
from tests.proxy.replies import DONE, LAST, Recorder, chunk, event, says, stream, stream_head, token
from tests.proxy.scripted import Peer, Script
from tests.proxy.serving import RawClient, client
from tests.proxy.whole import request
from trioroute import events as e

USAGE = {"prompt_tokens": 7, "completion_tokens": 20, "total_tokens": 27}
COUNTED = event({"id": "c1", "choices": [], "usage": USAGE})
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def cut(text: bytes, *at: int) -> list[bytes]:
    borders = [0, *at, len(text)]
    return [text[a:b] for a, b in pairwise(borders)]


def in_pieces(pieces: list[bytes]) -> Script:
    """Each piece in its own segment, without chunk framing: the body ends with the connection."""

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.stream.setsockopt(6, 1, 1)  # TCP_NODELAY
        await peer.send(UNTIL_CLOSE)
        for piece in pieces:
            await peer.send(piece)
            await trio.lowlevel.checkpoint()

    return script


async def same_and_counted(site: Site, text: bytes, pieces: list[bytes]) -> None:
    site.stubs["a"].script = in_pieces(pieces)
    answer = await site.ask(STREAMED)
    assert answer.body == text
    *_, end = await site.ends()
    assert (end.outcome, end.prompt_tokens, end.completion_tokens) == ("ok", 7, 20)


async def test_chunk_boundary(open_site: OpenSite) -> None:
    text = b"".join(token(str(at)) for at in range(20)) + COUNTED + DONE
    windows = text.replace(b"\n", b"\r\n")
    async with open_site(Stub(says())) as site:
        await same_and_counted(site, text, [text[at : at + 1] for at in range(len(text))])
        await same_and_counted(site, text, [text])
        between = [at + 1 for at in range(len(windows)) if windows[at : at + 1] == b"\r"]
        await same_and_counted(site, windows, cut(windows, *between))


async def test_utf_8_boundary(open_site: OpenSite) -> None:
    async with open_site(Stub(says())) as site:
        for letter in ("😀", "漢", "e\u0301", "\u2028", "\x85"):
            begin = b'data: {"choices":[{"delta":{"content":"'
            text = begin + letter.encode() + b'"}}]}\n\n' + COUNTED + DONE
            for at in range(1, len(letter.encode())):
                await same_and_counted(site, text, cut(text, len(begin) + at))


async def test_end_of_stream_framing(open_site: OpenSite) -> None:
    told = json.dumps({"choices": [], "usage": USAGE}, indent=0).split("\n", 1)
    rest = told[1].replace("\n", "")
    two_lines = f": ping\r\nevent: x\r\ndata: {told[0]}\r\ndata: {rest}\r\n\r\n".encode()
    text = b": ping\r\n\r\n" + token("a").replace(b"\n", b"\r\n") + two_lines + b"data: [DONE]"
    async with open_site(Stub(says())) as site:
        await same_and_counted(site, text, [text])


async def test_usage_chunk_lost(open_site: OpenSite) -> None:
    sent = (token("a", "stop"), COUNTED, DONE)
    async with open_site(Stub(says(stream(*sent)))) as site:
        answer = await site.ask({**STREAMED, "stream_options": {"include_usage": True}})
        assert answer.body == b"".join(sent)
        released = await site.released()
        assert (released.prompt_tokens, released.completion_tokens) == (7, 20)


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_usage": True}])
async def test_options_changed_on_the_way(open_site: OpenSite, options: object) -> None:
    body = STREAMED if options is None else {**STREAMED, "stream_options": options}
    async with open_site(Stub(made := Recorder(stream(token("a"), DONE)))) as site:
        assert (await site.ask(body)).body == token("a") + DONE
        assert json.loads(made.body()) == body
        assert made.body() == json.dumps(body).encode()


async def arrivals(raw: RawClient, sent_at: list[float], until: int) -> list[float]:
    """How long each event took from the replica to this client."""
    lags: list[float] = []
    while len(lags) < until:
        await raw.until(b"\n\n")
        lags.append(trio.current_time() - sent_at[len(lags)])
    return lags


def every(pause_s: float, count: int, sent_at: list[float], data: bytes) -> Script:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head())
        for _ in range(count):
            sent_at.append(trio.current_time())
            await peer.send(chunk(data))
            await trio.sleep(pause_s)
        await peer.send(LAST)

    return script


async def test_hidden_re_buffering_in_the_client_library(open_site: OpenSite) -> None:
    sent_at: list[float] = []
    script = every(0.05, 30, sent_at, b": thirty bytes of a comment\n\n")
    async with open_site(Stub(script)) as site, site.connect() as raw:
        await site.send(raw, STREAMED)
        await raw.head()
        assert sorted(await arrivals(raw, sent_at, 30))[27] < 0.2
        await raw.until(LAST)


INSTALLED = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
NGINX = """
daemon off; master_process off; worker_processes 1; error_log stderr crit; pid {folder}/pid;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{router}; }} }}
}}
"""


async def test_front_proxy_buffering(open_site: OpenSite, tmp_path: Path) -> None:
    """The nginx of the system with its defaults, if it is installed; the headers in any case."""
    sent_at: list[float] = []
    async with open_site(Stub(every(0.1, 8, sent_at, token("a")))) as site:
        async with site.connect() as raw:
            await site.send(raw, STREAMED)
            head = await raw.head()
            assert head.headers["x-accel-buffering"] == "no"
            assert head.headers["cache-control"] == "no-cache"
            await raw.until(LAST)
        if INSTALLED is None:
            return
        port, config = free_port(), tmp_path / "nginx.conf"
        config.write_text(NGINX.format(folder=tmp_path, port=port, router=site.port))
        command = [INSTALLED, "-p", str(tmp_path), "-c", str(config)]
        nginx = await trio.lowlevel.open_process(command)
        try:
            await _listens(port)
            sent_at.clear()
            async with client(port) as raw:
                await raw.send(request(STREAMED))
                assert (await raw.head()).status == 200
                lags = await arrivals(raw, sent_at, 8)
                assert sorted(lags)[6] < 0.3
                await raw.until(LAST)
        finally:
            nginx.terminate()
            await nginx.wait()


async def _listens(port: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            (await trio.open_tcp_stream("127.0.0.1", port)).socket.close()
            return
        except OSError:
            await trio.sleep(0.02)
    raise AssertionError("nginx does not listen")


async def test_lossy_parsing(open_site: OpenSite) -> None:
    text = (
        b'id: 7\nretry: 100\nevent: made.up\ndata: {"choices":[{"delta":{"reasoning":"r",'
        b'"token_ids":[1,2]},"x":1e5}],"unknown": [ ]}\n\n:\n\ndata:no blank\n\n'
    )
    async with open_site(Stub(says(stream(text, DONE)))) as site:
        assert (await site.ask(STREAMED)).body == text + DONE


async def test_per_chunk_overhead(open_site: OpenSite) -> None:
    """No stream starves: the slowest of many ends within twice the median."""

    async def steady(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head())
        for _ in range(20):
            await peer.send(chunk(token("a")))
            await trio.sleep(0.04)
        await peer.send(LAST)

    took: list[float] = []
    async with open_site(Stub(steady), Stub(steady), Stub(steady)) as site:

        async def one(at: int) -> None:
            begin = trio.current_time()
            assert (await site.ask(prompt(f"{at}", stream=True))).body == token("a") * 20
            took.append(trio.current_time() - begin)

        async with trio.open_nursery() as nursery:
            for at in range(45):
                nursery.start_soon(one, at)
        took.sort()
        assert took[-1] < 2 * took[len(took) // 2]


async def test_cpu_work_blocks_the_loop(open_site: OpenSite) -> None:
    """CPU time a byte must not grow with the size of a body or of one event."""
    event_of_pieces = b"data: " + b"x" * 1_000_000 + b"\n\n"

    async def answers(peer: Peer) -> None:
        taken = await peer.request()
        body = event_of_pieces if b'"stream": true' in taken else b"data: x\n\n"
        await peer.send(stream_head())
        for at in range(0, len(body), 1024):
            await peer.send(chunk(body[at : at + 1024]))
        await peer.send(LAST)

    async with open_site(Stub(answers)) as site:
        cost: dict[int, float] = {}
        for size in (2, 8, 2, 8):
            body = json.dumps(prompt("x" * size * 1_000_000)).encode()
            begin = time.process_time()
            assert (await site.ask(body)).status == 200
            cost[size] = min(time.process_time() - begin, cost.get(size, 1e9))
        assert cost[8] <= 4.5 * cost[2] + 0.1
        begin = time.process_time()
        assert (await site.ask(STREAMED)).body == event_of_pieces
        assert time.process_time() - begin < 5
        assert {end.outcome for end in await site.events(e.Released)} == {"ok"}
