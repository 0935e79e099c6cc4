"""Session and prefix keys as they come in over HTTP, and that nothing of a request is logged."""

import gzip
import json
import logging
from typing import Any

import pytest

from tests.proxy.replies import chunk, dies, error, reply, says, stream, stream_head, token
from tests.proxy.scripted import always
from tests.proxy.serving import client
from tests.proxy.whole import CHAT, MODEL, SECRET, chat, request, whole
from trioroute import events as e
from trioroute.events.sections import SESSION_FIELDS, SESSION_HEADERS
from trioroute.policy.keys import digest_key


def session(text: str) -> str:
    return digest_key(SECRET, "session", MODEL, text)


def nested(path: str, value: object) -> dict[str, object]:
    first, _, rest = path.partition(".")
    return {first: nested(rest, value) if rest else value}


async def seen(body: object, *headers: str, **sections: Any) -> e.Dispatched:
    async with whole(always(reply()), **sections) as rig:
        assert (await rig.ask(body, headers=headers)).status == 200
        (dispatched,) = await rig.events(e.Dispatched)
        assert isinstance(dispatched, e.Dispatched)
        return dispatched


@pytest.mark.parametrize("name", SESSION_HEADERS)
async def test_each_header_names_the_session(name: str) -> None:
    assert (await seen(chat(), f"{name}: s-1")).session == session("s-1")


@pytest.mark.parametrize("path", SESSION_FIELDS)
async def test_each_field_names_the_session(path: str) -> None:
    assert (await seen(chat(**nested(path, "s-1")))).session == session("s-1")
    assert (await seen(chat(**nested(path, 17)))).session == session("17")


async def test_headers_go_before_fields_and_the_first_one_wins() -> None:
    fields = {"thread_id": "third", "metadata": {"session_id": "fifth"}}
    both = [f"{SESSION_HEADERS[1]}: second", f"{SESSION_HEADERS[0]}: first"]
    assert (await seen(chat(**fields), *both)).session == session("first")
    assert (await seen(chat(**fields), both[0])).session == session("second")
    assert (await seen(chat(**fields), f"{SESSION_HEADERS[0]}: ")).session == session("third")
    assert (await seen(chat(**fields))).session == session("third")


@pytest.mark.parametrize("value", [None, "", True, [], {}, {"session_id": ""}])
async def test_what_names_no_session_is_none(value: object) -> None:
    assert (await seen(chat(session_id=value, metadata=value))).session is None


async def test_a_request_id_is_no_session() -> None:
    assert (await seen(chat(user="u"), "x-request-id: r")).session is None


@pytest.mark.parametrize("key", ["x" * 5000, "sitzung-ü-会话", 'a"b\\c'])
async def test_long_and_foreign_keys_are_the_same_in_header_and_field(key: str) -> None:
    dispatched = await seen(chat(session_id=key))
    assert dispatched.session == session(key)
    assert dispatched.session is not None
    assert len(dispatched.session) == 24
    assert (await seen(chat(), f"x-session-id: {key}")).session == session(key)


async def test_the_list_of_headers_and_fields_is_configuration() -> None:
    pins = {"session_headers": ("x-mine",), "session_fields": ("a.b",)}
    assert (await seen(chat(session_id="no"), "x-session-id: no", pins=pins)).session is None
    assert (await seen(chat(a={"b": "yes"}), pins=pins)).session == session("yes")
    assert (await seen(chat(), "x-mine: yes", pins=pins)).session == session("yes")


async def test_the_project_is_part_of_the_prefix_key() -> None:
    body = chat(messages=[{"role": "system", "content": "you are"}])
    plain = (await seen(body)).prefix
    assert plain is not None
    assert (await seen(body, "x-project-id: p")).prefix not in (plain, None)
    assert (await seen(chat())).prefix is None


async def test_a_session_stays_where_it_was() -> None:
    async with whole(*[always(reply())] * 4) as rig:
        for name in ("one", "two", "three"):
            went = {
                (await rig.ask(headers=[f"x-session-id: {name}"])).headers["x-trioroute-replica"]
                for _ in range(5)
            }
            assert len(went) == 1


# Nothing of a request is written down anywhere

