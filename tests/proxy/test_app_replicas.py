"""Replicas that refuse, die, misbehave or answer with errors: what is tried elsewhere."""

import json
from typing import Any

import pytest

from tests.proxy.replies import (
    GOOD_STREAM,
    LAST,
    Recorder,
    chunk,
    dies,
    error,
    event,
    heads,
    reply,
    says,
    stream,
    stream_head,
    token,
)
from tests.proxy.scripted import Peer, always
from tests.proxy.whole import NAMES, Whole, chat, whole
from trioroute import events as e

GOOD = reply(b'{"good":1}')
STREAMED = chat(stream=True)


async def resets(peer: Peer) -> None:
    await peer.request()
    peer.reset()


async def told(rig: Whole) -> list[tuple[Any, ...]]:
    """Each end as (kind, what, cause, blame, status)."""
    return [
        (type(one).__name__, getattr(one, "outcome", None), one.cause, one.blame, one.status)
        for one in await rig.ends()
    ]


OK = ("Released", "ok", "none", "none", 200)

TRIED_ELSEWHERE = [
    (dies, ("fin", "replica", None)),
    (resets, ("reset", "replica", None)),
    (says(reply(b"x" * 9)[:-9]), ("fin", "replica", None)),
    (says(b"HTTP/1.1 200 OK\r\ncontent-"), ("fin", "replica", None)),
    (says(stream_head()), ("fin", "replica", None)),
    (says(stream_head(), chunk(b"data: {")), ("fin", "replica", None)),
    (says(b"garbage\r\n\r\n"), ("protocol", "replica", None)),
    (says(reply(b"", 500)), ("status", "replica", 500)),
    (says(reply(b"<html>", 502, "content-type: text/html")), ("status", "replica", 502)),
    (says(reply(b"x", 504)), ("status", "replica", 504)),
    (says(reply(b"x", 503)), ("status", "none", 503)),
    (says(reply(b"x", 429, "Retry-After: 7")), ("status", "none", 429)),
    (says(stream(error(500), b"data: [DONE]\n\n")), ("error_event", "replica", 500)),
    (says(stream(error(503), b"data: [DONE]\n\n")), ("error_event", "none", 503)),
    (says(stream(token("a") + error(503))), ("error_event", "none", 503)),
    (says(stream(error(None))), ("error_event", "replica", 500)),
    (says(stream(event({"error": "Unauthorized"}))), ("error_event", "replica", 500)),
    (says(stream(b": hi\r\n\r\n" + error(503))), ("error_event", "none", 503)),
    (says(reply(b'{"choices":[{"finish_reason": "abort"}]}')), ("abort", "replica", 200)),
    (says(stream(token("", "abort") + b"data: [DONE]\n\n")), ("abort", "replica", 200)),
    # All of it is here, though not with the first receive.
    (
        says(reply(b'{"x":"%b","finish_reason": "abort"}' % (b"x" * 30_000))),
        ("abort", "replica", 200),
    ),
    (says(stream(token("a"), token("x" * 9000, "abort"))), ("abort", "replica", 200)),
    (says(stream(token("a"), token("x" * 9000), error(503))), ("error_event", "none", 503)),
]


@pytest.mark.parametrize(
    ("bad", "end"), TRIED_ELSEWHERE, ids=[str(end) for _, end in TRIED_ELSEWHERE]
)
async def test_what_failed_before_its_first_byte_is_tried_elsewhere(bad: Any, end: Any) -> None:
    async with whole(bad, always(GOOD)) as rig:
        answer = await rig.ask(headers=["x-session-id: s"])
        assert (answer.status, answer.body) == (200, b'{"good":1}')
        assert answer.headers["x-trioroute-replica"] == "b"
        assert answer.headers["x-trioroute-attempts"] == "2"
        assert await told(rig) == [("Failed", None, *end), OK]
        first, second = await rig.events(e.Dispatched)
        assert (first.attempt, second.attempt) == (1, 2)
        assert second.tried == ("a",)
        assert first.request_id == second.request_id == answer.headers["x-request-id"]
        assert answer.headers["x-trioroute-decision"].endswith(f"/{(await rig.ends())[1].dispatch}")
        (rebound,) = await rig.events(e.Rebound)
        assert (rebound.replica, rebound.cause) == ("b", "failed")


