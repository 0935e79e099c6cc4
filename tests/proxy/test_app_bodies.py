"""What clients may send, and what is answered without a replica."""

import gzip
import json
import zlib

import brotli
import pytest
import trio
import zstandard

from tests.proxy.replies import Recorder, heads, reply
from tests.proxy.scripted import always
from tests.proxy.serving import Reply, client, eventually
from tests.proxy.whole import CHAT, LIMITS, chat, request, whole
from trioroute import events as e
from trioroute.proxy.bodies import reader
from trioroute.proxy.bodies.facts import Facts, Nameless, Question, read_facts

JSON = "content-type: application/json"
GZIP = "content-encoding: gzip"


def code_of(answer: Reply) -> str:
    error = json.loads(answer.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return str(error["code"])


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'"hi"',
        b"null",
        b"7",
        b"true",
        b'{"model":NaN}',
        b'{"model":"m",}',
        b"[" * 100_000,
        b'{"model":"m","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"model":"\\ud800","x":' + b"[" * 100_000,
        b'{"model":"m","messages":"\xff\xfe"}',
        b'{"model":"\\ud800","x":NaN}',
        b'{"model":5}',
        b'{"model":["m"]}',
        b"\x1f\x8b",
    ],
    ids=lambda body: repr(body[:20]),
)
async def test_a_body_that_cannot_be_read_is_400_and_reaches_no_replica(body: bytes) -> None:
    async with whole(always(reply())) as rig:
        answer = await rig.ask(body)
        assert answer.status == 400
        assert code_of(answer) == "invalid_request"
        assert answer.headers["x-request-id"].startswith("req-")
        assert await rig.events(e.Dispatched) == []
        (refused,) = await rig.events(e.Refused)
        assert refused.code == "invalid_request"
        assert refused.request_id == answer.headers["x-request-id"]
        assert heads(rig.replicas[0])() == 0


async def test_no_body_at_all_is_400_where_json_is_needed() -> None:
    async with whole(always(reply())) as rig:
        assert code_of(await rig.ask(b"", headers=[JSON])) == "invalid_request"
        assert await rig.events(e.Dispatched) == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","messages":[{"role":"user","content":"\\ud800"}]}',
        b'{"model":"m","messages":[{"role":"system","content":"\\uDBFF x \xf0\x9f\x98\x80"}]}',
        b'{"model":"m","x":"\\u0000"}',
        b'\xef\xbb\xbf{"model":"m"}',
        b'{ "seed": 9007199254740993 ,"x":1.2345678901234567890123456,"x":2,"model":"m"}',
        b'{"prompt_cache_key":"\\ud800","model":"m","user":"\\udfff"}',
        b'{"model":null}',
        b'{"model":""}',
        b"{}",
    ],
    ids=lambda body: repr(body[:30]),
)
async def test_odd_but_valid_bodies_are_forwarded_byte_for_byte(body: bytes) -> None:
    async with whole(made := Recorder()) as rig:
        assert (await rig.ask(body)).status == 200
        assert made.body() == body
        assert (await rig.released()).outcome == "ok"


async def test_several_pools_need_a_model_and_an_unknown_one_is_404() -> None:
    async with whole(always(reply()), always(reply()), models=(("m",), ("n",))) as rig:
        answer = await rig.ask({"messages": []})
        assert (answer.status, code_of(answer)) == (400, "invalid_request")
        assert json.loads(answer.body)["error"]["param"] == "model"
        answer = await rig.ask({"model": "secret-name"})
        assert (answer.status, code_of(answer)) == (404, "model_not_found")
        assert (await rig.ask({"model": "x" * 10_000})).status == 404
        answer = await rig.ask({"model": "\ud800"})
        assert (answer.status, code_of(answer)) == (404, "model_not_found")
        assert (await rig.ask({"model": "n"})).status == 200
        assert [one.code for one in await rig.events(e.Refused)] == [
            "invalid_request",
            "model_not_found",
            "model_not_found",
            "model_not_found",
        ]
        assert {one.model for one in await rig.events(e.Refused)} == {None}


