"""Heads on their way through, in both directions."""

import json

import pytest
import trio

from tests.proxy.replies import GOOD_STREAM, LAST, Recorder, chunk, dies, reply, says, stream_head
from tests.proxy.scripted import Peer, Script, always
from tests.proxy.serving import client, eventually
from tests.proxy.whole import CHAT, chat, request, whole
from trioroute import events as e
from trioroute.policy import commands as c

GOOD = reply(b'{"good":1}')


async def test_what_the_replica_gets() -> None:
    async with whole(made := Recorder()) as rig:
        answer = await rig.ask(
            headers=[
                "Accept-Encoding: gzip, br",
                "Authorization: Bearer client-key",
                "x-api-key: k2",
                "X-Custom:  spaced  out ",
                "x-same: 1",
                "x-same: 2",
                "Connection: keep-alive, X-Private",
                "X-Private: hop",
                "Keep-Alive: timeout=5",
                "Proxy-Authorization: Basic eA==",
                "Proxy-Connection: keep-alive",
                "TE: trailers",
                "Expect: 100-continue",
                "X-Forwarded-For: 10.0.0.1",
                "X-Forwarded-For: 10.0.0.2",
                "X-Forwarded-Proto: https",
                "Via: 1.0 first",
                "Via: 1.1 second",
            ],
        )
        assert answer.status == 200
        found = made.headers()
        names = [name for name, _ in found]
        assert made.line() == f"POST {CHAT} HTTP/1.1"
        assert made.header("host") == rig.replicas[0].url.removeprefix("http://")
        assert made.header("accept-encoding") == "gzip, br"
        assert made.header("authorization") == "Bearer client-key"
        assert made.header("x-api-key") == "k2"
        assert made.header("x-custom") == "spaced  out"
        assert [value for name, value in found if name == "x-same"] == ["1", "2"]
        assert made.header("content-length") == str(len(made.body()))
        assert made.header("x-forwarded-for") == "10.0.0.1, 10.0.0.2, 127.0.0.1"
        assert made.header("x-forwarded-proto") == "http"
        assert made.header("x-forwarded-host") == "router.test"
        assert made.header("via") == "1.0 first, 1.1 second, 1.1 trioroute"
        assert made.header("x-request-id") == answer.headers["x-request-id"]
        gone = {"connection", "x-private", "keep-alive", "proxy-authorization", "te", "expect"}
        assert not gone & set(names)
        assert "proxy-connection" not in names


async def test_target_and_query_go_on_as_they_came() -> None:
    async with whole(made := Recorder()) as rig:
        await rig.ask(b"", "/v1/files/a%2Fb%20c?x=%20&y=a+b&&z", "GET")
        assert made.line() == "GET /v1/files/a%2Fb%20c?x=%20&y=a+b&&z HTTP/1.1"
        assert "content-length" not in dict(made.headers())


async def test_the_path_of_a_replicas_address_goes_before_it() -> None:
    async with whole(made := Recorder()) as rig:
        rig.do(c.Join, replica="a", url=rig.replicas[0].url + "/base", models=("m",))
        rig.scrape()
        assert (await rig.ask()).status == 200
        assert made.line() == f"POST /base{CHAT} HTTP/1.1"


@pytest.mark.parametrize(
    ("keys", "forward", "expected"),
    [
        ({}, True, "Bearer client"),
        ({}, False, None),
        ({"a": "Bearer own"}, True, "Bearer own"),
        ({"a": "Bearer own"}, False, "Bearer own"),
    ],
)
async def test_whose_key_the_replica_sees(
    keys: dict[str, str], forward: bool, expected: str | None
) -> None:
    async with whole(made := Recorder(), keys=keys, server={"forward_client_auth": forward}) as rig:
        await rig.ask(headers=["authorization: Bearer client", "x-api-key: client"])
        seen = [value for name, value in made.headers() if name == "authorization"]
        assert seen == ([expected] if expected else [])
        assert ("x-api-key" in dict(made.headers())) == (expected == "Bearer client")


async def test_the_clients_own_key_refused_is_passed_through() -> None:
    async with whole(always(reply(b'{"error":"Unauthorized"}', 401))) as rig:
        answer = await rig.ask(headers=["authorization: Bearer wrong"])
        assert (answer.status, answer.body) == (401, b'{"error":"Unauthorized"}')


async def test_what_the_client_gets() -> None:
    noisy = reply(
        b"x",
        200,
        "Content-Type: Text/Plain",
        "Connection: keep-alive, X-Private",
        "X-Private: hop",
        "Keep-Alive: timeout=5",
        "Proxy-Authenticate: Basic",
        "Trailer: x",
        "Upgrade: h2",
        "X-Request-Id: theirs",
        "Via: 1.1 engine-proxy",
        "Server: uvicorn",
        "X-TrioRoute-Replica: inner",
        "X-TrioRoute-Decision: inner/1",
        "Cache-Control: max-age=1",
    )
    async with whole(always(noisy)) as rig:
        answer = await rig.ask(headers=["x-request-id: mine-1"])
        gone = {"x-private", "keep-alive", "proxy-authenticate", "trailer", "upgrade", "connection"}
        assert not gone & set(answer.headers)
        assert answer.headers["content-type"] == "Text/Plain"
        assert answer.headers["server"] == "uvicorn"
        assert answer.headers["cache-control"] == "max-age=1"
        assert answer.headers["via"] == "1.1 engine-proxy, 1.1 trioroute"
        assert answer.headers["x-request-id"] == "mine-1"
        (dispatched,) = await rig.events(e.Dispatched)
        assert dispatched.request_id == "mine-1"
        number = (await rig.released()).dispatch
        assert answer.headers["x-trioroute-decision"] == f"r1/{number}"
        assert answer.headers["x-trioroute-replica"] == "a"
        assert answer.headers["x-trioroute-reason"] == "load"
        assert answer.headers["x-trioroute-attempts"] == "1"


