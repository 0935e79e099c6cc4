"""What may be sent to a second replica, and what never is."""

from typing import Any

import pytest

from tests.proxy.replies import dies, reply, says
from tests.proxy.scripted import Peer, always
from tests.proxy.whole import CHAT, whole

GOOD = reply(b'{"good":1}')


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/files"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("DELETE", "/v1/responses/resp_1"),
        ("DELETE", CHAT),
        ("PUT", CHAT),
        ("POST", "/v1/load_lora_adapter"),
    ],
)
@pytest.mark.parametrize("bad", [dies, says(reply(b"no", 503)), says(reply(b"no", 500))])
async def test_what_has_side_effects_is_never_sent_twice(method: str, path: str, bad: Any) -> None:
    async with whole(bad, bad) as rig:
        answer = await rig.ask(b"{}", path, method)
        assert answer.status in (500, 502, 503)
        assert sum(len(made.peers) for made in rig.replicas) == 1
        assert len(await rig.ends()) == 1


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_what_has_side_effects_is_sent_elsewhere_if_it_was_not_sent(method: str) -> None:
    async with whole(always(GOOD), always(GOOD), refusing="a") as rig:
        answer = await rig.ask(b"{}", "/v1/files", method)
        assert answer.status == 200
        assert answer.headers["x-trioroute-attempts"] == "2"


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
async def test_reading_is_repeatable_on_every_path(method: str) -> None:
    async with whole(dies, always(reply(b""))) as rig:
        assert (await rig.ask(b"", "/v1/files", method)).status == 200
        assert len(await rig.ends()) == 2


async def test_a_kept_connection_that_died_is_replaced_without_a_second_dispatch() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(GOOD)

    async with whole(script) as rig:
        for _ in range(5):
            assert (await rig.ask(b"{}", "/v1/files")).status == 200
        assert [end.outcome for end in await rig.ends()] == ["ok"] * 5
