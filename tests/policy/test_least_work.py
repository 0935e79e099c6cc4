"""``least-work`` by its rules (RULES 9): what it weighs, whom it passes over, what it says."""

from typing import Any

import attrs
import pytest

from tests.rig import MODEL, Answer, Flown, Rig, settings
from trioroute import events as e
from trioroute.policy import commands as c
from trioroute.policy.blocks import TEXT_MAX, prompt_blocks
from trioroute.policy.decide import arrive_of
from trioroute.policy.explain import explain
from trioroute.policy.least_work import DELAYED_M, REQUEST_TOKENS, least_work
from trioroute.policy.select import Choice, Weighed
from trioroute.projections.prompts import BLOCK_BYTES, BLOCKS_MAX

BLOCK_TOKENS = BLOCK_BYTES // 4


def rig(*names: str, **sections: dict[str, Any]) -> Rig:
    return Rig(settings(policy={"name": "least-work"}, **sections)).live(*names)


def asking(on: Rig, *blocks: int, tokens: int = 0, **changes: Any) -> c.Arrive:
    on.requests += 1
    return c.Arrive(
        at_ms=on.at_ms,
        request_id=f"q{on.requests}",
        model=MODEL,
        prompt_bytes=4 * tokens or len(blocks) * BLOCK_BYTES,
        blocks=blocks,
        **changes,
    )


def ask(on: Rig, *blocks: int, tokens: int = 0, **changes: Any) -> Answer:
    return on.send(asking(on, *blocks, tokens=tokens, **changes))


def go(on: Rig, *blocks: int, tokens: int = 0, **changes: Any) -> Flown:
    answer = ask(on, *blocks, tokens=tokens, **changes)
    assert isinstance(answer, Flown), answer
    return answer


def use(on: Rig, *blocks: int, tokens: int = 0) -> Flown:
    flown = go(on, *blocks, tokens=tokens)
    on.finish(flown)
    return flown


def test_a_conversation_stays_where_its_blocks_are_and_makes_no_pin() -> None:
    on = rig("a", "b", "c")
    text = [*range(1, 20)]
    home = go(on, *text, session="s", prefix="p")
    assert home.reason == "load"
    on.finish(home)
    for block in range(20, 30):
        text.append(block)
        flown = go(on, *text, session="s", prefix="p")
        assert (flown.replica, flown.reason) == (home.replica, "affinity:prefix")
        assert (flown.pins, flown.event.uncached) == ((), BLOCK_TOKENS)
        on.finish(flown)
    assert not on.state.pins.session
    assert not on.state.pins.prefix
    on.verify()


def test_a_shared_beginning_holds_no_hot_replica() -> None:
    on = rig("a", "b", "c", "d")
    shared = range(1, 5)
    flown = [go(on, *shared, 100 + n, 200 + n, 300 + n) for n in range(40)]
    counts = [sum(one.replica == name for one in flown) for name in "abcd"]
    assert min(counts) >= 8
    on.verify()


def test_simultaneous_requests_without_a_past_are_spread_evenly() -> None:
    on = rig("a", "b", "c", "d")
    flown = [go(on, tokens=1000) for _ in range(100)]
    assert [sum(one.replica == name for one in flown) for name in "abcd"] == [25] * 4


def test_promised_prefill_counts_until_it_is_computed() -> None:
    on = rig("a", "b")
    large = go(on, tokens=100_000)
    others = [go(on, tokens=1000) for _ in range(10)]
    assert {one.replica for one in others} == {"ab".replace(large.replica, "")}
    on.pass_s(30)
    assert on.state.prompts.of(large.replica).owed_at(on.at_ms) == 0
    on.same()
    assert go(on, tokens=1000).replica == large.replica
    on.verify()