async def test_a_replica_that_refuses_is_ejected_at_once_and_nobody_notices() -> None:
    async with whole(always(GOOD), always(GOOD), refusing="a") as rig:
        for _ in range(3):
            answer = await rig.ask()
            assert answer.status == 200
            assert answer.headers["x-trioroute-replica"] == "b"
        assert rig.standing("a") == "EJECTED"
        assert await told(rig) == [("Failed", None, "refused", "replica", None), OK, OK, OK]


async def test_busy_is_not_broken() -> None:
    async with whole(says(reply(b"x", 429, "Retry-After: 7")), always(GOOD)) as rig:
        await rig.ask()
        failed = (await rig.ends())[0]
        assert failed.retry_after_ms == 7000
        assert rig.standing("a") == "LIVE"
        for _ in range(3):
            assert (await rig.ask()).headers["x-trioroute-replica"] == "b"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 418, 501, 301])
async def test_a_replicas_own_word_is_passed_on_untouched(status: int) -> None:
    body = b'{"detail":  "odd  spacing"}\n'
    bad = reply(body, status, "content-type: application/problem+json", "x-Mine: 1", "x-mine2:")
    async with whole(always(bad), always(bad)) as rig:
        answer = await rig.ask()
        assert (answer.status, answer.body) == (status, body)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["x-mine"] == "1"
        assert answer.headers["x-trioroute-attempts"] == "1"
        (end,) = await told(rig)
        outcome = {4: "client_error", 5: "upstream_error", 3: "ok"}[status // 100]
        assert end[1] == outcome
        assert end[3] != "replica"
        assert rig.standing("a") == rig.standing("b") == "LIVE"


async def test_fifty_client_errors_eject_nobody() -> None:
    async with whole(always(reply(b"{}", 400))) as rig:
        for _ in range(50):
            assert (await rig.ask()).status == 400
        assert rig.standing("a") == "LIVE"


async def test_a_500_is_tried_once_elsewhere_and_then_passed_on() -> None:
    bad = [always(reply(b'{"n":%d}' % n, 500)) for n in range(3)]
    async with whole(*bad) as rig:
        answer = await rig.ask()
        assert (answer.status, answer.body) == (500, b'{"n":1}')
        assert answer.headers["x-trioroute-attempts"] == "2"
        assert await told(rig) == [
            ("Failed", None, "status", "replica", 500),
            ("Released", "upstream_error", "status", "replica", 500),
        ]


async def test_a_502_is_tried_up_to_the_limit_and_then_passed_on() -> None:
    async with whole(*[always(reply(b"no", 502))] * 5, retries={"max": 3}) as rig:
        answer = await rig.ask()
        assert (answer.status, answer.body) == (502, b"no")
        assert answer.headers["x-trioroute-attempts"] == "4"
        assert len({one.replica for one in await rig.events(e.Dispatched)}) == 4


@pytest.mark.parametrize(("status", "outcome"), [(429, "client_error"), (503, "upstream_error")])
async def test_when_all_are_busy_a_replicas_own_answer_is_passed_on(
    status: int, outcome: str
) -> None:
    busy = always(reply(b'{"busy":1}', status, "retry-after: 3"))
    async with whole(busy, busy) as rig:
        answer = await rig.ask()
        assert (answer.status, answer.body) == (status, b'{"busy":1}')
        assert answer.headers["retry-after"] == "3"
        assert await told(rig) == [
            ("Failed", None, "status", "none", status),
            ("Released", outcome, "status", "none", status),
        ]
        assert rig.standing("a") == rig.standing("b") == "LIVE"


async def test_an_only_replica_that_dies_is_502_in_the_routers_words() -> None:
    async with whole(dies) as rig:
        answer = await rig.ask()
        assert answer.status == 502
        assert json.loads(answer.body)["error"]["code"] == "upstream_failed"
        assert answer.headers["x-trioroute-replica"] == "a"
        assert await told(rig) == [("Released", "upstream_error", "fin", "replica", None)]


async def test_the_decision_behind_an_error_is_durable_before_the_error_leaves() -> None:
    async with whole(dies) as rig:
        answer = await rig.ask()
        number = int(answer.headers["x-trioroute-decision"].partition("/")[2])
        assert rig.journal.is_durable(number)


DYING = [
    (says(stream_head(), chunk(token("a"))), "fin"),
    (says(stream_head(), chunk(token("a")), b"zz\r\n"), "protocol"),
    (says(stream_head(), chunk(token("a")), b"20\r\ndata: {"), "fin"),
]


@pytest.mark.parametrize(("bad", "cause"), DYING, ids=["fin", "garbage", "mid-event"])
async def test_a_stream_that_breaks_ends_with_an_error_event_and_broken(
    bad: Any, cause: str
) -> None:
    async with whole(bad, always(stream(*GOOD_STREAM))) as rig:
        head, body = await rig.broken(STREAMED)
        assert head.status == 200
        assert body.startswith(token("a"))
        assert b"[DONE]" not in body
        last = body.rstrip().rpartition(b"\n\n")[2]
        assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "upstream_cut"
        assert await told(rig) == [("Released", "upstream_cut", cause, "replica", 200)]
        assert heads(rig.replicas[1])() == 0


async def test_a_stream_reset_midway_is_a_cut() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head() + chunk(token("a")))
        peer.reset()

    async with whole(script) as rig:
        _, body = await rig.broken(STREAMED)
        assert b'"error"' in body
        released = await rig.released()
        assert (released.outcome, released.blame) == ("upstream_cut", "replica")
        assert released.bytes == len(token("a"))
        assert released.completion_tokens is None


