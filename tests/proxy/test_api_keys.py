"""Client API keys over real sockets: who gets in, how often, and what never goes on."""

import pytest
import trio

from tests.proxy.replies import Recorder, reply, says
from tests.proxy.scripted import Peer, Script
from tests.proxy.serving import RawClient, client, eventually
from tests.proxy.whole import CHAT, Whole, chat, request, whole
from trioroute import events as e
from trioroute.settings import ApiKey, key_digest

GOOD, OTHER = "tr-good-canary", "tr-other-canary"
BEARER = f"Authorization: Bearer {GOOD}"
SYSTEM = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]}


def key(name: str = "team", text: str = GOOD, **fields: object) -> ApiKey:
    return ApiKey(name=name, sha256=key_digest(text), **fields)  # type: ignore[arg-type]  # test data


@pytest.mark.parametrize(
    "headers",
    [
        [],
        ["Authorization: Bearer wrong"],
        [f"Authorization: Basic {GOOD}"],
        ["Authorization: Bearer"],
        ["x-api-key: "],
        [f"api-key: {GOOD}"],
    ],
)
async def test_who_has_no_key_gets_401_and_nothing_goes_on(headers: list[str]) -> None:
    async with whole(made := Recorder()) as rig:
        rig.desk.keys.renew([key()])
        for path, method in ((CHAT, "POST"), ("/v1/models", "GET"), ("/tokenize", "POST")):
            answer = await rig.ask(path=path, method=method, headers=headers)
            assert answer.status == 401
            assert b'"invalid_api_key"' in answer.body
            assert b"authentication_error" in answer.body
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert b"canary" not in answer.body
        assert (await rig.ask(b"", "/health", "GET", headers)).status == 200
        assert (await rig.ask(b"", "/ping", "GET", headers)).status == 200
        assert not made.requests
        assert {one.code for one in await rig.events(e.Refused)} == {"invalid_api_key"}


@pytest.mark.parametrize(
    "headers, told",
    [
        ([], b"needs an API key"),
        (["Authorization: Bearer "], b"needs an API key"),
        ([f"Authorization: Basic {GOOD}"], b"needs an API key"),
        (["Authorization: Bearer tr-canary-gone"], b"is not known"),
        (["x-api-key: tr-canary-gone"], b"is not known"),
    ],
)
async def test_a_key_that_is_not_known_is_told_from_no_key(headers: list[str], told: bytes) -> None:
    async with whole(Recorder()) as rig:
        rig.desk.keys.renew([key()])
        answer = await rig.ask(headers=headers)
        assert told in answer.body
        assert b"canary" not in answer.body


async def test_two_keys_of_one_name_share_its_limits() -> None:
    async with whole(Recorder()) as rig:
        rig.desk.keys.renew(
            [key(requests_per_minute=1), key(text=OTHER, requests_per_minute=1), key("b", "tr-3")]
        )
        assert (await rig.ask(headers=[BEARER])).status == 200
        assert (await rig.ask(headers=[f"x-api-key: {OTHER}"])).status == 429
        rig.desk.keys.renew([key(text=OTHER)])
        assert (await rig.ask(headers=[BEARER])).status == 401
        assert (await rig.ask(headers=[f"x-api-key: {OTHER}"])).status == 200
        assert {one.key for one in await rig.events(e.Dispatched)} == {"team"}


@pytest.mark.parametrize(
    "headers",
    [
        [BEARER],
        [f"authorization: bearer {GOOD}"],
        [f"x-api-key: {GOOD}"],
        ["Authorization: Bearer expired", f"x-api-key: {GOOD}"],
    ],
)
async def test_a_key_opens_the_door_and_stays_here(headers: list[str]) -> None:
    async with whole(made := Recorder()) as rig:
        rig.desk.keys.renew([key(), key("x", OTHER)])
        path = f"{CHAT}?a=1&key={GOOD}&b=%2F&k2=tr%2Dother-canary&c"
        answer = await rig.ask(path=path, headers=[*headers, f"api-key: {GOOD}"])
        assert answer.status == 200
        assert b"canary" not in made.requests[0]
        assert "authorization" not in dict(made.headers())
        assert made.line() == f"POST {CHAT}?a=1&b=%2F&c HTTP/1.1"
        (dispatched,) = await rig.events(e.Dispatched)
        assert dispatched.key == "team"
        assert all(b"canary" not in row.body for row in rig.rows())


