"""``server.heartbeat``: comments while prefill lasts, and what they commit an answer to."""

import json
from typing import Any

import httpx
import pytest
import trio

from tests.proxy.replies import (
    DONE,
    GOOD_STREAM,
    Recorder,
    chunk,
    reply,
    silent,
    stream,
    stream_head,
    token,
)
from tests.proxy.scripted import Peer, Script
from tests.proxy.serving import client
from tests.proxy.test_app_log import HeldStore
from tests.proxy.whole import CHAT, chat, request, whole
from trioroute.proxy.heartbeat import COMMENT

EVERY_MS = 20
PREFILL_S = 0.15
BEATING: dict[str, Any] = {"heartbeat_ms": EVERY_MS}
STREAMED = chat(stream=True)


def late(answer: bytes, after_s: float = PREFILL_S) -> Script:
    """Prefills first."""

    async def script(peer: Peer) -> None:
        while await peer.request():
            await trio.sleep(after_s)
            await peer.send(answer)

    return script


def without_comments(body: bytes) -> bytes:
    """What is left behind the comments, which come first."""
    assert body.startswith(COMMENT)
    while body.startswith(COMMENT):
        body = body.removeprefix(COMMENT)
    return body


def the_error(body: bytes) -> dict[str, Any]:
    event = without_comments(body)
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    assert event.count(b"data: ") == 1
    found: dict[str, Any] = json.loads(event.removeprefix(b"data: "))["error"]
    assert {"message", "code"} <= set(found)
    return found


async def test_comments_until_the_first_event_and_then_its_bytes_untouched() -> None:
    async with whole(late(stream(*GOOD_STREAM)), server=BEATING) as rig:
        answer = await rig.ask(STREAMED)
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-accel-buffering"] == "no"
        assert answer.headers["x-request-id"].startswith("req-")
        assert not [name for name in answer.headers if name.startswith("x-trioroute")]
        assert without_comments(answer.body) == b"".join(GOOD_STREAM)
        released = await rig.released()
        assert released.outcome == "ok"
        assert released.ttfb_ms >= 1000 * PREFILL_S - 20, "the engine's first byte, not ours"
        assert released.bytes == len(b"".join(GOOD_STREAM))


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/messages", "/v1/responses"])
async def test_every_path_that_streams(path: str) -> None:
    async with whole(late(stream(*GOOD_STREAM)), server=BEATING) as rig:
        answer = await rig.ask(STREAMED, path)
        assert without_comments(answer.body) == b"".join(GOOD_STREAM)


@pytest.mark.parametrize("body", [chat(), chat(stream=False), chat(stream="true"), chat(stream=1)])
async def test_who_asked_for_no_stream_gets_none(body: dict[str, object]) -> None:
    async with whole(late(reply()), server=BEATING) as rig:
        answer = await rig.ask(body)
        assert answer.body == b'{"ok":true}'
        assert answer.headers["x-trioroute-replica"] == "a"


async def test_an_answer_that_comes_before_the_first_comment_is_passed_as_ever() -> None:
    refusal = reply(b'{"error":{"message":"no","code":400}}', 400)
    async with whole(late(refusal, 0), server={"heartbeat_ms": 5000}) as rig:
        answer = await rig.ask(STREAMED)
        assert (answer.status, answer.headers["x-trioroute-replica"]) == (400, "a")


@pytest.mark.parametrize(
    ("answer", "message", "code", "outcome", "cause"),
    [
        (
            reply(b'{"error":{"message":"too\\nlong","type":"x","param":null,"code":400}}', 400),
            "too\nlong",
            400,
            "client_error",
            "status",
        ),
        (
            reply(b'{"object":"error","message":"too long","code":400}', 400),
            "the replica answered 400 and no event stream: too long",
            "upstream_failed",
            "client_error",
            "status",
        ),
        (
            reply(b"<html>no\r\n</html>", 502, "content-type: text/html"),
            "the replica answered 502 and no event stream: <html>no\r\n</html>",
            "upstream_failed",
            "upstream_error",
            "status",
        ),
        (
            reply(b'{"choices":[]}'),
            'the replica answered 200 and no event stream: {"choices":[]}',
            "upstream_failed",
            "upstream_error",
            "protocol",
        ),
    ],
)
async def test_an_error_behind_a_comment_is_an_event_and_a_broken_ending(
    answer: bytes, message: str, code: object, outcome: str, cause: str
) -> None:
    async with whole(late(answer), server=BEATING) as rig:
        head, body = await rig.broken(STREAMED)
        assert head.status == 200
        found = the_error(body)
        assert (found["message"], found["code"]) == (message, code)
        released = await rig.released()
        assert (released.outcome, released.cause) == (outcome, cause)


