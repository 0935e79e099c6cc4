"""Clients that leave at any moment, thousands of them: nothing of them stays.

``CANCELS=10000`` for the full count.
"""

import os
import random

import pytest
import trio

from tests.proxy.replies import DONE, LAST, chunk, reply, stream_head, token
from tests.proxy.scripted import Peer
from tests.proxy.serving import client, eventually, open_files
from tests.proxy.whole import chat, request, whole
from trioroute import events as e

CANCELS = int(os.environ.get("CANCELS", "2000"))
AT_ONCE = 40
LATEST_LEAVE_S = 0.1


async def replica(peer: Peer) -> None:
    """Answers in pieces, or at once, or late, by what it is asked."""
    while taken := await peer.request():
        await trio.sleep(0.004)
        if b'"stream": true' not in taken:
            await peer.send(reply())
            continue
        await peer.send(stream_head())
        for _ in range(4):
            await peer.send(chunk(token("a")))
            await trio.sleep(0.003)
        await peer.send(chunk(DONE) + LAST)


def living_tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


@pytest.mark.timeout(60 + CANCELS // 25)  # so that the full count has the time it takes
async def test_random_cancels_leak_no_slot_no_socket_and_no_task() -> None:
    chance = random.Random(10_000)
    async with whole(replica, replica, replica, eject={"request_failures": 10_000}) as rig:

        async def leaves(user: int) -> None:
            async with client(rig.port) as raw:
                data = request(chat(stream=chance.random() < 0.7, user=str(user)))
                cut = len(data) if chance.random() < 0.9 else chance.randrange(1, len(data))
                if cut == len(data) and chance.random() < 0.05:
                    await raw.send(data)
                    await raw.reply()  # one that stays, however slow the machine is
                    return
                with trio.move_on_after(chance.random() * LATEST_LEAVE_S):
                    await raw.send(data[:cut])
                    await raw.rest()
                if chance.random() < 0.5:
                    raw.reset()

        async def some(count: int) -> None:
            for start in range(0, count, AT_ONCE):
                async with trio.open_nursery() as nursery:
                    for user in range(start, min(count, start + AT_ONCE)):
                        nursery.start_soon(leaves, user)

        def at_rest() -> bool:
            for name in "abc":
                rig.desk.upstreams.distrust(name)  # closes what is kept
            return not rig.in_flight and not rig.desk.in_use and not len(rig.desk.watch)

        await some(2 * AT_ONCE)
        await eventually(at_rest)
        await trio.sleep(0.2)
        files, tasks = open_files(), living_tasks()
        await some(CANCELS)
        await eventually(lambda: at_rest() and open_files() <= files and living_tasks() <= tasks)
        outcomes = {one.outcome for one in await rig.events(e.Released)}
        assert {"client_gone", "ok"} <= outcomes
        assert (await rig.ask()).status == 200