async def test_the_replica_gets_its_own_key_instead() -> None:
    async with whole(made := Recorder(), keys={"a": "Bearer upstream"}) as rig:
        rig.desk.keys.renew([key()])
        await rig.ask(headers=[BEARER])
        assert made.header("authorization") == "Bearer upstream"


@pytest.mark.parametrize("status", [401, 403])
async def test_a_replica_that_wants_a_key_and_has_none_is_502(status: int) -> None:
    async with whole(says(reply(b"who are you", status))) as rig:
        rig.desk.keys.renew([key()])
        answer = await rig.ask(headers=[BEARER])
        assert answer.status == 502
        assert b'"upstream_auth"' in answer.body
        assert b"who are you" not in answer.body


async def test_the_project_of_a_key_is_part_of_the_prefix_whatever_the_header_says() -> None:
    async with whole(Recorder()) as rig:
        rig.desk.keys.renew([key(project="p1"), key("b", OTHER, project="p2"), key("c", "tr-3")])
        for header in (BEARER, f"x-api-key: {OTHER}", "x-api-key: tr-3"):
            await rig.ask(chat(**SYSTEM), headers=[header, "x-project-id: p1"])
        one, two, three = [d.prefix for d in await rig.events(e.Dispatched)]
        assert one == three, "the header counts for a key without a project"
        assert one != two


def slow(gate: trio.Event) -> Script:
    async def script(peer: Peer) -> None:
        while await peer.request():
            await gate.wait()
            await peer.send(reply())

    return script


async def test_a_key_has_so_many_requests_under_way_and_no_more() -> None:
    gate = trio.Event()
    async with whole(slow(gate), Recorder()) as rig:
        rig.desk.keys.renew([key(max_in_flight=1), key("b", OTHER)])
        async with client(rig.port) as first:
            await hold(rig, first)
            full = await rig.ask(headers=[BEARER])
            assert (full.status, full.headers["retry-after"]) == (429, "1")
            assert b'"rate_limited"' in full.body
            assert (await rig.ask(headers=[f"x-api-key: {OTHER}"])).status == 200
            gate.set()
            assert (await first.reply()).status == 200
        assert (await rig.ask(headers=[BEARER])).status == 200
        refused = await rig.events(e.Refused)
        assert [(one.code, one.key) for one in refused] == [("rate_limited", "team")]


async def hold(rig: Whole, raw: RawClient) -> None:
    """A request that is still being answered when this returns."""
    body = chat(stream=True)
    await raw.send(request(body, headers=[BEARER]))
    await eventually(lambda: rig.in_flight == 1)


async def test_requests_per_minute_fill_evenly() -> None:
    async with whole(Recorder()) as rig:
        rig.desk.keys.renew([key(requests_per_minute=2)])
        now_ms = rig.desk.now_ms()
        rig.desk.now_ms = lambda: now_ms
        statuses = [(await rig.ask(headers=[BEARER])).status for _ in range(3)]
        assert statuses == [200, 200, 429]
        refused = await rig.ask(headers=[BEARER])
        assert refused.headers["retry-after"] == "31"
        now_ms += 31_000
        assert (await rig.ask(headers=[BEARER])).status == 200
        assert (await rig.ask(headers=[BEARER])).status == 429


async def test_strangers_cannot_fill_the_log() -> None:
    async with whole(Recorder()) as rig:
        rig.desk.keys.renew([key()])
        now_ms = rig.desk.now_ms()
        rig.desk.now_ms = lambda: now_ms
        for _ in range(30):
            assert (await rig.ask()).status == 401
        assert len(await rig.events(e.Refused)) == 10


async def test_other_keys_count_from_their_reload_on_and_what_runs_runs_on() -> None:
    gate = trio.Event()
    async with whole(slow(gate)) as rig, client(rig.port) as raw:
        rig.desk.keys.renew([key()])
        await hold(rig, raw)
        rig.desk.keys.renew([key("b", OTHER)])
        assert (await rig.ask(headers=[BEARER])).status == 401
        gate.set()
        assert (await raw.reply()).status == 200
        rig.desk.keys.renew([key("c", "tr-3")])
        assert "team" not in rig.desk.keys._use
        assert GOOD not in repr(rig.desk.keys)
        assert key_digest(GOOD) not in repr(rig.desk.keys)
