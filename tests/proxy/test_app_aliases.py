"""Other names for models: the replica hears its own, and nothing else in the request changes."""

import gzip
import json

import attrs
import pytest

from tests.proxy.questions import prompt
from tests.proxy.replies import Recorder, reply
from tests.proxy.whole import LIMITS, Whole, whole
from trioroute import events as e
from trioroute.policy import commands as c

ALIASES = {"aliases": {"gpt-4o": "m", "other": "nobody"}}


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        (b'{"model":"gpt-4o","messages":[]}', b'{"model":"m","messages":[]}'),
        (
            b'{ "tools": [{"model": "gpt-4o"}], "n": 1.50 ,\n "model" :  "gpt-4o" }',
            b'{ "tools": [{"model": "gpt-4o"}], "n": 1.50 ,\n "model" :  "m" }',
        ),
        (
            b'{"user":"model","x":"\\"model\\":\\"gpt-4o\\"","m\\u006fdel":"gpt-4o"}',
            b'{"user":"model","x":"\\"model\\":\\"gpt-4o\\"","m\\u006fdel":"m"}',
        ),
        (b'{"model":"x","model":"gpt-4o"}', b'{"model":"m","model":"m"}'),
        (b'{"model":"m","messages":[]}', b'{"model":"m","messages":[]}'),
        (
            b'{"\\ud800":"a lone surrogate","model":"gpt-4o","x":["model"]}',
            b'{"\\ud800":"a lone surrogate","model":"m","x":["model"]}',
        ),
        (
            b'{"model":"gpt-4o","prompt":"' + b"a[" * 100_000 + b'"}',
            b'{"model":"m","prompt":"' + b"a[" * 100_000 + b'"}',
        ),
    ],
)
async def test_the_model_is_the_only_thing_that_changes_in_a_body(
    sent: bytes, wanted: bytes
) -> None:
    async with whole(made := Recorder()) as rig:
        rig.configure(models=ALIASES)
        assert (await rig.ask(sent)).status == 200
        assert made.body() == wanted
        assert made.header("content-length") == str(len(wanted))
        (dispatched,) = await rig.events(e.Dispatched)
        assert dispatched.model == "m"


async def test_an_alias_of_an_alias_is_a_model() -> None:
    """They are not chained, so two that name each other swap two models."""
    one, two = Recorder(), Recorder()
    async with whole(one, two, models=[("x",), ("y",)]) as rig:
        rig.configure(models={"aliases": {"x": "y", "y": "x", "z": "x"}})
        for asked in ("x", "y", "z"):
            assert (await rig.ask({"model": asked})).status == 200
        assert [json.loads(one.body(at))["model"] for at in range(2)] == ["x", "x"]
        assert json.loads(two.body())["model"] == "y"


async def test_a_compressed_body_goes_on_inflated() -> None:
    async with whole(made := Recorder()) as rig:
        rig.configure(models=ALIASES)
        body = gzip.compress(b'{"model":"gpt-4o"}')
        await rig.ask(body, headers=["content-encoding: gzip", "content-type: application/json"])
        assert made.body() == b'{"model":"m"}'
        assert "content-encoding" not in dict(made.headers())


@pytest.mark.parametrize("reading", [False, True])
async def test_a_large_body_asks_for_the_model_too(reading: bool) -> None:
    limits = attrs.evolve(LIMITS, body_bytes=8 << 20)
    async with whole(made := Recorder(), limits=limits, reading=reading) as rig:
        rig.configure(models=ALIASES)
        for tools in ([], [{"model": "gpt-4o"}]):
            body = prompt(2 << 20, model="gpt-4o", tools=tools)
            wanted = body.replace(b'{"model": "gpt-4o", "mess', b'{"model": "m", "mess')
            assert (await rig.ask(body)).status == 200
            assert made.body() == wanted
            packed = gzip.compress(body)
            assert (await rig.ask(packed, headers=["content-encoding: gzip"])).status == 200
            assert made.body() == wanted
        assert (rig.desk.bodies.child is not None) == reading


async def test_a_form_and_a_path_are_renamed_too() -> None:
    async with whole(made := Recorder()) as rig:
        rig.configure(models=ALIASES)
        form = (
            b'--x\r\ncontent-disposition: form-data; name="file"\r\n\r\ngpt-4o\r\n'
            b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\ngpt-4o\r\n--x--\r\n'
        )
        kind = "content-type: multipart/form-data; boundary=x"
        await rig.ask(form, "/v1/audio/transcriptions", headers=[kind])
        assert made.body() == form.replace(b'"model"\r\n\r\ngpt-4o', b'"model"\r\n\r\nm')
        await rig.ask(b"", "/v1/models/gpt-4o", "GET")
        assert made.line() == "GET /v1/models/m HTTP/1.1"


async def test_aliases_of_models_that_are_there_are_listed() -> None:
    page = reply(b'{"data": [{"id": "m", "object": "model", "max_model_len": 7}]}')
    async with whole(Recorder(page)) as rig:
        rig.configure(models=ALIASES)
        told = json.loads((await rig.ask(b"", "/v1/models", "GET")).body)["data"]
        assert [(one["id"], one["max_model_len"]) for one in told] == [("m", 7), ("gpt-4o", 7)]


async def test_404_is_for_what_nobody_ever_served_and_503_for_what_is_out() -> None:
    async with whole(Recorder()) as rig:
        rig.configure(models=ALIASES)
        assert await status(rig, "other") == 404
        rig.do(c.Drain, replica="a", on=True)
        assert await status(rig, "gpt-4o") == 503


async def status(rig: Whole, model: str) -> int:
    return (await rig.ask({"model": model, "messages": []})).status
