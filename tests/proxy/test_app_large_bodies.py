"""Large bodies over HTTP, read by a process of their own: answers are those of small ones."""

import gzip
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from tests.proxy.questions import prompt
from tests.proxy.replies import Recorder, reply
from tests.proxy.scripted import Script, always
from tests.proxy.serving import client, eventually
from tests.proxy.test_app_bodies import GZIP, JSON, code_of
from tests.proxy.whole import LIMITS, Whole, chat, request, whole
from trioroute import events as e
from trioroute.proxy.bodies.reader import AWAY_BYTES

LARGE = attrs.evolve(LIMITS, body_bytes=64 << 20)
PAD = b" " * AWAY_BYTES
MIB = 1 << 20


@asynccontextmanager
async def reading(*scripts: Script, **sections: Any) -> AsyncIterator[Whole]:
    """A data port whose body reader is there, and sees every large body."""
    async with whole(*scripts, limits=LARGE, reading=True, **sections) as rig:
        assert (await rig.ask(prompt(MIB))).status == 200
        assert rig.desk.bodies.child is not None
        yield rig
        assert not rig.desk.bodies.inline.statistics().tasks_waiting


def pid_of(rig: Whole) -> int:
    assert rig.desk.bodies.child is not None
    return rig.desk.bodies.child.pid


async def test_thirty_megabytes_go_on_byte_for_byte_and_are_weighed() -> None:
    async with reading(made := Recorder()) as rig:
        body = prompt(30 * MIB, session_id="s", stream=False)
        assert (await rig.ask(body)).status == 200
        assert made.body() == body
        _, dispatched = await rig.events(e.Dispatched)
        assert dispatched.prompt_bytes > 30 * MIB
        assert dispatched.session is not None


@pytest.mark.parametrize(
    "body",
    [
        b"{" + PAD,
        b"[]" + PAD,
        PAD + b"null",
        PAD + b'{"model":NaN}',
        b'{"model":"m",}' + PAD,
        b"[" * AWAY_BYTES,
        b'{"model":"m","x":' + b"[" * 150_000 + b"]" * 150_000 + b"}",
        b'{"model":"\\ud800","x":' + b"[" * AWAY_BYTES,
        b'{"model":"m","messages":"\xff\xfe"}' + PAD,
        b'{"model":5}' + PAD,
        b'{"x":[' + b"[]," * 200_001 + b"0]}",
    ],
    ids=lambda body: repr(body.strip()[:20]),
)
async def test_what_cannot_be_read_is_refused_in_the_words_of_a_small_body(body: bytes) -> None:
    async with reading(always(reply())) as rig, whole(always(reply()), limits=LARGE) as plain:
        pid = pid_of(rig)
        told = await rig.ask(body)
        assert (told.status, code_of(told)) == (400, "invalid_request")
        assert told.body == (await plain.ask(body)).body
        assert pid_of(rig) == pid
        assert len(await rig.events(e.Dispatched)) == 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","messages":[{"role":"user","content":"\\ud800"}]}' + PAD,
        b"\xef\xbb\xbf" + PAD + b'{"model":"m","x":"\\u0000"}',
        b'{"model":""}' + PAD,
        PAD + b"{}",
        b'{"model":"m","x":' + b'{"a":' * 500 + b"1" + b"}" * 500 + b"}" + PAD,
    ],
    ids=lambda body: repr(body.strip()[:30]),
)
async def test_odd_but_valid_large_bodies_go_on(body: bytes) -> None:
    async with reading(made := Recorder()) as rig:
        assert (await rig.ask(body)).status == 200
        assert made.body() == body


async def test_a_large_body_names_its_model_or_is_told_that_it_must() -> None:
    several = (("m",), ("n",))
    async with whole(
        always(reply()), made := Recorder(), models=several, limits=LARGE, reading=True
    ) as rig:
        assert (await rig.ask(prompt(MIB, model="n"))).status == 200
        assert len(made.body()) > MIB
        answer = await rig.ask(prompt(MIB, model=None))
        assert (answer.status, code_of(answer)) == (400, "invalid_request")
        assert json.loads(answer.body)["error"]["param"] == "model"
        assert (await rig.ask(prompt(MIB, model="x" * 300))).status == 404
        assert code_of(await rig.ask(prompt(MIB, model="\ud800"))) == "model_not_found"