def test_it_moves_when_waiting_costs_more_than_computing_again() -> None:
    on = rig("a", "b")
    text = tuple(range(1, 11))
    home = use(on, *text).replica
    while (flown := go(on, *text, 99)).replica == home:
        assert len(on.state.load.flights) < 10
    assert flown.reason == "load"
    moved = least_work(on.state, asking(on, *text)).weighed
    assert all(one.cached == 10 * BLOCK_TOKENS for one in moved)


def test_the_requests_of_other_routers_count_where_they_are_counted() -> None:
    on = rig("a", "b")
    on.scrape(a=(5, 0), b=(0, 0))
    assert go(on, tokens=1000).replica == "b"
    found = {one.name: one for one in least_work(on.state, asking(on, tokens=1000)).weighed}
    assert (found["a"].present, found["a"].batch) == (5, 5 * REQUEST_TOKENS)
    assert found["a"].damage_m == 1000 + 5 * DELAYED_M


def small_caches(*names: str, blocks: int) -> Rig:
    on = rig(*names)
    told = {n: attrs.evolve(on.reading(n), cache_tokens=blocks * BLOCK_TOKENS) for n in names}
    on.scrape(**told)
    return on


def weighed(on: Rig, *blocks: int, tokens: int = 0) -> dict[str, Weighed]:
    return {
        one.name: one for one in least_work(on.state, asking(on, *blocks, tokens=tokens)).weighed
    }


def test_a_full_cache_that_is_found_again_is_dearer_than_one_with_room() -> None:
    on = small_caches("a", "b", blocks=12)
    text = tuple(range(1, 12))
    home = use(on, *text).replica
    for _ in range(20):
        use(on, *text)
    assert {one.damage_m for one in weighed(on, tokens=1000).values()} == {1000}
    use(on, *text, 12)
    found = weighed(on, tokens=1000)
    other = "ab".replace(home, "")
    assert found[home].conversations == 1
    assert 1900 < found[home].damage_m < 2000  # 0.9 and more of one conversation
    assert found[other].damage_m == 1000
    on.verify()


def test_where_all_caches_are_full_the_one_that_loses_most_loses_more() -> None:
    """Two conversations that fit on one replica are left alone; what fits nowhere goes where
    nothing fits already, past the wait there."""
    on = small_caches("a", "b", blocks=20)
    kept = [tuple(range(n, n + 10)) for n in (100, 200)]
    lost = [tuple(range(n, n + 19)) for n in (300, 400, 500)]
    on.drain("b")
    for _ in range(10):
        for text in kept:
            use(on, *text)
    on.drain("b", on=False)
    on.drain("a")
    for _ in range(10):
        for text in lost:
            use(on, *text)
    on.drain("a", on=False)
    waits = [go(on, *lost[0]), go(on, *lost[1])]
    assert [one.replica for one in waits] == ["b", "b"]
    assert [go(on, *text).replica for text in kept] == ["a", "a"]
    found = weighed(on, *range(600, 619))
    assert found["a"].damage_m > 2 * found["b"].damage_m
    on.verify()


def test_a_conversation_begins_where_fewer_come_though_nobody_is_present() -> None:
    on = rig("a", "b")
    texts = [tuple(range(n, n + 40)) for n in (100, 200, 300)]
    homes = {use(on, *text).replica for text in texts[:1]}
    on.drain("ab".replace(home := homes.pop(), ""))
    for text in texts:
        use(on, *text)
        use(on, *text)
    on.drain("ab".replace(home, ""), on=False)
    found = weighed(on, tokens=20_000)
    assert (found[home].conversations, found[home].present) == (3, 0)
    assert found[home].expected == found[home].total - 20_000 > 3 * 1000
    assert {use(on, *range(n, n + 40)).replica for n in (400, 500, 600)} == {"ab".replace(home, "")}
    on.verify()


def test_who_asks_is_not_expected_beside_itself() -> None:
    on = rig("a")
    text = (*range(1, 10),)
    use(on, *text)
    assert weighed(on, *text, 10)["a"].conversations == 0
    assert weighed(on, *range(50, 60))["a"].conversations == 1
    on.pass_s(100)
    assert weighed(on, *range(50, 60))["a"].conversations == 0