def first_dies_late(then: Script) -> Script:
    """One for all replicas: the first request is dropped after a prefill."""
    asked = 0

    async def script(peer: Peer) -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            await then(peer)
            return
        await peer.request()
        await trio.sleep(PREFILL_S)

    return script


async def test_what_fails_before_its_first_byte_is_tried_elsewhere_while_comments_go_on() -> None:
    asked_again, prefilled = trio.Event(), trio.Event()

    async def answers(peer: Peer) -> None:
        await peer.request()
        asked_again.set()
        await prefilled.wait()
        await peer.send(stream(*GOOD_STREAM))

    script = first_dies_late(answers)
    async with whole(script, script, server=BEATING) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(STREAMED))
            await raw.until(COMMENT)
            await asked_again.wait()
            raw.buffer = b""
            await raw.until(COMMENT)
            await raw.until(COMMENT)
            prefilled.set()
            rest = await raw.until(DONE)
            assert all(event in rest for event in GOOD_STREAM)
            assert b"error" not in rest
        failed, released = await rig.ends()
        assert (failed.cause, failed.blame) == ("fin", "replica")
        assert (released.outcome, released.cause) == ("ok", "none")


async def test_when_nobody_is_left_the_error_is_an_event() -> None:
    async with whole(first_dies_late(silent), server=BEATING) as rig:
        _, body = await rig.broken(STREAMED)
        assert the_error(body)["code"] == "upstream_failed"
        assert (await rig.released()).outcome == "upstream_error"


async def test_a_replica_that_says_nothing_runs_into_its_limit_all_the_same() -> None:
    async with whole(silent, server=BEATING, timeouts={"first_byte_ms": 200}) as rig:
        _, body = await rig.broken(STREAMED)
        assert the_error(body)["code"] == "first_byte_timeout"
        released = await rig.released()
        assert (released.outcome, released.ttfb_ms) == ("first_byte_timeout", None)


@pytest.mark.parametrize("how", ["reset", "close", "half-close"])
async def test_a_client_that_leaves_between_comments_is_noticed(how: str) -> None:
    async with whole(silent, server=BEATING) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(STREAMED))
            await raw.until(b"\r\n" + COMMENT)
            if how == "reset":
                raw.reset()
            elif how == "close":
                raw.transport.socket.close()
            else:
                await raw.half_close()
            with trio.fail_after(20):
                await rig.replicas[0].peers[-1].gone.wait()
        released = await rig.released()
        assert (released.outcome, released.blame) == ("client_gone", "client")
        assert released.ttfb_ms is None


async def test_a_stream_that_falls_silent_behind_comments_is_cut() -> None:
    async def falls_silent(peer: Peer) -> None:
        await peer.request()
        await trio.sleep(PREFILL_S)
        await peer.send(stream_head() + chunk(token("a")))
        await peer.wait_gone()

    async with whole(falls_silent, server=BEATING, timeouts={"idle_ms": 200}) as rig:
        _, body = await rig.broken(STREAMED)
        events = without_comments(body)
        assert events.startswith(token("a"))
        assert COMMENT not in events, "no comment once the engine speaks"
        assert b"upstream_cut" in events
        assert (await rig.released()).outcome == "idle_timeout"


async def test_no_comment_before_the_decision_is_in_the_log() -> None:
    store, prefilled = HeldStore(), trio.Event()

    async def prefills(peer: Peer) -> None:
        await peer.request()
        await prefilled.wait()
        await peer.send(stream(*GOOD_STREAM))

    async with whole(prefills, store=store, threaded=True) as rig:
        rig.configure(server=BEATING, log={"gate_wait_ms": 10_000})
        await rig.journal.durable(rig.journal.position)
        store.open.clear()
        async with client(rig.port) as raw:
            await raw.send(request(STREAMED))
            with trio.move_on_after(5 * EVERY_MS / 1000):
                await raw.fill()
            assert raw.buffer == b""
            store.open.set()
            await raw.until(COMMENT)
            prefilled.set()
            await raw.until(DONE)


async def test_the_answer_under_comments_is_asked_for_without_a_coding() -> None:
    made = Recorder(stream(*GOOD_STREAM))
    async with whole(made, server=BEATING) as rig:
        for body, told in ((STREAMED, False), (chat(), True)):
            await rig.ask(body, headers=["accept-encoding: gzip"])
            assert ("accept-encoding" in dict(made.headers())) is told


async def test_comments_over_http_2() -> None:
    async with whole(late(stream(*GOOD_STREAM)), server=BEATING) as rig:
        async with httpx.AsyncClient(http1=False, http2=True) as http:
            answer = await http.post(f"http://127.0.0.1:{rig.port}{CHAT}", json=STREAMED)
        assert answer.http_version == "HTTP/2"
        assert without_comments(answer.content) == b"".join(GOOD_STREAM)