async def test_joining_replicas_take_nothing_and_say_when_to_come_back() -> None:
    async with whole(always(reply()), live=False) as rig:
        assert (await rig.ask({"model": "other"})).status == 404
        answer = await rig.ask()
        assert (answer.status, code_of(answer)) == (503, "no_healthy_instances")
        assert answer.headers["retry-after"] == "1"
        assert await rig.events(e.Dispatched) == []


async def test_while_no_replica_has_told_its_models_an_unknown_one_is_503() -> None:
    async with whole(always(reply()), models=((),), live=False) as rig:
        for body in (chat(), b"{}", {"model": "anything"}):
            answer = await rig.ask(body)
            assert (answer.status, code_of(answer)) == (503, "no_healthy_instances")
        assert {one.model for one in await rig.events(e.Refused)} == {None}


async def test_a_router_without_replicas_is_503() -> None:
    async with whole() as rig:
        assert code_of(await rig.ask()) == "no_healthy_instances"
        assert code_of(await rig.ask(b"", method="GET", path="/v1/files")) == "no_healthy_instances"


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_413_and_the_connection_closes(chunked: bool) -> None:
    async with whole(always(reply())) as rig:
        async with client(rig.port) as raw:
            size = LIMITS.body_bytes + 1
            framing = b"transfer-encoding: chunked" if chunked else b"content-length: %d" % size
            await raw.send(b"POST %b HTTP/1.1\r\nhost: t\r\n%b\r\n\r\n" % (CHAT.encode(), framing))
            await raw.send((b"%x\r\n" % size if chunked else b"") + b"x" * size)
            answer = await raw.reply()
        assert (answer.status, code_of(answer)) == (413, "body_too_large")
        assert answer.headers["connection"] == "close"
        assert (await rig.ask()).status == 200
        assert len(await rig.events(e.Dispatched)) == 1


@pytest.mark.parametrize(
    "headers", [[f"x-{n}: y" for n in range(200)], ["x: " + "y" * 70_000]], ids=["many", "long"]
)
async def test_a_flood_of_headers_is_431(headers: list[str]) -> None:
    async with whole(always(reply())) as rig:
        assert (await rig.ask(headers=headers)).status == 431
        assert await rig.events(e.Dispatched) == []


@pytest.mark.parametrize("reset", [False, True])
async def test_a_request_cut_in_its_body_is_never_dispatched(reset: bool) -> None:
    async with whole(always(reply())) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(b"x" * 1000)[:-500])
            await trio.sleep(0.02)
            if reset:
                raw.reset()
        await trio.sleep(0.05)
        assert await rig.events(e.Dispatched, e.Refused) == []
        assert heads(rig.replicas[0])() == 0


@pytest.mark.parametrize(
    "path",
    ["/", "/metrics", "/v2/chat", "/sleep", "/v1", "/v1/../sleep", "/v1/%2e%2e/sleep", "/v1/./x"],
)
async def test_other_paths_are_404_and_reach_no_replica(path: str) -> None:
    async with whole(always(reply())) as rig:
        answer = await rig.ask(path=path)
        assert (answer.status, code_of(answer)) == (404, "not_found")
        assert await rig.events(e.Dispatched) == []


async def test_trace_is_not_forwarded_for_it_would_show_the_replicas_key() -> None:
    async with whole(made := Recorder(), keys={"a": "Bearer secret"}) as rig:
        assert (await rig.ask(b"", method="TRACE")).status == 404
        assert made.requests == []


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("br", brotli.compress),
        ("zstd", zstandard.ZstdCompressor().compress),
        ("GZIP", lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
    ],
    ids=["gzip", "x-gzip", "deflate", "br", "zstd", "two members"],
)
async def test_a_compressed_body_is_read_and_forwarded_untouched(coding: str, pack: object) -> None:
    assert callable(pack)
    packed = pack(json.dumps(chat(model="n", session_id="s")).encode())
    async with whole(Recorder(), made := Recorder(), models=(("m",), ("n",))) as rig:
        answer = await rig.ask(packed, headers=[f"content-encoding: {coding}"])
        assert answer.status == 200
        assert made.body() == packed
        assert made.header("content-encoding") == coding
        (dispatched,) = await rig.events(e.Dispatched)
        assert dispatched.session is not None


