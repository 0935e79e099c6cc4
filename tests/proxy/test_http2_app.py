"""HTTP/2 clients that stall or leave, and what the log says of their requests."""

import json

import attrs
import pytest
import trio

from tests.proxy.asker import asking
from tests.proxy.replies import chunk as piece
from tests.proxy.replies import reply, silent, stream_head
from tests.proxy.scripted import Peer
from tests.proxy.serving import eventually
from tests.proxy.whole import CHAT, LIMITS, chat, whole


def wants(word: str) -> bytes:
    return json.dumps(chat(user=word)).encode()


async def floods_or_replies(peer: Peer) -> None:
    while request := await peer.request():
        if b"flood" in request:
            await peer.send(stream_head())
            while True:
                await peer.send(piece(b"data: " + b"x" * 60_000 + b"\n\n"))
        await peer.send(reply())


async def test_a_client_that_stops_reading_harms_no_replica() -> None:
    """What it asked for meanwhile ends on its own account, and not on that of who answered."""
    timeouts = {"client_stall_ms": 600, "first_byte_ms": 200, "idle_ms": 0}
    async with whole(floods_or_replies, timeouts=timeouts) as rig, asking(rig) as asker:
        await asker.ask(CHAT, wants("flood"))
        await trio.sleep(0.3)
        for _ in range(4):
            await asker.ask(CHAT, wants("little"))
        ends = await rig.ends()
        assert len(ends) == 5
        assert {(end.outcome, end.blame) for end in ends} == {("client_stall", "client")}
        assert rig.standing("a") == "LIVE"


@pytest.mark.parametrize("leaves", [False, True])
async def test_the_routers_own_answer_does_not_stay_in_flight(leaves: bool) -> None:
    limits = attrs.evolve(LIMITS, client_stall_ms=300)
    timeouts = {"client_stall_ms": 300, "first_byte_ms": 100}
    async with whole(silent, limits=limits, timeouts=timeouts) as rig:
        async with asking(rig, window=10) as asker:
            streams = [await asker.ask(CHAT, wants("x")) for _ in range(3)]
            await asker.read(lambda: set(asker.heads) == set(streams))
            if not leaves:
                await eventually(lambda: not rig.in_flight)
        await eventually(lambda: not rig.in_flight)
        ends = await rig.ends()
        assert [end.outcome for end in ends] == ["first_byte_timeout"] * 3


async def test_a_client_that_leaves_with_its_answer_under_way_is_gone() -> None:
    async with whole(floods_or_replies) as rig:
        async with asking(rig, window=10) as asker:
            stream = await asker.ask(CHAT, wants("little"))
            await asker.read(lambda: stream in asker.bodies)
        assert (await rig.released()).outcome == "client_gone"
