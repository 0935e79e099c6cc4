"""Browsers of other origins, answered by the router or left to the engines."""

import pytest

from tests.proxy.replies import Recorder, reply
from tests.proxy.serving import Reply
from tests.proxy.test_api_keys import BEARER, key
from tests.proxy.whole import CHAT, Whole, whole

APP = "https://app.example.com"
ASKS = ("access-control-request-method: POST", "access-control-request-headers: x-a, x-b")
ENGINES = Recorder(reply(b"{}", 200, "access-control-allow-origin: https://engine"))


async def preflight(rig: Whole, origin: str = APP) -> Reply:
    return await rig.ask(b"", CHAT, "OPTIONS", [f"origin: {origin}", *ASKS])


async def test_preflights_are_answered_here_without_a_key_or_a_replica() -> None:
    async with whole(made := Recorder(), server={"cors_origins": (APP,)}) as rig:
        rig.desk.keys.renew([key()])
        answer = await preflight(rig)
        assert answer.status == 204
        assert answer.headers["access-control-allow-origin"] == APP
        assert answer.headers["access-control-allow-headers"] == "x-a, x-b"
        assert "POST" in answer.headers["access-control-allow-methods"]
        stranger = await preflight(rig, "https://evil.example")
        assert stranger.status == 204
        assert not [name for name in stranger.headers if name.startswith("access-control")]
        assert not made.requests
        sneaky = await rig.ask(headers=[f"origin: {APP}", ASKS[0]])
        assert sneaky.status == 401


@pytest.mark.parametrize(
    ("origins", "allowed"), [((APP,), True), (("*",), True), (("https://x",), False)]
)
async def test_answers_and_errors_name_who_may_read_them(
    origins: tuple[str, ...], allowed: bool
) -> None:
    async with whole(ENGINES, server={"cors_origins": origins}) as rig:
        rig.desk.keys.renew([key()])
        for headers, status in (([BEARER], 200), ([], 401)):
            answer = await rig.ask(headers=[*headers, f"origin: {APP}"])
            assert answer.status == status
            assert answer.headers["vary"] == "origin"
            told = answer.headers.get("access-control-allow-origin")
            assert told == (APP if allowed else None)


async def test_without_origins_the_engines_have_the_word() -> None:
    async with whole(ENGINES) as rig:
        answer = await rig.ask(headers=[f"origin: {APP}"])
        assert answer.headers["access-control-allow-origin"] == "https://engine"
        assert (await preflight(rig)).status == 200


async def test_trace_context_goes_on_untouched() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with whole(made := Recorder()) as rig:
        await rig.ask(headers=[f"traceparent: {parent}", "tracestate: a=1, b=2"])
        assert made.header("traceparent") == parent
        assert made.header("tracestate") == "a=1, b=2"