@pytest.mark.parametrize("what", ["busy", "stalled"])
def test_who_is_busy_or_stalled_is_passed_over_whatever_it_holds(what: str) -> None:
    on = rig("a", "b")
    text = tuple(range(1, 30))
    home = use(on, *text).replica
    other = "ab".replace(home, "")
    if what == "busy":
        on.finish(go(on, *text), "upstream_error", status=429, cause="status", blame="replica")
    else:
        stuck = on.reading(home, 1, 0, tokens=5)
        for _ in range(25):
            on.pass_s(3)
            on.scrape(**{home: stuck, other: on.reading(other)})
    assert go(on, *text).replica == other
    on.verify()


def test_a_queue_is_work_and_no_bar() -> None:
    on = rig("a", "b")
    text = tuple(range(1, 100))
    home = use(on, *text).replica
    on.scrape(**{home: (2, 1), "ab".replace(home, ""): (0, 0)})
    assert go(on, *text).replica == home


def test_all_busy_all_stay() -> None:
    on = rig("a", "b")
    for _ in range(2):
        on.finish(go(on), "upstream_error", status=429, cause="status", blame="replica")
    choice = least_work(on.state, asking(on))
    assert {one.name for one in choice.no_wait} == {"a", "b"}
    assert go(on).event.reason == "load"


def test_a_retry_goes_elsewhere_and_an_exhausted_one_nowhere() -> None:
    on = rig("a", "b")
    text = tuple(range(1, 30))
    first = go(on, *text)
    on.fail(first, status=503)
    second = on.retry(first)
    assert isinstance(second, Flown)
    assert second.replica != first.replica
    assert second.event.uncached == 29 * BLOCK_TOKENS
    on.fail(second, status=503)
    assert on.retry(second) is None
    on.verify()


def test_draining_ejected_and_joining_get_nothing_and_the_fallback_holds() -> None:
    on = rig("a", "b", "c")
    text = tuple(range(1, 30))
    use(on, *text)
    on.drain("a")
    on.eject("b")
    assert {go(on, *text, n).replica for n in range(100, 120)} == {"c"}
    on.eject("c")
    fallen = go(on, *text, draw=1)
    assert fallen.reason == "fallback"
    assert fallen.replica in "bc"
    on.drain("b")
    on.drain("c")
    refused = ask(on, *text)
    assert isinstance(refused, e.Refused)
    assert refused.code == "no_healthy_instances"
    on.verify()


def test_probing_takes_only_when_none_is_live_and_only_so_many() -> None:
    on = rig("a", "b")
    on.probing("a")
    assert {go(on, tokens=1000).replica for _ in range(10)} == {"b"}
    on.eject("b")
    assert [go(on, tokens=1000).replica for _ in range(4)] == ["a"] * 4
    assert ask(on, tokens=1000) is None
    on.verify()


def test_a_full_replica_makes_wait_and_is_never_chosen() -> None:
    on = rig("a", "b", admission={"max_in_flight": 2})
    text = tuple(range(1, 200))
    home = use(on, *text).replica
    there = [go(on, *text).replica for _ in range(4)]
    assert there.count(home) == 2
    assert ask(on, *text) is None
    on.verify()


def test_a_response_is_continued_where_it_was_made() -> None:
    on = rig("a", "b")
    made = go(on, *range(1, 4))
    on.finish(made, response="r1")
    for _ in range(5):
        go(on, *range(50, 90))
    again = go(on, 7, 8, response="r1")
    assert (again.replica, again.reason) == (made.replica, "affinity:response")
    assert again.event.blocks == (7, 8)
    on.verify()


