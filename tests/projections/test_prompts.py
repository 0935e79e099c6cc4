"""What the router remembers of prompts it sent: a tree, a cache a replica, a debt of prefill."""

import random
from typing import Any

import attrs
import pytest

from tests.rig import MODEL, Flown, Rig, answer_of, settings
from trioroute.events import Released
from trioroute.policy import commands as c
from trioroute.projections.digest import digest
from trioroute.projections.prompts import BLOCK_BYTES, BLOCKS_MAX, Prompts, Sent, known_depth

BLOCK_TOKENS = BLOCK_BYTES // 4


def rig(*names: str, cache_blocks: int | None = None, **sections: dict[str, Any]) -> Rig:
    made = Rig(settings(policy={"name": "least-work"}, **sections))
    made.live(*(names or ("a",)))
    if cache_blocks is not None:
        for name in names or ("a",):
            told = attrs.evolve(made.reading(name), cache_tokens=cache_blocks * BLOCK_TOKENS)
            made.scrape(**{name: told})
    return made


def send(on: Rig, *blocks: int, more: int = 0) -> Flown:
    """A prompt of these blocks and ``more`` tokens, sent by the policy."""
    on.requests += 1
    arrive = c.Arrive(
        at_ms=on.at_ms,
        request_id=f"q{on.requests}",
        model=MODEL,
        prompt_bytes=len(blocks) * BLOCK_BYTES + more * 4,
        blocks=blocks,
    )
    answer = answer_of(on.handle(arrive))
    assert isinstance(answer, Flown)
    return answer


def sent(on: Rig, name: str = "a") -> Sent:
    return on.state.prompts.of(name)


def check_tree(prompts: Prompts) -> None:
    """Held blocks and no others are in the tree, counted, each with all before it."""
    counted: dict[int, int] = {}
    for one in prompts.sent.values():
        assert len(one.held) <= one.room
        assert one.held_sum == sum(one.held)
        assert one.owed >= 0
        for block in one.held:
            counted[block] = counted.get(block, 0) + 1
            parent = prompts.parent[block]
            assert parent == 0 or parent in one.held
    assert counted == prompts.holders
    assert counted.keys() == prompts.parent.keys()


def test_a_prompt_that_goes_on_is_logged_by_what_is_new() -> None:
    on = rig()
    first = send(on, 1, 2, 3)
    second = send(on, 1, 2, 3, 4, 5, more=7)
    other = send(on, 1, 9)
    assert (first.event.base, first.event.blocks) == (0, (1, 2, 3))
    assert (second.event.base, second.event.blocks) == (3, (4, 5))
    assert (other.event.base, other.event.blocks) == (1, (9,))
    assert [one.event.uncached for one in (first, second, other)] == [
        3 * BLOCK_TOKENS,
        2 * BLOCK_TOKENS + 7,
        BLOCK_TOKENS,
    ]
    check_tree(on.state.prompts)
    on.verify()


def test_the_cache_that_a_replica_tells_bounds_what_is_held_and_ends_go_first() -> None:
    on = rig(cache_blocks=4)
    send(on, 1, 2, 3)
    send(on, 10, 11)
    assert list(sent(on).held) == [2, 1, 11, 10]
    send(on, 1, 2)
    send(on, 20)
    assert list(sent(on).held) == [10, 2, 1, 20]
    assert 3 not in on.state.prompts.parent
    check_tree(on.state.prompts)
    on.verify()


def test_a_prompt_longer_than_the_cache_keeps_its_start() -> None:
    on = rig(cache_blocks=3)
    send(on, *range(1, 9))
    assert sorted(sent(on).held) == [1, 2, 3]
    check_tree(on.state.prompts)


@pytest.mark.parametrize("what", ["eject", "leave", "sleep", "move"])
def test_a_cache_that_is_gone_is_forgotten(what: str) -> None:
    on = rig("a", "b")
    on.drain("b")
    send(on, 1, 2)
    on.drain("b", on=False)
    on.drain("a")
    send(on, 1, 3)
    on.drain("a", on=False)
    assert [len(sent(on, name).held) for name in "ab"] == [2, 2]
    if what == "eject":
        on.eject("a")
    elif what == "leave":
        on.leave("a")
    elif what == "sleep":
        on.scrape(a=on.reading("a", asleep=True))
    else:
        on.do(c.Join(at_ms=on.at_ms, replica="a", url="http://elsewhere:1", models=(MODEL,)))
    assert not sent(on, "a").held
    assert sorted(on.state.prompts.parent) == [1, 3]
    check_tree(on.state.prompts)
    on.verify()


