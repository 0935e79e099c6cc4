"""The blocks of a prompt as it comes in over HTTP: made only for ``least-work``, and never text."""

import gzip
import json

from tests.proxy.replies import dies, reply
from tests.proxy.scripted import always
from tests.proxy.whole import MODEL, SECRET, chat, whole
from trioroute import events as e
from trioroute.policy.blocks import prompt_blocks

LEAST_WORK = {"name": "least-work"}
OPENING = "the quick brown fox jumps over the lazy dog " * 120


def talk(*more: str) -> dict[str, object]:
    return chat(messages=[{"role": "user", "content": text} for text in (OPENING, *more)])


async def test_a_conversation_goes_where_its_blocks_are_and_no_text_is_logged() -> None:
    async with whole(always(reply()), always(reply()), policy=LEAST_WORK) as rig:
        first = talk()
        second = talk("sphinx of black quartz " * 200)
        answers = [await rig.ask(body) for body in (first, second)]
        assert [one.status for one in answers] == [200, 200]
        assert answers[1].headers["x-trioroute-reason"] == "affinity:prefix"
        one, other = await rig.events(e.Dispatched)
        assert one.replica == other.replica
        assert one.blocks == prompt_blocks(first, model=MODEL, secret=SECRET)
        assert other.base == one.blocks[-1]
        whole_prompt = prompt_blocks(second, model=MODEL, secret=SECRET)
        assert (*one.blocks, *other.blocks) == whole_prompt
        assert (one.policy, other.policy) == ("least-work", "least-work")
        assert other.uncached < other.prompt_bytes // 4
        assert not await rig.events(e.Bound)
        bodies = b"".join(row.body for row in rig.rows())
        assert b"quick" not in bodies
        assert b"sphinx" not in bodies


async def test_a_compressed_body_has_the_blocks_of_the_plain_one() -> None:
    async with whole(always(reply()), policy=LEAST_WORK) as rig:
        packed = gzip.compress(json.dumps(talk()).encode())
        assert (await rig.ask(packed, headers=["content-encoding: gzip"])).status == 200
        assert (await rig.ask(talk())).status == 200
        one, other = await rig.events(e.Dispatched)
        assert (other.base, other.blocks) == (one.blocks[-1], ())


async def test_a_prompt_that_is_tried_elsewhere_is_not_logged_twice() -> None:
    async with whole(dies, dies, policy=LEAST_WORK) as rig:
        assert (await rig.ask(talk())).status >= 500
        one, other = await rig.events(e.Dispatched)
        assert one.replica != other.replica
        assert (one.base, len(one.blocks)) == (0, 2)
        # The first attempt's replica was ejected, so its blocks are known no more.
        assert (other.base, len(other.blocks)) in ((0, 2), (one.blocks[-1], 0))


async def test_soft_sticky_makes_no_blocks() -> None:
    async with whole(always(reply())) as rig:
        assert (await rig.ask(talk())).status == 200
        (event,) = await rig.events(e.Dispatched)
        assert (event.base, event.blocks, event.uncached) == (0, (), 0)
        assert not rig.router.state.prompts.sent