@pytest.mark.parametrize("script", [always(GOOD), dies])
async def test_reveal_off_hides_replica_and_reason_only(script: Script) -> None:
    async with whole(script, server={"reveal": False}) as rig:
        headers = (await rig.ask()).headers
        assert "x-trioroute-replica" not in headers
        assert "x-trioroute-reason" not in headers
        assert {"x-trioroute-decision", "x-trioroute-attempts", "x-request-id"} <= set(headers)


@pytest.mark.parametrize("reveal", [True, False])
async def test_no_error_tells_an_address_and_a_hidden_replica_is_not_named(reveal: bool) -> None:
    nobody = "http://127.0.0.1:1"
    async with whole(server={"reveal": reveal}) as rig:
        rig.do(c.Join, replica="secret-gpu", url=nobody, models=("m",))
        rig.scrape("secret-gpu")
        answer = await rig.ask()
        assert answer.status == 502
        message = json.loads(answer.body)["error"]["message"]
        assert "refused" in message
        assert ("secret-gpu" in message) == reveal
        assert "127.0.0.1" not in message


async def test_event_streams_ask_not_to_be_buffered() -> None:
    async with whole(says(stream_head(), *map(chunk, GOOD_STREAM), LAST)) as rig:
        headers = (await rig.ask(chat(stream=True))).headers
        assert headers["cache-control"] == "no-cache"
        assert headers["x-accel-buffering"] == "no"
        assert headers["content-type"] == "text/event-stream"
    own = stream_head("Cache-Control: no-store", "X-Accel-Buffering: yes")
    async with whole(says(own, *map(chunk, GOOD_STREAM), LAST)) as rig:
        headers = (await rig.ask(chat(stream=True))).headers
        assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-store", "yes")
    async with whole(always(GOOD)) as rig:
        assert "x-accel-buffering" not in (await rig.ask()).headers


HOSTILE = [
    "x" * 129,
    "x" * 8000,
    "a b",
    "a\tb",
    'a"b',
    "a%0ab",
    "ä",
    "a,b",
    "",
    "a/b",
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda value: value[:8])
async def test_a_hostile_request_id_is_replaced(hostile: str) -> None:
    async with whole(made := Recorder()) as rig:
        answer = await rig.ask(headers=[f"x-request-id: {hostile}"])
        given = answer.headers["x-request-id"]
        assert given.startswith("req-")
        assert made.header("x-request-id") == given
        (dispatched,) = await rig.events(e.Dispatched)
        assert dispatched.request_id == given


@pytest.mark.parametrize("harmless", ["a", "A.b_c:d-9", "x" * 128])
async def test_a_harmless_request_id_is_kept(harmless: str) -> None:
    async with whole(made := Recorder()) as rig:
        answer = await rig.ask(headers=[f"X-Request-Id: {harmless}"])
        assert answer.headers["x-request-id"] == made.header("x-request-id") == harmless


async def test_two_requests_of_one_id_in_flight_reach_the_engine_with_two() -> None:
    """Engines break on two live requests of one id."""
    live: set[str] = set()
    seen: list[str] = []
    go = trio.Event()

    async def engine(peer: Peer) -> None:
        while taken := await peer.request():
            head = taken.partition(b"\r\n\r\n")[0].decode()
            (own,) = [line[14:] for line in head.split("\r\n") if line.startswith("x-request-id")]
            assert own not in live
            live.add(own)
            seen.append(own)
            await go.wait()
            live.discard(own)
            await peer.send(GOOD)

    async with whole(engine) as rig:
        async with trio.open_nursery() as nursery:
            answers = []

            async def one() -> None:
                answers.append(await rig.ask(headers=["x-request-id: same"]))

            for _ in range(3):
                nursery.start_soon(one)
            await eventually(lambda: len(seen) == 3)
            go.set()
        assert [answer.status for answer in answers] == [200] * 3
        assert {answer.headers["x-request-id"] for answer in answers} == {"same"}
        assert len(set(seen)) == 3
        assert {one.request_id for one in await rig.events(e.Dispatched)} == {"same"}
        await rig.ask(headers=["x-request-id: same"])
        assert seen[-1] == "same", "no other one is under way"


async def test_one_framing_whatever_the_replica_used() -> None:
    async with whole(
        says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk(b"abc"), LAST)
    ) as rig:
        async with client(rig.port) as raw:
            await raw.send(request() + request())
            for _ in range(2):
                assert (await raw.reply()).body == b"abc"


@pytest.mark.parametrize("status", [204, 304])
async def test_answers_without_a_body(status: int) -> None:
    bare = b"HTTP/1.1 %d X\r\nx-mine: 1\r\n\r\n" % status
    async with whole(always(bare)) as rig:
        async with client(rig.port) as raw:
            for _ in range(2):
                await raw.send(request(b"", "/v1/files/x", "DELETE"))
                answer = await raw.reply()
                assert (answer.status, answer.headers["x-mine"]) == (status, "1")
        assert [one.outcome for one in await rig.ends()] == ["ok", "ok"]


async def test_errors_of_the_router_carry_the_request_id() -> None:
    async with whole(always(GOOD)) as rig:
        for body, path in ((b"{", CHAT), (b"{}", "/nope"), ({"model": "none"}, CHAT)):
            answer = await rig.ask(body, path, headers=["x-request-id: mine"])
            assert answer.headers["x-request-id"] == "mine"
            assert answer.headers["content-type"] == "application/json"