def test_pins_of_another_policy_are_left_to_die() -> None:
    on = Rig().live("a", "b")
    on.use("s", "p")
    on.configure(settings(policy={"name": "least-work"}))
    assert go(on, *range(1, 9), session="s", prefix="p").pins == ()
    on.pass_s(301)
    on.same()
    on.tick()
    assert on.prefix_pin("p") is None
    on.verify()


def test_the_explanation_tells_the_sums_that_decided() -> None:
    on = rig("a", "b")
    home = go(on, *range(1, 11))
    arrive = asking(on, *range(1, 11), 12)
    choice = least_work(on.state, arrive)
    told = explain(choice, arrive, on.state.settings)
    other = "ab".replace(home.replica, "")
    assert told.steps[2].name == "least work"
    assert choice.replica == other
    assert told.because == (
        "it had the least work, 5,632 tokens (5,632 uncached, 0 promised, 0 in flight); "
        f"the next, {home.replica}, has 8,708 (512 uncached x 1.15, 5,120 promised, 1 in flight)"
    )
    assert told.steps[2].dropped[0].why == "work 8,708 against 5,632"
    assert told.steps[3].note == "least-work looks at no pins"
    waiting = Choice("wait", None, None, choice.pool, choice.routable)
    assert "waits in line" in explain(waiting, arrive, on.state.settings).because


def test_a_decision_taken_again_knows_the_whole_prompt() -> None:
    on = rig("a")
    use(on, *range(1, 6))
    arrive = asking(on, *range(1, 9))
    flown = on.send(arrive)
    assert isinstance(flown, Flown)
    assert arrive_of(flown.event, on.at_ms, on.state).blocks[:5] == arrive.blocks[:5]
    assert flown.event.base == 5
    on.verify()


# The digests of a prompt

SECRET = b"k" * 32


def blocks(body: dict[str, Any], model: str = "m", secret: bytes = SECRET) -> tuple[int, ...]:
    return prompt_blocks(body, model=model, secret=secret)


def talk(*texts: object, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text} for text in texts], **more}


def test_a_prompt_that_goes_on_keeps_its_blocks() -> None:
    short = blocks(talk("a" * 5000))
    long = blocks(talk("a" * 5000, "b" * 5000))
    assert (len(short), len(long)) == (2, 4)
    assert long[:2] == short
    assert len({*long}) == 4
    assert all(0 < one < 1 << 48 for one in long)


def test_a_change_at_the_start_changes_every_block() -> None:
    one = blocks(talk("a" + "x" * 9000))
    for other in (
        blocks(talk("b" + "x" * 9000)),
        blocks(talk("a" + "x" * 9000), model="n"),
        blocks(talk("a" + "x" * 9000), secret=b"other"),
        blocks(talk("a" + "x" * 9000, cache_salt="s")),
        blocks(talk("a" + "x" * 9000, tools=[{"function": {"name": "f"}}])),
        blocks({"instructions": "i", **talk("a" + "x" * 9000)}),
    ):
        assert not {*one} & {*other}


@pytest.mark.parametrize(
    "body",
    [
        talk("p" * 4096),
        talk([{"type": "text", "text": "p" * 4096}]),
        {"prompt": "p" * 4096},
        {"prompt": list(range(1024))},
        {"input": "p" * 4096},
        {"system": "p" * 4096, "messages": []},
        {"prompt": "\ud800" * 1400},
    ],
)
def test_every_shape_of_prompt_has_blocks(body: dict[str, Any]) -> None:
    assert len(blocks(body)) == 2


@pytest.mark.parametrize("body", [{}, talk("short"), {"messages": 5}, {"prompt": [1, "x", -3]}])
def test_what_is_short_or_odd_has_none(body: dict[str, Any]) -> None:
    assert blocks(body) == ()


def test_a_huge_prompt_is_known_by_its_start() -> None:
    huge = blocks(talk("x" * (3 * TEXT_MAX)))
    assert len(huge) == BLOCKS_MAX
