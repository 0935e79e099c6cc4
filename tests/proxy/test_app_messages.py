"""Anthropic's clients: errors of the router on `/v1/messages` have the shape that they read."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio

from tests.proxy.replies import Recorder, chunk, reply, says, silent, stream_head
from tests.proxy.scripted import Peer, Script
from tests.proxy.test_api_keys import key
from tests.proxy.whole import CHAT, Whole, chat, whole

MESSAGES = "/v1/messages"
DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta"}\n\n'


def no_such_model(rig: Whole) -> dict[str, Any]:
    return chat(model="other")


def nobody_there(rig: Whole) -> dict[str, Any]:
    rig.eject("a")
    return chat()


def too_late(rig: Whole) -> dict[str, Any]:
    rig.configure(timeouts={"first_byte_ms": 50})
    return chat()


def no_key(rig: Whole) -> dict[str, Any]:
    rig.desk.keys.renew([key()])
    return chat()


@pytest.mark.parametrize(
    ("prepare", "script", "kind", "code"),
    [
        (no_such_model, silent, "not_found_error", "model_not_found"),
        (nobody_there, silent, "api_error", "upstream_failed"),
        (too_late, silent, "timeout_error", "first_byte_timeout"),
        (no_key, silent, "authentication_error", "invalid_api_key"),
    ],
)
@pytest.mark.parametrize("path", [MESSAGES, "/v1/messages/count_tokens"])
async def test_an_error_has_both_shapes(
    path: str, prepare: Callable[[Whole], dict[str, Any]], script: Script, kind: str, code: str
) -> None:
    async with whole(script, refusing="a" if prepare is nobody_there else "") as rig:
        told = json.loads((await rig.ask(prepare(rig), path)).body)
        assert told["type"] == "error"
        assert set(told) == {"type", "error"}
        assert set(told["error"]) == {"type", "message", "param", "code"}
        assert (told["error"]["type"], told["error"]["code"]) == (kind, code)
        other = json.loads((await rig.ask(prepare(rig))).body)
        assert set(other) == {"error"}
        assert other["error"]["code"] == code


async def test_a_stranger_is_told_so_at_the_door() -> None:
    async with whole(silent, with_door=True) as rig:
        rig.desk.keys.renew([key()])
        told = json.loads((await rig.ask(path=MESSAGES)).body)
        assert (told["type"], told["error"]["type"]) == ("error", "authentication_error")
        other = json.loads((await rig.ask()).body)
        assert set(other) == {"error"}
        assert other["error"]["type"] == "authentication_error"


@pytest.mark.parametrize(("path", "named"), [(MESSAGES, True), (CHAT, False)])
async def test_a_cut_is_an_event_that_is_not_passed_over(path: str, named: bool) -> None:
    """The official client passes over events without a name."""
    async with whole(says(stream_head(), chunk(DELTA))) as rig:
        _, body = await rig.broken(chat(stream=True), path)
        last = body.removeprefix(DELTA)
        begin = b'event: error\ndata: {"type":"error","error":{' if named else b'data: {"error":{'
        assert last.startswith(begin)
        assert last.endswith(b"}}\n\n")
        assert b'"upstream_cut"' in last


@pytest.mark.parametrize("answer", [b"", reply(b'{"error":{"message":"no"}}', 400)])
async def test_an_error_behind_a_heartbeat_is_one_too(answer: bytes) -> None:
    async def slow(peer: Peer) -> None:
        await peer.request()
        await trio.sleep(0.2)
        await peer.send(answer)

    async with whole(slow, server={"heartbeat_ms": 50}) as rig:
        _, body = await rig.broken(chat(stream=True), MESSAGES)
        assert b'event: error\ndata: {"type":"error","error":{' in body


async def test_an_overloaded_engine_is_busy_and_not_broken() -> None:
    """Anthropic's error events tell no number, only a type."""
    event = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n'
    async with whole(says(stream_head(), chunk(event)), Recorder()) as rig:
        await rig.ask(chat(stream=True), MESSAGES)
        ended = await rig.ends()
        assert ended[0].status == 503
        assert ended[0].blame == "none"
