"""Bytes pass untouched however they are cut, and the tap reads beside them."""

import json
import random
from hashlib import sha256
from typing import Any

import pytest
import trio
import trio.lowlevel

from tests.proxy.replies import DONE, LAST, Recorder, chunk, event, reply, says, stream, token
from tests.proxy.scripted import Peer, Script, always
from tests.proxy.serving import client
from tests.proxy.whole import chat, whole
from trioroute import events as e

pytestmark = pytest.mark.usefixtures("either_way")

STREAMED = chat(stream=True)
USAGE = event({"id": "c1", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
WHOLE_STREAM = token("hé\u4e16\U0001f600") + token("", "stop") + USAGE + DONE


def cut(text: bytes, sizes: list[int]) -> list[bytes]:
    pieces: list[bytes] = []
    at = 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    return pieces


def sends(pieces: list[bytes], kind: str = "text/event-stream") -> Script:
    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(
                b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n"
                % kind.encode()
            )
            for piece in pieces:
                await peer.send(chunk(piece))
                await trio.lowlevel.checkpoint()
            await peer.send(LAST)

    return script


VARIANTS = {
    "plain": WHOLE_STREAM,
    "crlf": WHOLE_STREAM.replace(b"\n", b"\r\n"),
    "cr": WHOLE_STREAM.replace(b"\n", b"\r"),
    "no last newline": WHOLE_STREAM.rstrip(b"\n"),
    "comments": b": ping\n\n" + WHOLE_STREAM.replace(b"\n\n", b"\n\n: ping\n\n"),
    "fields": b"id: 1\nretry: 5\nevent: odd\n" + WHOLE_STREAM,
    "two data lines": WHOLE_STREAM.replace(b', "usage"', b',\ndata:  "usage"'),
}


@pytest.mark.parametrize("sizes", [[1], [10_000], [7, 1, 30], [3]], ids=str)
@pytest.mark.parametrize("text", VARIANTS.values(), ids=VARIANTS.keys())
async def test_any_stream_in_any_pieces_is_the_same_stream(text: bytes, sizes: list[int]) -> None:
    async with whole(sends(cut(text, sizes))) as rig:
        answer = await rig.ask(STREAMED)
        assert sha256(answer.body).digest() == sha256(text).digest()
        released = await rig.released()
        assert released.outcome == "ok"
        assert released.bytes == len(text)
        assert (released.prompt_tokens, released.completion_tokens) == (7, 3)
        assert released.ttfb_ms is not None
        assert released.ttfb_ms <= released.duration_ms


async def test_the_end_of_events_in_a_row_with_carriage_returns_is_an_error_too() -> None:
    text = (token("a") + event({"error": {"code": 500}}) + DONE).replace(b"\n", b"\r\n")
    async with whole(sends([text[:40], text[40:]])) as rig:
        assert (await rig.ask(STREAMED)).body == text
        assert (await rig.released()).outcome == "upstream_error"


JSON_BODIES: list[tuple[Any, tuple[int | None, int | None]]] = [
    ({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 9}}, (5, 9)),
    ({"usage": {"input_tokens": 5, "output_tokens": 9}, "x": {"prompt_tokens": 1}}, (5, 9)),
    (
        {"usage": {"prompt_tokens_details": {"cached_tokens": 2}, "prompt_tokens": 5}},
        (5, None),
    ),
    ({"usage": {"completion_tokens": 4}, "prompt_tokens": 77}, (None, 4)),
    ({"usage": None}, (None, None)),
    ({"text": '"usage": {"prompt_tokens": 1}'}, (None, None)),
    ({"usage": {"prompt_tokens": -1, "completion_tokens": 1.5}}, (None, None)),
    ({"usage": {"prompt_tokens": "5", "completion_tokens": True}}, (None, None)),
    ({"data": [0.5] * 30_000, "usage": {"prompt_tokens": 6}}, (6, None)),
    ({"usage": {"prompt_tokens": 6}, "data": [0.5] * 30_000}, (6, None)),
    ([1], (None, None)),
]


@pytest.mark.parametrize(("body", "usage"), JSON_BODIES, ids=lambda value: str(value)[:40])
async def test_usage_of_json_is_read_and_the_rest_is_unknown(body: Any, usage: Any) -> None:
    text = json.dumps(body).encode()
    async with whole(always(reply(text))) as rig:
        assert (await rig.ask()).body == text
        released = await rig.released()
        assert (released.prompt_tokens, released.completion_tokens) == usage


async def test_usage_of_a_long_messages_stream_comes_from_both_its_ends() -> None:
    begin = event({"type": "message_start", "message": {"usage": {"input_tokens": 8}}})
    end = event({"type": "message_delta", "usage": {"output_tokens": 4}})
    text = begin + token("x") * 500 + end
    async with whole(sends(cut(text, [5000]))) as rig:
        await rig.ask(STREAMED, path="/v1/messages")
        released = await rig.released()
        assert (released.prompt_tokens, released.completion_tokens) == (8, 4)


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 1_000_000])
async def test_bodies_of_any_size_pass_whole(size: int) -> None:
    noise = random.Random(size).randbytes(size)
    async with whole(made := Recorder(reply(noise, 200, "content-type: x/y"))) as rig:
        answer = await rig.ask(noise, "/v1/files", headers=["content-type: x/y"])
        assert sha256(answer.body).digest() == sha256(noise).digest()
        assert made.body() == noise
        assert (await rig.released()).bytes == size


