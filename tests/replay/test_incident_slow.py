"""A replica that answers, but slowly: ``--incident`` names it, ``--replica`` tells its times."""

import random
from collections import Counter

from tests.replay.prevented import told_of
from tests.replay.rig import source_of
from tests.rig import Flown, Rig
from trioroute.replay.incident import Incident, tell_incident
from trioroute.replay.incident.asked import Asked
from trioroute.replay.incident.beside import (
    Beside,
    Served,
    beside,
    joined,
    steps_later,
    surely_not_later,
    usual_of,
)
from trioroute.replay.incident.bins import BINS_MAX
from trioroute.replay.incident.lines import blocks_of
from trioroute.replay.incident.slow import SLOW_STEPS
from trioroute.replay.incident.times import Times, bin_within, quantile_bin
from trioroute.replay.replica import tell_replica


def used(rig: Rig, seconds: int, slow: int = 1, whole: bool = True) -> list[Flown]:
    """Two requests at once, on both replicas, ten times in so many seconds; those on b take
    ``slow`` times as long."""
    on_b = []
    for _ in range(10):
        rig.pass_s(seconds / 10)
        one, other = rig.go(), rig.go()
        for flown in (one, other):
            took_ms = 300 * (slow if flown.replica == "b" else 1)
            if whole:
                rig.finish(flown, ttfb_ms=took_ms, duration_ms=took_ms, completion_tokens=20)
            else:
                rig.finish(flown, ttfb_ms=took_ms // 3, duration_ms=took_ms, bytes=4000)
            on_b += [flown] if flown.replica == "b" else []
    return on_b


def mixed(rig: Rig, seconds: int, slow: int = 1) -> None:
    """Every half second a request on each of two replicas: long answers on b and short ones on a,
    and of each kind two in five the other way round; those on b take ``slow`` times as long. Each
    ends before the next ones come."""
    for place in range(seconds * 2):
        rig.pass_s(0.5)
        for flown in (rig.go(), rig.go()):
            turned, on_b = place % 5 in (1, 3), flown.replica == "b"
            tokens = 150 if on_b != turned else 20
            made_ms = 16 * tokens * (slow if on_b else 1)
            if place % 2:
                rig.finish(flown, duration_ms=made_ms, ttfb_ms=made_ms, completion_tokens=tokens)
            else:
                rig.finish(flown, duration_ms=20 + made_ms, ttfb_ms=20, bytes=200 * tokens)


def told_with(slow: int, whole: bool = True) -> tuple[Incident, list[Flown]]:
    rig = Rig().live("a", "b")
    used(rig, 20)
    on_b = used(rig, 10, slow, whole)
    used(rig, 20)
    return told_of(rig), on_b


def test_a_slow_replica_is_named_with_the_numbers_of_its_pool() -> None:
    told, on_b = told_with(4)
    assert {one.replica for one in told.slow} == {"b"}
    (one,) = told.slow
    assert one.model == "m"
    assert one.p50_ms >= 3 * one.others_p50_ms > 0
    assert one.slowest in {f"r1/{flown.number}" for flown in on_b}
    (block,) = [block for block in blocks_of(told) if block.title == "Slow replicas"]
    assert block.said == ("slow: b",)
    (cause,) = [block for block in blocks_of(told) if block.title == "First cause"]
    assert cause.said[0].endswith("in this span, but for what was slow: b")


def test_long_answers_on_one_replica_and_short_ones_on_the_other_are_no_slowness() -> None:
    rig = Rig().live("a", "b")
    mixed(rig, 60)
    told = told_of(rig)
    times = {one.replica: one.duration_p50_ms or 0 for one in told.replicas}
    assert times["b"] > 3 * times["a"], "whole durations would say so"
    assert told.slow == ()


def test_a_slow_replica_is_found_among_short_and_long_answers_and_from_when_on_and_until() -> None:
    rig = Rig().live("a", "b")
    mixed(rig, 40)
    began_ms = rig.at_ms
    mixed(rig, 20, slow=4)
    ended_ms = rig.at_ms
    mixed(rig, 40)
    source = source_of(rig)
    spans = [(from_ms, source.last().at_ms) for from_ms in (1, 2701, 9001)]
    told = [tell_incident(source, *span).slow for span in spans]
    assert told[0] == told[1] == told[2], "wherever the span begins"
    (one,) = told[0]
    assert one.replica == "b"
    assert began_ms - 9600 <= one.from_ms <= began_ms + 1000, "asked for before it ended there"
    assert ended_ms - 1000 <= one.to_ms <= ended_ms
    assert 3 <= one.p50_ms / one.others_p50_ms <= 5


def test_one_that_embeds_slowly_is_found_by_the_tokens_of_its_prompts() -> None:
    rig = Rig().live("a", "b")
    for place in range(30):
        for flown in (rig.pass_s(0.5).go(), rig.go()):
            tokens = 1000 if (flown.replica == "b") == (place % 3 > 0) else 300
            took_ms = tokens * (4 if flown.replica == "b" and place >= 10 else 1) // 2
            tells = {"prompt_tokens": tokens, "completion_tokens": 0}
            rig.finish(flown, "ok", ttfb_ms=took_ms, duration_ms=took_ms, **tells)
    (one,) = told_of(rig).slow
    assert one.replica == "b"


def test_whole_answers_that_tell_no_tokens_are_not_compared() -> None:
    """A long one has hardly more bytes than a short one, for most are its envelope."""
    rig = Rig().live("a", "b")
    for _ in range(12):
        for flown in (rig.pass_s(0.5).go(), rig.go()):
            long = flown.replica == "b"
            took_ms, size = (2500, 1173) if long else (345, 651)
            rig.finish(flown, ttfb_ms=took_ms, duration_ms=took_ms, bytes=size)
    assert told_of(rig).slow == ()


def test_a_replica_that_is_a_little_slower_is_not_named() -> None:
    assert told_with(2)[0].slow == ()


def test_few_answers_do_not_say_that_a_replica_is_slow() -> None:
    rig = Rig().live("a", "b")
    for _ in range(2):
        one, other = rig.pass_s(1).go(), rig.go()
        for flown in (one, other):
            took_ms = 9000 if flown.replica == "b" else 30
            rig.finish(flown, ttfb_ms=9, duration_ms=took_ms)
    assert told_of(rig).slow == ()


def test_whole_answers_among_streams_are_no_slow_first_bytes() -> None:
    rig = Rig().live("a", "b")
    for _ in range(12):
        one, other = rig.pass_s(0.3).go(), rig.go()
        for flown in (one, other):
            rig.finish(flown, ttfb_ms=1000 if flown.replica == "b" else 50, duration_ms=1000)
    assert told_of(rig).slow == ()


def test_one_that_is_slow_before_the_first_byte_only_is_told_by_its_delayed_requests() -> None:
    """A cold cache looks the same in the log: it is not called slow."""
    rig = Rig().live("a", "b")
    for place in range(280):
        slow = 120 <= place < 160
        rig.pass_s(0.5)
        for flown in (rig.go(), rig.go()):
            first_ms = 1200 if slow and flown.replica == "b" else 200
            rig.finish(flown, ttfb_ms=first_ms, duration_ms=first_ms + 1000, completion_tokens=100)
    told = told_of(rig)
    assert told.slow == ()
    assert [(one.replica, one.requests) for one in told.delayed] == [("b", 40)]


def test_times_are_told_by_replica() -> None:
    rig = Rig().live("a", "b")
    used(rig, 10, 4)
    times = {one.replica: one for one in told_of(rig).replicas}
    assert (times["a"].answers, times["b"].answers) == (10, 10)
    assert (times["a"].duration_p50_ms, times["b"].duration_p50_ms) == (300, 1200)
    own = tell_replica(source_of(rig), "b").times
    assert own == times["b"]


def test_no_figure_is_less_than_what_was_measured_and_none_an_eighth_more() -> None:
    dice = random.Random(7)
    for _ in range(100):
        measured = sorted(dice.randint(1, 40_000) for _ in range(dice.randint(1, 60)))
        times = Times()
        for ms in measured:
            times.take(ms, ms)
        told = times.told("a")
        for thousandths, said in ((500, told.ttfb_p50_ms), (990, told.duration_p99_ms)):
            exact = measured[-(-len(measured) * thousandths // 1000) - 1]
            assert said is not None
            assert exact <= said <= exact * 9 / 8
        assert told.ttfb_p99_ms == measured[-1], "of fewer than a hundred the last one"


def test_each_eject_of_a_replica_has_its_own_evidence() -> None:
    rig = Rig().live("a", "b")
    failed = []
    for _ in range(2):
        for _ in range(3):
            on_a = rig.pass_s(1).go_to("a")
            rig.finish(on_a, "upstream_error")
            failed.append(on_a.number)
        rig.calm(80)
    told = tell_replica(source_of(rig), "a")
    held = [line for line in told.history if line.event == "Released"]
    assert sum(line.event == "Ejected" for line in told.history) == 2
    assert [line.text.split()[1] for line in held] == [f"r1/{number}" for number in failed]


def test_a_quantile_of_bytes_is_that_of_counted_bins() -> None:
    dice = random.Random(5)
    for _ in range(200):
        most = dice.choice((1, 3, 40, BINS_MAX))
        bins = bytes(dice.randrange(most) for _ in range(dice.randint(1, 60)))
        for thousandths in (1, 250, 500, 750, 990, 1000):
            assert bin_within(bins, thousandths) == quantile_bin(Counter(bins), thousandths)


def steps_of(dice: random.Random) -> list[Beside]:
    """Four steps of time of replica "a", of two others, with a rare other kind of answer."""
    steps = []
    for number in range(4):
        window: dict[Served, Asked] = {(name, "m"): Asked() for name in "abc"}
        for (name, _), asked in window.items():
            for _ in range(dice.choice((1, 4, 20))):
                kind = dice.choice((1, 1, 1, 10))
                step = 100 + dice.randrange(30) + (dice.choice((0, 20)) if name == "a" else 0)
                asked.cells.extend((0, 5, 500, kind << 8 | step, 6, 0, 1))
        steps.append(beside(number, window)["a", "m"])
    return steps


def test_what_one_kind_of_answers_shows_is_what_all_of_them_show() -> None:
    dice, sure, slow = random.Random(3), 0, 0
    for _ in range(400):
        steps = steps_of(dice)
        mine, others = joined(steps)
        usual = usual_of(mine, others)
        later = None if usual is None else steps_later(mine, others, usual)
        slow += later is not None and later >= SLOW_STEPS
        if surely_not_later(steps, SLOW_STEPS):
            sure += 1
            assert usual is not None
            assert later is None or later < SLOW_STEPS
    assert sure > 100
    assert slow > 10
