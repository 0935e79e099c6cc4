"""A replica that is killed while a request is with it on a kept connection."""

import pytest

from tests.proxy.replies import reply
from tests.proxy.scripted import Peer, always
from tests.proxy.whole import CHAT, NAMES, Whole, whole
from trioroute.policy import retry_budget
from trioroute.proxy.upstream.wire import Origin

GOOD = reply(b'{"good":1}')
STICKS = ["x-session-id: s"]


async def killed(rig: Whole, path: str) -> int:
    """Answer on a connection, take the next request on it and die; the status it is answered with
    in the end."""
    assert (await rig.ask(b"{}", path, headers=STICKS)).status == 200
    transport = rig.desk.upstreams.of("a", rig.replicas[0].url).transport
    transport.origin = Origin("127.0.0.1", 1)
    answer = await rig.ask(b"{}", path, headers=STICKS)
    if answer.status == 502:
        assert b"(refused)" in answer.body
        assert b"a kept connection that was lost without an answer" in answer.body
    return answer.status


async def answers_once(peer: Peer) -> None:
    await peer.request()
    await peer.send(GOOD)
    await peer.request()


@pytest.mark.parametrize("path", [CHAT, "/v1/files"])
async def test_the_request_moves_on_out_of_the_budget_and_the_replica_is_out(path: str) -> None:
    async with whole(answers_once, always(GOOD)) as rig:
        assert await killed(rig, path) == 200
        assert rig.standing("a") == "EJECTED"
        assert [one.cause for one in await rig.ends()] == ["none", "refused", "none"]
        assert sum(slot[2] for slot in rig.desk.budget._slots) == 1


@pytest.mark.parametrize("path", [CHAT, "/v1/files"])
async def test_with_the_budget_spent_it_is_told_what_happened(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_budget, "ALWAYS_ALLOWED", 0)
    async with whole(answers_once, always(GOOD), retries={"budget_m": 0}) as rig:
        assert await killed(rig, path) == 502
        assert rig.standing("a") == "EJECTED"


async def test_one_that_never_had_the_request_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry_budget, "ALWAYS_ALLOWED", 0)
    async with whole(*[always(GOOD)] * 2, refusing="a", retries={"budget_m": 0}) as rig:
        answer = await rig.ask(b"{}")
        assert (answer.status, answer.headers["x-trioroute-replica"]) == (200, NAMES[1])