async def test_a_body_sent_in_chunks_reaches_the_replica_whole() -> None:
    async with whole(made := Recorder()) as rig:
        raw = json.dumps(chat()).encode()
        pieces = b"".join(map(chunk, cut(raw, [5]))) + LAST
        async with client(rig.port) as one:
            await one.send(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\n"
                b"transfer-encoding: chunked\r\n\r\n" + pieces
            )
            assert (await one.reply()).status == 200
        assert made.body() == raw
        assert made.header("content-length") == str(len(raw))


# Responses that can be followed up (RULES 5.11)

RESPONSE = {"id": "resp_abc-1", "object": "response", "output": []}
CREATED = b"event: response.created\n" + event({"type": "response.created", "response": RESPONSE})
COMPLETED = event({"type": "response.completed", "response": RESPONSE})


@pytest.mark.parametrize(
    "script",
    [
        always(reply(json.dumps(RESPONSE).encode())),
        sends(cut(json.dumps(RESPONSE).encode(), [3]), "application/json"),
        always(stream(CREATED, COMPLETED)),
        sends(cut(CREATED + COMPLETED, [1])),
        sends(cut(CREATED + COMPLETED, [50])),
    ],
    ids=["json", "json in pieces", "stream", "stream in bytes", "stream in pieces"],
)
async def test_a_follow_up_goes_to_the_replica_that_made_the_response(script: Script) -> None:
    async with whole(script, script, script) as rig:
        made = (await rig.ask(STREAMED, path="/v1/responses")).headers["x-trioroute-replica"]
        released = await rig.released()
        assert released.response is not None
        assert "resp_abc" not in repr(rig.rows())
        follow_up = chat(previous_response_id="resp_abc-1")
        for body, path, method in (
            (follow_up, "/v1/responses", "POST"),
            (b"", "/v1/responses/resp_abc-1", "GET"),
            (b"", "/v1/responses/resp_abc-1?stream=true", "GET"),
            (b"", "/v1/responses/resp_abc-1/input_items", "GET"),
            (b"", "/v1/responses/resp_abc-1/cancel", "POST"),
            (b"", "/v1/responses/resp_abc-1", "DELETE"),
        ):
            headers = (await rig.ask(body, path, method)).headers
            assert headers["x-trioroute-replica"] == made
            assert headers["x-trioroute-reason"] == "affinity:response"
        other = await rig.ask(b"", "/v1/responses/resp_other", "GET")
        assert other.headers["x-trioroute-reason"] == "load"


async def test_a_response_is_found_although_its_path_names_no_pool() -> None:
    response = always(reply(json.dumps(RESPONSE).encode()))
    async with whole(response, response, models=(("m",), ("n",))) as rig:
        made = await rig.ask(chat(model="n"), path="/v1/responses")
        assert made.headers["x-trioroute-replica"] == "b"
        again = await rig.ask(b"", "/v1/responses/resp_abc-1", "GET")
        assert again.headers["x-trioroute-replica"] == "b"
        assert (await rig.ask(b"", "/v1/responses/resp_x", "GET")).status == 400


async def test_only_the_responses_api_makes_responses() -> None:
    async with whole(always(reply(json.dumps(RESPONSE).encode()))) as rig:
        await rig.ask()
        assert (await rig.released()).response is None


async def test_pins_follow_a_request_that_moves_on() -> None:
    async with whole(says(reply(b"", 500)), always(reply()), always(reply())) as rig:
        headers = ["x-session-id: s"]
        body = chat(messages=[{"role": "system", "content": "you are"}])
        first = (await rig.ask(body, headers=headers)).headers["x-trioroute-replica"]
        assert first != "a"
        for _ in range(4):
            answer = await rig.ask(body, headers=headers)
            assert answer.headers["x-trioroute-replica"] == first
            assert answer.headers["x-trioroute-reason"] == "affinity:session"
        bound = await rig.events(e.Rebound)
        assert {(one.kind, one.previous, one.replica) for one in bound} == {
            ("session", "a", first),
            ("prefix", "a", first),
        }