CANARY = "canary-4711"

EVERYWHERE: dict[str, object] = {
    "messages": [
        {"role": "system", "content": CANARY},
        {"role": "user", "content": [{"type": "text", "text": CANARY}]},
        {"role": "assistant", "tool_calls": [{"function": {"arguments": CANARY}}]},
    ],
    "prompt": CANARY,
    "input": [CANARY, {"role": "developer", "content": CANARY}],
    "instructions": CANARY,
    "query": CANARY,
    "documents": [CANARY],
    "session_id": CANARY,
    "metadata": {"session_id": CANARY, "user_id": CANARY},
    "prompt_cache_key": CANARY,
    "previous_response_id": f"resp_{CANARY}",
    "user": CANARY,
    CANARY: CANARY,
}

HEADERS = [
    f"authorization: Bearer {CANARY}",
    f"x-api-key: {CANARY}",
    f"cookie: {CANARY}",
    f"x-session-id: {CANARY}",
    f"x-project-id: {CANARY}",
    f"x-forwarded-for: {CANARY}",
    f"user-agent: {CANARY}",
    f"{CANARY}: {CANARY}",
]

TALE = token(CANARY)
REPLICAS = {
    "good": always(reply(json.dumps({"id": f"resp_{CANARY}", "text": CANARY}).encode())),
    "stream": always(stream(TALE, error(500, CANARY))),
    "400": always(reply(CANARY.encode(), 400)),
    "500": always(reply(CANARY.encode(), 500)),
    "busy": always(reply(CANARY.encode(), 503, f"retry-after: {CANARY}")),
    "refused key": always(reply(CANARY.encode(), 401)),
    "error event": always(stream(error(503, CANARY))),
    "cut": says(stream_head(f"x-{CANARY}: {CANARY}"), chunk(TALE)),
    "garbage": says(CANARY.encode() + b"\r\n\r\n"),
    "bad chunk": says(stream_head(), chunk(TALE), CANARY.encode()),
    "dies": dies,
}

BODIES: list[object] = [
    {**EVERYWHERE, "model": MODEL},
    {**EVERYWHERE, "model": CANARY},
    {**EVERYWHERE, "model": {"x": CANARY}},
    CANARY.encode(),
    f'["{CANARY}"]'.encode(),
    f'{{"model":"m","\\ud800{CANARY}":NaN}}'.encode(),
]


@pytest.mark.parametrize("script", REPLICAS.values(), ids=REPLICAS.keys())
async def test_no_word_of_a_request_or_an_answer_is_logged(
    script: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    keys = {"a": f"Bearer {CANARY}"}
    async with whole(script, script, keys=keys, models=((MODEL, "other"),) * 2) as rig:
        asked = [
            request(body, path, headers=HEADERS)
            for body in BODIES
            for path in (CHAT, "/v1/responses", "/v1/files", f"/v1/{CANARY}?q={CANARY}")
        ]
        asked += [
            request(b"", path, method, HEADERS)
            for method, path in (
                ("GET", f"/v1/models/{CANARY}"),
                ("GET", f"/v1/responses/resp_{CANARY}"),
                ("GET", f"/{CANARY}"),
                ("POST", "/health"),
            )
        ]
        asked += [
            request(gzip.compress(CANARY.encode()), headers=[*HEADERS, f"content-encoding: {name}"])
            for name in ("gzip", CANARY)
        ]
        for raw_request in asked:
            async with client(rig.port) as raw:
                await raw.send(raw_request)
                await raw.head()
        await rig.quiet()
        assert len(await rig.events()) > 20
        assert CANARY not in repr(rig.rows())
        assert CANARY not in repr(rig.router.state)
        assert CANARY not in repr(rig.desk)
    assert CANARY not in caplog.text


async def test_the_request_id_is_the_one_value_of_the_client_in_the_log() -> None:
    async with whole(always(reply())) as rig:
        await rig.ask(headers=[f"x-request-id: {CANARY}"])
        await rig.quiet()
        (dispatched,) = await rig.events(e.Dispatched)
        assert dispatched.request_id == CANARY
        assert repr(rig.rows()).count(CANARY) == 1
