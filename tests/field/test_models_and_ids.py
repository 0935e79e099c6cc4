"""Faults of models, request ids and limits between router and replica (group I)."""

import json
import re

import attrs
import pytest
import trio

from tests.proxy.replies import Recorder, reply, silent
from tests.proxy.scripted import Peer
from tests.proxy.serving import Reply, client, eventually
from tests.proxy.whole import Whole, chat, request, whole
from trioroute import events as e
from trioroute.policy import commands as c

NOT_FOUND = reply(b'{"error":{"message":"The model `x` does not exist","code":404}}', 404)


def where(answer: Reply) -> str:
    return answer.headers["x-trioroute-replica"]


def told_models(rig: Whole, name: str, *models: str) -> None:
    reading = e.Reading(
        running=0, waiting=0, kv_m=None, tokens=None, asleep=False, own=0, models=models
    )
    rig.do(c.Observe, readings={name: reading})


async def test_model_on_some_replicas_only() -> None:
    """An adapter that only a has: asked there, whatever the session's pin for the base model is.

    A 404 of a replica is the client's answer (RULES 6.2: a 4xx never counts, HTTP.md: never
    tried again); it ejects nobody and moves no pin.
    """
    scripts = [Recorder(), Recorder()]
    async with whole(*scripts, models=(("m", "x"), ("m",))) as rig:
        session = ["x-session-id: s"]
        rig.do(c.Drain, replica="a", on=True)
        assert where(await rig.ask(headers=session)) == "b"
        rig.do(c.Drain, replica="a", on=False)
        for _ in range(5):
            assert where(await rig.ask(chat(model="x"), headers=session)) == "a"
        scripts[0].response = NOT_FOUND
        answer = await rig.ask(chat(model="x"), headers=session)
        assert (answer.status, b"does not exist" in answer.body) == (404, True)
        assert rig.standing("a") == "LIVE"
        told_models(rig, "a", "m")
        answer = await rig.ask(chat(model="x"), headers=session)
        assert (answer.status, "retry-after" in answer.headers) == (503, True)
        assert where(await rig.ask(headers=session)) == "b", "the base model's pin is where it was"
        told_models(rig, "b", "m", "x")
        assert where(await rig.ask(chat(model="x"), headers=session)) == "b"


@attrs.define
class Engine:
    """Refuses a request id that is running, as engines do; the id is the client's header."""

    running: set[str] = attrs.field(factory=set)
    seen: list[str] = attrs.field(factory=list)
    most: int = 0
    status: int = 200

    async def __call__(self, peer: Peer) -> None:
        while head := await peer.request():
            found = re.search(rb"(?im)^x-request-id: (.*)\r$", head)
            assert found is not None
            name = found.group(1).decode()
            self.seen.append(name)
            if name in self.running:
                await peer.send(reply(b"duplicate request id", 400))
                continue
            self.running.add(name)
            self.most = max(self.most, len(self.running))
            await trio.sleep(0.03)
            self.running.discard(name)
            await peer.send(reply(b"{}", self.status))


async def test_duplicate_request_id() -> None:
    engine = Engine()
    async with whole(engine) as rig:
        answers: list[Reply] = []

        async def one() -> None:
            answers.append(await rig.ask(headers=["x-request-id: mine"]))

        for _ in range(3):
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(one)
        assert engine.most == 4
        assert {answer.status for answer in answers} == {200}
        assert {answer.headers["x-request-id"] for answer in answers} == {"mine"}
        decisions = {answer.headers["x-trioroute-decision"] for answer in answers}
        assert len(decisions) == 12, "the log is keyed by the router's own number"
        without = await rig.ask()
        assert without.headers["x-request-id"] == engine.seen[-1]
        assert engine.seen[-1].startswith("req-")


async def test_a_retry_and_a_client_that_asks_again_meet_no_running_id() -> None:
    """An attempt that failed, and a client that gave up, leave no id behind."""
    engine = Engine(status=500)
    async with whole(engine, engine) as rig:
        answer = await rig.ask(headers=["x-request-id: mine"])
        assert (answer.status, answer.headers["x-trioroute-attempts"]) == (500, "2")
        engine.status = 200
        async with client(rig.port) as raw:
            await raw.send(request(headers=["x-request-id: mine"]))
            await eventually(lambda: engine.running)
            raw.reset()
        await eventually(lambda: not engine.running)
        assert (await rig.ask(headers=["x-request-id: mine"])).status == 200
        assert not rig.desk.in_use


@pytest.mark.parametrize(
    "hostile",
    ["i" * 8000, "a\tb", 'a"b', "a%0ab", "a\x1b[31m", "größe", "a b", "{x}", "a,b", "a\\nb"],
)
async def test_unbounded_or_hostile_id(hostile: str) -> None:
    recorder = Recorder()
    async with whole(recorder) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(headers=[f"x-request-id: {hostile}"]))
            answer = await raw.reply()
        if answer.status == 400:  # bytes that no header may hold
            assert not recorder.requests
            assert "\x1b" in hostile
            return
        assert answer.status == 200
        given = answer.headers["x-request-id"]
        assert re.fullmatch(r"req-[0-9a-f]{16}", given)
        assert recorder.header("x-request-id") == given
        (dispatched,) = await rig.events(e.Dispatched)
        assert dispatched.request_id == given
        for row in rig.rows():
            assert json.loads(row.body) is not None
            assert hostile.encode() not in row.body


async def test_hard_coded_limit() -> None:
    """Long non-stream work passes when the limit is off, and is 504 when it is not."""
    big = reply(json.dumps({"text": "x" * 5_000_000}).encode())

    async def slow(peer: Peer) -> None:
        while await peer.request():
            await trio.sleep(0.5)
            await peer.send(big)

    off = {"first_byte_ms": 0, "idle_ms": 0, "total_ms": 0}
    async with whole(slow, timeouts=off) as rig:
        answer = await rig.ask(chat(stream=False))
        assert answer.status == 200
        assert len(answer.body) > 5_000_000
    assert e.InForce().timeouts.first_byte_ms == 600_000, "the default that SETTINGS.md tells"
    async with whole(silent, timeouts={"first_byte_ms": 100}) as rig:
        answer = await rig.ask(chat(stream=False))
        assert answer.status == 504
        assert b"timeouts.first_byte" in answer.body
        await eventually(rig.replicas[0].peers[0].gone.is_set)
        assert len(rig.replicas[0].peers) == 1
        assert (await rig.released()).outcome == "first_byte_timeout"