@pytest.mark.parametrize("coding", ["compress", "gzip, gzip", "nonsense" * 100])
async def test_an_unknown_coding_is_415(coding: str) -> None:
    async with whole(always(reply())) as rig:
        answer = await rig.ask(b"xx", headers=[f"content-encoding: {coding}"])
        assert (answer.status, code_of(answer)) == (415, "unsupported_encoding")
        assert await rig.events(e.Dispatched) == []


async def test_an_unknown_coding_passes_where_nothing_has_to_be_read() -> None:
    async with whole(made := Recorder()) as rig:
        answer = await rig.ask(b"xx", "/v1/files", headers=["content-encoding: compress"])
        assert answer.status == 200
        assert made.body() == b"xx"


async def test_what_inflates_without_bound_is_413_and_damage_is_400() -> None:
    in_force = {"max_body_bytes": 100_000}
    async with whole(always(reply()), server=in_force) as rig:
        bomb = gzip.compress(b" " * 30_000_000)
        answer = await rig.ask(bomb, headers=[GZIP])
        assert (answer.status, code_of(answer)) == (413, "body_too_large")
        members = gzip.compress(b" " * 60_000) * 2
        assert (await rig.ask(members, headers=[GZIP])).status == 413
        good = gzip.compress(json.dumps(chat()).encode())
        for damaged in (good[:-1], b"\0" + good, good[:20] + b"\0\0\0" + good[23:]):
            answer = await rig.ask(damaged, headers=[GZIP])
            assert (answer.status, code_of(answer)) == (400, "invalid_request")
        assert await rig.events(e.Dispatched) == []


async def test_a_form_names_its_model_in_a_field() -> None:
    form = (
        b'--b-1\r\ncontent-disposition: form-data; name="file"; filename="model"\r\n\r\nn\r\n'
        b'--b-1\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--b-1--\r\n'
    )
    async with whole(made := Recorder(), Recorder(), models=(("m",), ("n",))) as rig:
        kind = "content-type: multipart/form-data; boundary=b-1"
        path = "/v1/audio/transcriptions"
        assert (await rig.ask(form, path, headers=[kind])).status == 200
        assert made.body() == form
        no_model = await rig.ask(form.replace(b'"model"\r', b'"other"\r'), path, headers=[kind])
        assert (no_model.status, code_of(no_model)) == (400, "invalid_request")


async def test_the_path_names_a_model_too() -> None:
    async with whole(Recorder(), made := Recorder(), models=(("m",), ("org/n",))) as rig:
        assert (await rig.ask(b"", "/v1/models/org/n", "GET")).status == 200
        assert made.line() == "GET /v1/models/org/n HTTP/1.1"


async def test_a_request_that_arrives_in_single_bytes_is_served() -> None:
    async with whole(made := Recorder()) as rig:
        async with client(rig.port) as raw:
            for byte in request():
                await raw.send(bytes([byte]))
            assert (await raw.reply()).status == 200
        await eventually(lambda: len(made.requests) == 1)


async def test_large_bodies_that_come_together_are_read_one_a_pass_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes = 0
    read_in: list[int] = []

    def noted(
        question: Question, body: bytes, plain: bytes | None, values_max: int | None = None
    ) -> Facts | Nameless:
        read_in.append(passes)
        return read_facts(question, body, plain, values_max)

    async def count_passes() -> None:
        nonlocal passes
        while True:
            await trio.lowlevel.checkpoint()
            passes += 1

    monkeypatch.setattr(reader, "read_facts", noted)
    body = json.dumps(chat(user="long " * 40_000)).encode()
    assert len(body) > reader.ONE_A_PASS_BYTES
    async with whole(always(reply())) as rig, trio.open_nursery() as nursery:
        rig.desk.bodies.inline.acquire_nowait()
        async with trio.open_nursery() as asking:
            for _ in range(8):
                asking.start_soon(rig.ask, body)
            await eventually(lambda: rig.desk.bodies.inline.statistics().tasks_waiting == 8)
            nursery.start_soon(count_passes)
            rig.desk.bodies.inline.release()
        nursery.cancel_scope.cancel()
    # Two neighbours may see the same count: Trio runs the tasks of a pass in any order.
    assert len(read_in) == 8
    assert all(read_in.count(count) <= 2 for count in read_in)
