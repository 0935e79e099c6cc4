"""What the router answers by itself: models, health, ping."""

import json
from typing import Any

import pytest
import trio

from tests.proxy.replies import Recorder, chunk, dies, reply, says, silent, stream_head
from tests.proxy.scripted import Peer, Script, always
from tests.proxy.serving import client
from tests.proxy.whole import request, whole
from trioroute import events as e
from trioroute.policy import commands as c

MODELS = "/v1/models"


def lists(*models: str, **more: object) -> bytes:
    data = [{"id": model, "object": "model", "max_model_len": 2048, **more} for model in models]
    return reply(json.dumps({"object": "list", "data": data}).encode())


def ids(body: bytes) -> list[str]:
    told = json.loads(body)
    assert told["object"] == "list"
    return [entry["id"] for entry in told["data"]]


async def test_the_list_is_the_union_over_live_replicas() -> None:
    async with whole(
        always(lists("m", "n")),
        always(lists("m", "n")),
        always(lists("o", owner="x")),
        always(lists("p")),
        models=(("m", "n"), ("m", "n"), ("o",), ("p",)),
    ) as rig:
        rig.eject("d")
        answer = await rig.ask(b"", MODELS, "GET")
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"
        assert ids(answer.body) == ["m", "n", "o"]
        entries = json.loads(answer.body)["data"]
        assert entries[0]["max_model_len"] == 2048
        assert entries[2]["owner"] == "x"
        assert await rig.events(e.Dispatched) == []


async def empty(peer: Peer) -> None:
    await peer.wait_gone()


UNHELPFUL: list[Any] = [
    dies,
    always(reply(b"not json")),
    always(reply(b"[]")),
    always(reply(b'{"data":[1,{"id":5},{"no":1}]}')),
    always(reply(b'{"error":"Unauthorized"}', 401)),
    says(stream_head(), chunk(b"{")),
    always(reply(b'{"data":null}')),
]


@pytest.mark.parametrize("script", UNHELPFUL)
async def test_a_replica_that_does_not_tell_is_listed_by_name(script: Script) -> None:
    async with whole(script) as rig:
        answer = await rig.ask(b"", MODELS, "GET")
        assert ids(answer.body) == ["m"]
        assert rig.standing("a") == "LIVE"


async def test_a_list_without_end_is_given_up() -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head())
        while True:
            await peer.send(chunk(b" " * 60_000))

    async with whole(endless) as rig:
        assert ids((await rig.ask(b"", MODELS, "GET")).body) == ["m"]
        with trio.fail_after(20):
            await rig.replicas[0].peers[0].gone.wait()


async def test_a_silent_replica_holds_the_list_up_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trioroute.proxy.models.ASK_TIMEOUT_S", 0.1)
    async with whole(silent, always(lists("n")), models=(("m",), ("n",))) as rig:
        assert ids((await rig.ask(b"", MODELS, "GET")).body) == ["m", "n"]
        with trio.fail_after(20):
            await rig.replicas[0].peers[0].gone.wait()


async def test_it_is_asked_with_the_replicas_own_key() -> None:
    async with whole(made := Recorder(lists("m")), keys={"a": "Bearer own"}) as rig:
        await rig.ask(b"", MODELS, "GET", ["authorization: Bearer client"])
        assert made.header("authorization") == "Bearer own"


async def test_no_live_replica_is_an_empty_list() -> None:
    async with whole(always(lists("m")), live=False) as rig:
        assert ids((await rig.ask(b"", MODELS, "GET")).body) == []


@pytest.mark.parametrize("path", ["/health", "/ping"])
async def test_health_is_whether_somebody_is_routable(path: str) -> None:
    async with whole(always(reply()), eject={"cooldown_ms": 1}) as rig:
        assert (await rig.ask(b"", path, "GET")).status == 200
        rig.eject("a")
        down = await rig.ask(b"", path, "GET")
        assert (down.status, down.body) == (503, b"no routable replica: EJECTED\n")
        await trio.sleep(0.01)
        rig.scrape()
        rig.scrape()
        assert rig.standing("a") == "PROBING"
        assert (await rig.ask(b"", path, "GET")).status == 200
        rig.do(c.Drain, replica="a", on=True)
        assert (await rig.ask(b"", path, "GET")).status == 503
        assert await rig.events(e.Dispatched) == []


async def test_health_without_any_replica() -> None:
    async with whole() as rig:
        assert (await rig.ask(b"", "/health", "GET")).body == b"no routable replica: none known\n"


@pytest.mark.parametrize("path", ["/health", "/ping", MODELS])
async def test_head_is_get_without_a_body_and_the_connection_goes_on(path: str) -> None:
    async with whole(always(lists("m"))) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(b"", path, "GET"))
            got = await raw.reply()
            await raw.send(request(b"", path, "HEAD"))
            head = await raw.reply(bodiless=True)
            await raw.send(request(b"", path, "GET"))
            assert (await raw.reply()).body == got.body
        assert head.status == got.status == 200
        assert head.headers["content-length"] == got.headers["content-length"]


@pytest.mark.parametrize("path", ["/health", "/ping"])
async def test_other_methods_there_are_405(path: str) -> None:
    async with whole(always(reply())) as rig:
        answer = await rig.ask(b"{}", path)
        assert answer.status == 405
        assert answer.headers["allow"] == "GET, HEAD"


async def test_retry_after_is_when_the_pools_own_cooldown_ends() -> None:
    async with whole(dies, dies, models=(("m",), ("n",)), retries={"max": 0}) as rig:
        rig.configure(eject={"cooldown_ms": 20_000})
        rig.eject("a")
        rig.configure(eject={"cooldown_ms": 3_000})
        rig.eject("b")
        assert 18 <= rig.desk.retry_after_s("m") <= 20
        assert 2 <= rig.desk.retry_after_s("n") <= 3
        assert rig.desk.retry_after_s("none") == 1


async def test_what_is_listed_can_be_asked_for_up_to_the_longest_name() -> None:
    longest = "m" * e.MODEL_NAME_MAX
    async with whole(always(lists(longest)), models=((longest,),)) as rig:
        assert ids((await rig.ask(b"", MODELS, "GET")).body) == [longest]
        for name, status in ((longest, 200), (longest + "m", 404)):
            asked = json.dumps({"model": name, "messages": []}).encode()
            assert (await rig.ask(asked)).status == status


async def test_a_body_that_is_not_called_json_is_told_so_and_not_to_name_a_model() -> None:
    body = b'{"model":"m","messages":[]}'
    models = (("m",), ("n",))
    async with whole(always(lists("m")), always(lists("n")), models=models) as rig:
        form = ("content-type: application/x-www-form-urlencoded",)
        answer = await rig.ask(body, "/v1/chat/completions", "POST", headers=form)
    assert answer.status == 400
    said = json.loads(answer.body)["error"]["message"]
    assert "content-type is not JSON (application/x-www-form-urlencoded)" in said
    assert "application/json" in said