async def test_a_large_follow_up_without_a_model_goes_to_who_made_the_response() -> None:
    several = (("m",), ("n",))
    answers = always(reply(b'{"id":"resp_7","status":"completed"}'))
    async with whole(always(reply()), answers, models=several, limits=LARGE, reading=True) as rig:
        first = await rig.ask({"model": "n", "input": "hi"}, "/v1/responses")
        assert first.status == 200
        follow = json.dumps({"previous_response_id": "resp_7", "input": "x" * MIB}).encode()
        assert (await rig.ask(follow, "/v1/responses")).status == 200
        assert [one.replica for one in await rig.events(e.Dispatched)] == ["b", "b"]


async def test_a_small_bomb_is_not_inflated_on_the_event_loop() -> None:
    bomb = gzip.compress(b" " * 60_000_000)
    assert len(bomb) < AWAY_BYTES
    async with reading(always(reply()), server={"max_body_bytes": 50_000_000}) as rig:
        os.kill(pid_of(rig), signal.SIGSTOP)
        async with client(rig.port) as raw:
            await raw.send(request(bomb, headers=[JSON, GZIP]))
            await trio.sleep(0.2)
            assert not raw.buffer
            os.kill(pid_of(rig), signal.SIGCONT)
            answer = await raw.reply()
        assert (answer.status, code_of(answer)) == (413, "body_too_large")
        packed = gzip.compress(prompt(3 * MIB))
        assert (await rig.ask(packed, headers=[GZIP])).status == 200


async def test_a_form_with_a_large_file_names_its_model() -> None:
    form = (
        b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
        + bytes(2 * MIB)
        + b'\r\n--b\r\ncontent-disposition: form-data; name="model"\r\n\r\nm\r\n--b--\r\n'
    )
    async with reading(made := Recorder()) as rig:
        kind = "content-type: multipart/form-data; boundary=b"
        answer = await rig.ask(form, "/v1/audio/transcriptions", headers=[kind])
        assert answer.status == 200
        assert made.body() == form


async def test_who_hangs_up_while_its_body_is_read_is_never_dispatched() -> None:
    async with reading(always(reply())) as rig:
        os.kill(pid_of(rig), signal.SIGSTOP)
        for reset in (False, True):
            async with client(rig.port) as raw:
                await raw.send(request(prompt(20 * MIB)))
                await eventually(lambda: rig.desk.in_use)
                await trio.sleep(0.05)
                if reset:
                    raw.reset()
        await eventually(lambda: not rig.desk.in_use)
        os.kill(pid_of(rig), signal.SIGCONT)
        assert (await rig.ask(prompt(MIB, session_id="s"))).status == 200
        first, last = await rig.events(e.Dispatched)
        assert (first.session, last.session is None) == (None, False)
        assert await rig.events(e.Refused) == []


async def test_small_requests_do_not_wait_while_a_large_body_is_read() -> None:
    async with reading(always(reply())) as rig:
        os.kill(pid_of(rig), signal.SIGSTOP)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rig.ask, prompt(2 * MIB))
            await eventually(lambda: rig.desk.in_use)
            for _ in range(3):
                assert (await rig.ask(chat())).status == 200
            os.kill(pid_of(rig), signal.SIGCONT)


async def test_a_reader_that_cannot_be_had_is_503_and_logged() -> None:
    async with reading(always(reply())) as rig:
        rig.desk.bodies.command = ("/nonexistent",)
        os.kill(pid_of(rig), signal.SIGKILL)
        answer = await rig.ask(prompt(MIB))
        assert (answer.status, code_of(answer)) == (503, "overloaded")
        assert answer.headers["retry-after"] == "1"
        (refused,) = await rig.events(e.Refused)
        assert refused.code == "overloaded"
        assert (await rig.ask(prompt(MIB))).status == 200