def test_two_prefixes_of_one_digest_cost_an_estimate_and_no_replay() -> None:
    on = rig()
    send(on, 1, 2, 3)
    clash = send(on, 7, 2, 8)
    again = send(on, 7, 2, 8, 9)
    assert (clash.event.base, clash.event.blocks) == (0, (7, 2, 8))
    assert (again.event.base, again.event.blocks) == (0, (7, 2, 8, 9))
    on.verify()


def test_what_was_promised_drains_at_the_speed_and_ends_with_the_answer() -> None:
    on = rig()
    flown = send(on, more=16_000)
    assert sent(on).owed_at(on.at_ms) == 16_000
    assert sent(on).owed_at(on.at_ms + 1000) == 8000
    assert sent(on).owed_at(on.at_ms + 5000) == 0
    on.pass_s(1)
    later = send(on, more=4000)
    assert sent(on).owed == 12_000
    on.finish(flown, ttfb_ms=900, duration_ms=1000)
    assert sent(on).owed == 4000, "what came before its first byte is computed"
    on.fail(later)
    assert sent(on).owed == 0, "what was never answered is owed no more"
    on.verify()


def test_an_error_says_nothing_of_what_was_promised_before() -> None:
    on = rig()
    send(on, more=100_000)
    wrong = send(on, more=1000)
    on.finish(wrong, "client_error", ttfb_ms=1, duration_ms=9)
    assert sent(on).owed == 100_000
    assert sent(on).spent_ms == 1000
    on.verify()


def test_the_speed_is_learnt_from_streams_alone() -> None:
    on = rig()
    for _ in range(60):
        flown = send(on, more=10_000)
        on.pass_s(10)
        on.finish(flown, ttfb_ms=5000, duration_ms=9000, completion_tokens=100)
    speed = sent(on).spent_tokens * 1000 // sent(on).spent_ms
    assert 2000 <= speed <= 2100
    for _ in range(60):
        flown = send(on, more=10_000)
        on.pass_s(100)
        on.finish(flown, ttfb_ms=90_000, duration_ms=90_001, completion_tokens=100)
    assert speed == sent(on).spent_tokens * 1000 // sent(on).spent_ms
    on.verify()


def test_another_policy_leaves_no_record_and_the_digest_as_it_was() -> None:
    on = Rig().live("a")
    on.finish(on.go("s", tokens=9000))
    assert on.state.prompts == Prompts()


def test_halving_finds_what_walking_finds() -> None:
    chance = random.Random(3)
    for _ in range(200):
        blocks = list(range(1, chance.randrange(1, 40)))
        depth = chance.randrange(len(blocks) + 1)
        assert known_depth(dict.fromkeys(blocks[:depth], 0), blocks) == depth


@pytest.mark.parametrize("seed", range(6))
def test_any_traffic_keeps_the_tree_bounded_and_is_folded_again_to_the_same(seed: int) -> None:
    chance = random.Random(seed)
    on = rig("a", "b", "c", cache_blocks=chance.randrange(3, 40))
    flying: list[Flown] = []
    prompts: list[list[int]] = [[]]
    for number in range(250):
        on.pass_s(chance.randrange(1, 3000) / 1000)
        text = [*chance.choice(prompts[-12:])]
        text += [chance.getrandbits(48) | 1 for _ in range(chance.randrange(5))]
        prompts.append(text)
        on.requests += 1
        arrive = c.Arrive(
            at_ms=on.at_ms,
            request_id=f"q{number}",
            model=MODEL,
            prompt_bytes=len(text) * BLOCK_BYTES + chance.randrange(2000),
            blocks=tuple(text[:BLOCKS_MAX]),
            session=f"s{number % 5}",
            prefix="p",
        )
        answer = on.send(arrive)
        flying += [answer] if isinstance(answer, Flown) else []
        while len(flying) > 6:
            flown = flying.pop(chance.randrange(len(flying)))
            if chance.random() < 0.2:
                on.fail(flown, status=503)
                again = on.retry(flown)
                flying += [again] if isinstance(again, Flown) else []
            else:
                on.finish(flown, ttfb_ms=chance.randrange(900), duration_ms=2000)
        if number % 40 == 30:
            on.eject(chance.choice("abc"))
        if number % 9 == 0:
            on.same()
            on.tick()
        if number == 120:
            on.restart()
            flying.clear()
        check_tree(on.state.prompts)
    assert on.logged(Released)
    assert not on.state.pins.session
    before = digest(on.state)
    on.verify()
    assert digest(on.state) == before
