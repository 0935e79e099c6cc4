"""Refusals of the server have Anthropic's shape on Anthropic's paths, as far as the path came."""

import json

import pytest

from tests.proxy.replies import Recorder as Replying
from tests.proxy.serving import client, serving
from tests.proxy.test_cors_refusals import REFUSED
from tests.proxy.test_hangup_guard import h2_client
from tests.proxy.test_named_answers import TIGHT
from tests.proxy.whole import whole
from trioroute.proxy.door import refusal_body
from trioroute.proxy.serving.asgi import Receive, Scope, Send
from trioroute.proxy.serving.parser import known_within
from trioroute.proxy.serving.refusal import Refusal

TYPES = {
    400: "invalid_request_error",
    408: "invalid_request_error",
    413: "request_too_large",
    414: "invalid_request_error",
    431: "invalid_request_error",
    500: "api_error",
    501: "api_error",
    505: "api_error",
}
PATHS = {
    b"/v1/messages": True,
    b"/v1/messages/count_tokens?beta=true": True,
    b"/v1/%6dessages": True,
    b"http://here/v1/messages": True,
    b"/v1/messagesx": False,
    b"/v1/chat/completions": False,
}


def at(path: bytes, sent: bytes) -> bytes:
    """The same request to another path."""
    method, target, rest = sent.split(b" ", 2)
    too_long = b"?" + target if len(target) > 1000 else b""
    return b" ".join((method, path + too_long, rest))


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("what", REFUSED)
async def test_each_refusal_has_the_shape_of_its_path(what: str) -> None:
    status, sent = REFUSED[what]
    async with whole(Replying(), limits=TIGHT, with_door=True) as rig:
        for path, anthropic in PATHS.items():
            async with client(rig.port) as c:
                await c.send(at(path, sent))
                reply = await c.reply()
            told = json.loads(reply.body)
            assert reply.status == status, path
            assert told["error"]["message"]
            assert (told.get("type") == "error") is anthropic, path
            if anthropic:
                assert told["error"]["type"] == TYPES[status]


async def test_http2_refusals_have_it_too() -> None:
    async with whole(Replying(), limits=TIGHT, with_door=True) as rig, h2_client(rig.port) as h2:
        large = await h2.post("/v1/messages?beta=true", content=b"x" * 5000)
        many = await h2.post("/v1/messages", headers={f"x-{n}": "1" for n in range(30)})
        other = await h2.post("/v1/responses", content=b"x" * 5000)
    assert (large.status_code, large.json()["error"]["type"]) == (413, "request_too_large")
    assert (many.status_code, many.json()["error"]["type"]) == (431, "invalid_request_error")
    assert large.json()["type"] == many.json()["type"] == "error"
    assert "type" not in other.json()


async def test_a_fault_of_the_application_has_it() -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("meant")

    async with serving(failing, TIGHT, refusal_body=refusal_body) as server:
        async with client(server.port) as c:
            await c.send(b"POST /v1/messages HTTP/1.1\r\nhost: t\r\n\r\n")
            reply = await c.reply()
    told = json.loads(reply.body)
    assert (reply.status, told["type"], told["error"]["type"]) == (500, "error", "api_error")


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"POST /v1/messages HTTP/1.1\r\nhost", b"/v1/messages"),
        (b"POST /v1/messages?a=/b HTTP/1.1", b"/v1/messages"),
        (b"POST /v1/messages ", b"/v1/messages"),
        (b"POST https://h:1/v1/messages HTTP/1.1", b"/v1/messages"),
        (b"POST /v1/messages", b""),
        (b"POST h/v1/messages HTTP/1.1", b""),
        (b"/v1/messages HTTP/1.1", b""),
        (b"\x16\x03\x01", b""),
    ],
)
def test_a_path_is_known_when_its_end_came(raw: bytes, path: bytes) -> None:
    assert known_within(raw).path == path


def test_a_long_message_is_cut_in_both_shapes() -> None:
    refusal = Refusal(400, "invalid_request", "x" * 9000)
    assert len(refusal_body(b"/v1/messages", refusal)) < 700
    assert refusal_body(b"/v1/embeddings", refusal) == b""
