"""Every answer that the router makes itself says which request it is for, and what to do."""

import json
import re

import pytest

from tests.proxy.replies import Recorder as Replying
from tests.proxy.serving import RawClient, Reply, client, serving
from tests.proxy.test_api_keys import key
from tests.proxy.test_cors_refusals import POST, REFUSED, SMALL
from tests.proxy.test_hangup_guard import h2_client
from tests.proxy.whole import CHAT, whole
from trioroute import events as e
from trioroute.proxy.serving.asgi import Receive, Scope, Send
from trioroute.proxy.serving.limits import ServerLimits

NEW = re.compile(r"req-[0-9a-f]{16}")
TIGHT = ServerLimits(
    graceful_timeout_s=5,
    body_bytes=1000,
    body_setting="server.max_body_bytes",
    header_bytes=4000,
    header_count=20,
    url_bytes=1000,
    header_timeout_s=0.2,
    body_timeout_s=0.2,
)
TOLD = {
    "a large body": ("of 5000 bytes", "server.max_body_bytes = 1000", "send less, or raise"),
    "large chunks": ("at least 5000 bytes", "server.max_body_bytes = 1000", "send less, or raise"),
    "many headers": ("of headers there are 3", "the 20 taken", "send fewer"),
    "a large head": ("of 50", "the 4000 that", "send fewer or shorter"),
    "a large head without an end": ("at least 50", "the 4000 that", "send fewer or shorter"),
    "a long URL": ("of 1101 bytes", "the 1000 that", "as a body"),
    "a slow head": ("over 0.2 s", "the limit here", "send it at once"),
    "a slow body": ("in 0.2 s", "the limit here", "send it faster"),
    "a version": ("only HTTP/1.0", "HTTP/1.1 and HTTP/2"),
    "a websocket": ("no websockets", "without an upgrade"),
}
"""What the answers to these of REFUSED say: the value, the limit and the remedy."""


def error(reply: Reply) -> dict[str, str]:
    told = json.loads(reply.body)["error"]
    assert set(told) == {"message", "type", "param", "code"}
    assert isinstance(told["message"], str)
    found: dict[str, str] = told
    return found


async def answer(c: RawClient, sent: bytes) -> Reply:
    await c.send(sent)
    return await c.reply()


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("what", REFUSED)
async def test_a_refusal_of_the_server_has_the_request_id_and_says_what_to_do(what: str) -> None:
    status, sent = REFUSED[what]
    line, rest = sent.split(b"\r\n", 1)
    async with whole(Replying(), limits=TIGHT, with_door=True) as rig:
        for given in (b"mine-1", b"not mine", None):
            header = b"" if given is None else b"\r\nX-Request-Id: " + given
            async with client(rig.port) as c:
                reply = await answer(c, line + header + b"\r\n" + rest)
            assert reply.status == status
            shown = reply.headers["x-request-id"]
            assert shown == "mine-1" if given == b"mine-1" else NEW.fullmatch(shown)
            for words in TOLD.get(what, ()):
                assert words in error(reply)["message"]


async def test_one_connection_too_many_is_told_how_many_there_may_be() -> None:
    one = ServerLimits(graceful_timeout_s=5, max_connections=1)
    async with whole(Replying(), limits=one, with_door=True) as rig, client(rig.port) as first:
        assert (await answer(first, b"GET /health HTTP/1.1\r\nhost: t\r\n\r\n")).status == 200
        async with client(rig.port) as second:
            reply = await second.reply()
    assert NEW.fullmatch(reply.headers["x-request-id"])
    assert "as this server takes (1)" in error(reply)["message"]


async def test_http2_refusals_have_it_too() -> None:
    async with whole(Replying(), limits=TIGHT, with_door=True) as rig, h2_client(rig.port) as h2:
        reply = await h2.post(CHAT, content=b"x" * 5000, headers={"x-request-id": "mine-2"})
    assert (reply.status_code, reply.headers["x-request-id"]) == (413, "mine-2")
    assert "server.max_body_bytes = 1000" in reply.json()["error"]["message"]


@pytest.mark.usefixtures("either_way")
async def test_a_stranger_is_told_before_the_body_by_which_id_the_log_knows_it() -> None:
    async with whole(Replying(), with_door=True) as rig:
        rig.desk.keys.renew([key()])
        shown = []
        for header in (b"x-request-id: mine-3\r\n", b""):
            async with client(rig.port) as c:
                reply = await answer(c, POST + header + b"content-length: 999999\r\n\r\n")
            assert reply.status == 401
            shown.append(reply.headers["x-request-id"])
        assert [one.request_id for one in await rig.events(e.Refused)] == shown
    assert shown[0] == "mine-3"
    assert NEW.fullmatch(shown[1])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health", 200),
        ("DELETE", "/ping", 405),
        ("GET", "/v1/models", 200),
        ("GET", "/nowhere", 404),
        ("OPTIONS", "/v1/models", 204),
    ],
)
async def test_answers_that_need_no_replica_have_it(method: str, path: str, status: int) -> None:
    asks = ["origin: https://a", "access-control-request-method: GET"]
    async with whole(Replying(), server={"cors_origins": ["*"]}) as rig:
        for given in ("mine-4", None):
            mine = [] if given is None else [f"x-request-id: {given}"]
            headers = [*mine, *(asks if method == "OPTIONS" else ())]
            reply = await rig.ask(b"", path, method, headers)
            assert reply.status == status
            shown = reply.headers["x-request-id"]
            assert shown == given if given else NEW.fullmatch(shown)


async def test_a_fault_of_the_application_has_it() -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("meant")

    def named(asked: object) -> list[tuple[bytes, bytes]]:
        return [(b"x-request-id", b"given")]

    async with serving(failing, SMALL, refusal_headers=named) as server:
        async with client(server.port) as c:
            reply = await answer(c, POST + b"\r\n")
    assert (reply.status, reply.headers["x-request-id"]) == (500, "given")