@pytest.mark.parametrize("framing", ["content-length: 400", "content-encoding: gzip"])
async def test_no_event_is_added_where_it_would_not_be_read_as_one(framing: str) -> None:
    """Under a length it could make the answer look whole, in a compressed one it is noise."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{framing}\r\n"
    chunked = "length" not in framing
    head += "transfer-encoding: chunked\r\n\r\n" if chunked else "\r\n"
    piece = b"x" * 100 + b"\n\n"
    sent = chunk(piece) if chunked else piece
    async with whole(says(head.encode() + sent)) as rig:
        _, body = await rig.broken(STREAMED)
        assert body == piece
        assert (await rig.released()).outcome == "upstream_cut"


async def test_json_that_breaks_ends_short() -> None:
    async with whole(says(reply(b"x" * 1000)[:-400]), always(GOOD)) as rig:
        head, body = await rig.broken()
        assert head.headers["content-length"] == "1000"
        assert body == b"x" * 600
        assert await told(rig) == [("Released", "upstream_cut", "fin", "replica", 200)]


async def test_a_body_that_ends_with_the_connection_is_whole() -> None:
    async with whole(says(b"HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nall of it")) as rig:
        answer = await rig.ask()
        assert answer.body == b"all of it"
        assert await told(rig) == [OK]


@pytest.mark.parametrize(
    "done", [b"", b"data: [DONE]\n\n", b": bye\n\n", b"data: [DONE]"], ids=repr
)
async def test_an_error_event_later_is_passed_on_and_not_called_a_success(done: bytes) -> None:
    bad = [token("a"), error(500), *([done] if done else [])]
    pieces = [stream_head(), *map(chunk, bad), LAST]
    async with whole(says(*pieces), always(GOOD)) as rig:
        answer = await rig.ask(STREAMED)
        assert answer.body == b"".join(bad)
        assert await told(rig) == [("Released", "upstream_error", "error_event", "replica", 500)]


async def test_a_stream_cut_right_after_its_error_event_gets_no_second_one() -> None:
    bad = token("a") + error(500)
    async with whole(says(stream_head(), chunk(token("a")), chunk(error(500)))) as rig:
        _, body = await rig.broken(STREAMED)
        assert body == bad


async def test_a_client_error_inside_a_200_is_not_held_against_the_replica() -> None:
    bad = stream(error(400), b"data: [DONE]\n\n")
    async with whole(always(bad), always(GOOD)) as rig:
        for _ in range(4):
            answer = await rig.ask(STREAMED, headers=["x-session-id: s"])
            assert answer.body == error(400) + b"data: [DONE]\n\n"
        assert set(await told(rig)) == {("Released", "client_error", "error_event", "client", 400)}
        assert rig.standing("a") == "LIVE"


async def test_what_only_looks_like_an_error_event_is_none() -> None:
    odd = [
        event({"error": None, "choices": []}),
        event({"choices": [{"delta": {"content": 'data: {"error": {"code": 500}}'}}]}),
        event({"choices": [{"logprobs": {"content": [{"token": "error"}]}}]}),
    ]
    async with whole(always(stream(*odd))) as rig:
        answer = await rig.ask(STREAMED)
        assert answer.body == b"".join(odd)
        assert await told(rig) == [OK]


async def test_an_abort_late_in_a_stream_is_a_cut_of_the_replicas() -> None:
    async with whole(
        says(stream_head(), chunk(token("a")), chunk(token("", "abort")), LAST), always(GOOD)
    ) as rig:
        assert (await rig.ask(STREAMED)).body == token("a") + token("", "abort")
        assert await told(rig) == [("Released", "upstream_cut", "abort", "replica", 200)]


async def test_an_abort_that_is_only_text_is_none() -> None:
    text = json.dumps({"choices": [{"text": '"finish_reason": "abort"'}]}).encode()
    async with whole(always(reply(text))) as rig:
        assert (await rig.ask()).body == text
        assert await told(rig) == [OK]


@pytest.mark.parametrize("body", [b"", b": only a comment\n\n", b"\n\n"])
async def test_an_event_stream_without_an_event_is_empty_and_gets_no_end_marker(
    body: bytes,
) -> None:
    async with whole(says(stream_head(), *([chunk(body)] if body else []), LAST)) as rig:
        answer = await rig.ask(STREAMED)
        assert (answer.status, answer.body) == (200, body)
        assert await told(rig) == [("Released", "upstream_empty", "fin", "replica", 200)]


async def test_a_responses_stream_without_an_end_marker_is_whole() -> None:
    events = [
        b"event: response.created\n" + event({"type": "response.created"}),
        b"event: response.completed\n" + event({"type": "response.completed"}),
    ]
    async with whole(always(stream(*events))) as rig:
        answer = await rig.ask(STREAMED, path="/v1/responses")
        assert answer.body == b"".join(events)
        assert await told(rig) == [OK]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_of_the_router_is_502_without_the_replicas_body(status: int) -> None:
    bad = always(reply(b'{"error":"your key sk-router is wrong"}', status))
    async with whole(bad, always(GOOD), keys={"a": "Bearer sk-router"}) as rig:
        answer = await rig.ask()
        assert answer.status == 502
        assert json.loads(answer.body)["error"]["code"] == "upstream_auth"
        assert b"sk-router" not in answer.body
        assert await told(rig) == [("Released", "upstream_error", "status", "router", status)]
        assert rig.standing("a") == "LIVE"


async def test_failures_of_requests_eject_in_the_end() -> None:
    async with whole(dies, retries={"max": 0}) as rig:
        for _ in range(3):
            assert (await rig.ask()).status == 502
        assert rig.standing("a") == "EJECTED"


async def test_every_replica_may_answer_with_what_is_not_json() -> None:
    odd = reply(b"this is not JSON")
    async with whole(*[always(odd)] * 3) as rig:
        for _ in NAMES[:3]:
            assert (await rig.ask()).body == b"this is not JSON"
        assert await told(rig) == [OK] * 3


async def test_a_recorder_sees_one_request_for_each_dispatch() -> None:
    async with whole(made := Recorder()) as rig:
        for _ in range(5):
            await rig.ask()
        assert len(made.requests) == len(await rig.events(e.Dispatched)) == 5
