"""``--compare``: two logs side by side, and whether first bytes differ by more than chance."""

import json
import math
import random
from collections import Counter
from io import StringIO
from itertools import combinations
from pathlib import Path
from statistics import variance

import orjson
import pytest
from rich.console import Console

from eventlog.sqlite import SqliteStore
from tests.replay.logs import played, source_of
from tests.replay.rig import source_of as source_of_rig
from tests.replay.rig import store_of
from tests.replay.test_command import run
from tests.rig import Rig
from trioroute.policy.commands import Refuse
from trioroute.replay.compare import SURE, Compared, compare
from trioroute.replay.present_compare import present_compared
from trioroute.replay.significance import SAMPLE_MAX, Sample, means_apart, ranks_apart
from trioroute.replay.within import Within

SLOW = ",".join(f"replica={number},slow=4" for number in (1, 2, 3, 4))


def compared(first: str = "", second: str = SLOW) -> Compared:
    logs = (source_of(played(1500, faults=first)[0]), source_of(played(1500, faults=second)[0]))
    return compare(*logs, ("before", "after"))


def test_slower_replicas_are_found() -> None:
    told = compared()
    assert told.slower is not None
    assert told.p is not None
    assert told.slower > 0.5
    assert told.p < 0.01
    assert told.sentence.startswith("first bytes come later in the other log")
    back = compare(
        source_of(played(1500, faults=SLOW)[0]),
        source_of(played(1500)[0]),
        ("after", "before"),
    )
    assert back.slower == pytest.approx(1 - told.slower, abs=1e-3)
    assert back.sentence.startswith("first bytes come sooner in the other log")


def test_a_log_does_not_differ_from_itself() -> None:
    told = compared("", "")
    assert (told.slower, told.p) == (0.5, 1.0)
    assert "no difference that chance would not explain" in told.sentence


def test_counts_and_shares_are_those_of_the_rows() -> None:
    entries, _ = played(1500, faults="replica=1,down=60..120")
    side = compared("", "replica=1,down=60..120").other
    kinds = Counter(entry.kind for entry in entries)
    assert side.decisions == kinds["Dispatched"]
    assert (side.ejects, side.spills) == (kinds["Ejected"], kinds["Spilled"])
    assert side.rebinds == kinds["Rebound"]
    bodies = [orjson.loads(entry.body) for entry in entries if entry.kind == "Dispatched"]
    assert side.replicas == Counter(body["replica"] for body in bodies)
    assert side.reasons == Counter(body["reason"] for body in bodies)
    ends = [orjson.loads(entry.body) for entry in entries if entry.kind == "Released"]
    times = sorted(body["ttfb_ms"] for body in ends if body["outcome"] == "ok")
    assert side.ttfb.count == len(times)
    assert side.ttfb.p50_ms == times[math.ceil(len(times) / 2) - 1]
    assert side.failed == sum(body["outcome"] != "ok" for body in ends) > 0


def test_requests_that_nobody_ended_or_took_failed() -> None:
    rig = Rig().live("a", "b")
    rig.use()
    rig.fail(rig.go(), status=500)  # nobody else took it
    flown = rig.go()
    rig.fail(flown, status=500)
    assert rig.retry(flown) is not None
    rig.go()
    rig.restart()  # two ran
    side = compare(source_of_rig(rig), source_of_rig(rig), ("a", "b")).log
    assert (side.requests, side.decisions, side.failed, side.retried) == (4, 5, 3, 1)


def test_who_was_refused_is_a_share_of_requests_for_a_refusal_is_no_decision() -> None:
    rig = Rig().live("a")
    rig.use()
    for name in "xyz":
        rig.do(Refuse(at_ms=rig.at_ms, request_id=name, code="overloaded", model="m"))
    told = compare(source_of_rig(rig), source_of_rig(rig), ("a", "b"))
    assert (told.log.requests, told.log.decisions, told.log.refused) == (4, 1, 3)
    console = Console(width=100, file=StringIO())
    present_compared(console, told)
    assert isinstance(console.file, StringIO)
    assert "3 (75.0%)" in console.file.getvalue()


def zigzag(values: list[float]) -> list[float]:
    """None is like the one before: the plain test."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return [one for pair in zip(ordered[:half], ordered[half:], strict=True) for one in pair]


def test_a_trend_makes_less_sure() -> None:
    rising = [float(number) for number in range(20)]
    plain = means_apart(zigzag(rising), [value + 5 for value in zigzag(rising)])
    trend = means_apart(rising, [value + 5 for value in rising])
    assert plain is not None
    assert trend is not None
    assert plain < 0.02 < 0.05 < trend


def test_p_agrees_with_tables_and_permutations() -> None:
    """Student's t of two samples of ten: 2.101 at 18 degrees of freedom is p = 0.05."""
    first = zigzag([float(number) for number in range(10)])
    shift = 2.10092 * math.sqrt(2 * variance(first) / 10)
    p = means_apart(first, [value + shift for value in first])
    assert p == pytest.approx(0.05, abs=1e-5)
    dice = random.Random(7)
    second = zigzag([dice.gauss(5.5, 3) for _ in range(10)])
    p = means_apart(first, second)
    assert p is not None
    apart, both = abs(sum(first) - sum(second)), first + second
    extreme = 0
    for _ in range(4000):
        dice.shuffle(both)
        extreme += abs(sum(both[:10]) - sum(both[10:])) >= apart
    assert extreme / 4000 == pytest.approx(p, abs=0.04)


def bursts(dice: random.Random, mean_length: int) -> Sample:
    """600 waits; those of one burst are alike."""
    made, level = Sample(), 0.0
    for place in range(600):
        if place == 0 or dice.random() < 1 / mean_length:
            level = dice.expovariate(1)
        made.add(place // 30, round(1000 * level * dice.uniform(0.9, 1.1)))
    return made


@pytest.mark.parametrize("mean_length", [1, 8, 16])
def test_false_alarms_come_at_the_stated_rate_though_requests_come_in_bursts(
    mean_length: int,
) -> None:
    dice, rounds = random.Random(3), 300
    ps = []
    for _ in range(rounds):
        told = ranks_apart(bursts(dice, mean_length), bursts(dice, mean_length))
        assert told is not None
        ps.append(told.p)
    for stated in (0.05, 0.01):
        alarms = sum(p < stated for p in ps) / rounds
        assert alarms <= stated + 3 * math.sqrt(stated * (1 - stated) / rounds)
    assert sum(p < 0.05 for p in ps) > 0  # and it does raise some


def test_runs_of_the_same_traffic_are_not_called_different() -> None:
    sources = [source_of(played(600, seed=seed)[0]) for seed in range(1, 6)]
    for one, other in combinations(sources, 2):
        told = compare(one, other, ("one", "other"))
        assert told.p is not None
        assert told.p >= SURE
        assert [row.name for row in told.tests if row.differs] == []


def test_shares_that_differ_are_marked() -> None:
    told = compared("", "replica=1,drain=0..9000")
    marked = {row.name for row in told.tests if row.differs}
    assert {"to gpu1", "to gpu2"} <= marked
    rows = {row.name: row.p for row in told.tests}
    assert rows["to gpu1"] < 1e-6
    assert rows["failed"] == 1.0


def test_same_values_and_few_values() -> None:
    def sample(*values: int) -> Sample:
        made = Sample()
        for place, value in enumerate(values):
            made.add(place % 20, value)
        return made

    same = ranks_apart(sample(*[5] * 30), sample(*[5] * 30))
    assert same is not None
    assert (same.greater, same.p) == (0.5, 1.0)
    assert ranks_apart(sample(*[1] * 19), sample(*[2] * 100)) is None
    apart = ranks_apart(sample(*range(30)), sample(*range(100, 130)))
    assert apart is not None
    assert apart.greater == 1.0
    assert apart.p < 1e-9


def test_the_share_of_pairs_is_that_of_counting_them() -> None:
    dice = random.Random(7)
    first, second = Sample(), Sample()
    for place in range(40):
        first.add(place // 2, dice.randrange(50))
        second.add(place // 2, dice.randrange(50) + 6)
    told = ranks_apart(first, second)
    assert told is not None
    left, right = ([value for _, value in one.kept] for one in (first, second))
    share = sum((b > a) + (b == a) / 2 for a in left for b in right) / len(left) / len(right)
    assert told.greater == pytest.approx(share)


def test_a_sample_is_bounded_even_and_always_the_same() -> None:
    samples = [Sample(), Sample()]
    for value in range(3 * SAMPLE_MAX):
        for sample in samples:
            sample.add(0, value)
    assert samples[0].kept == samples[1].kept
    assert len(samples[0].kept) == SAMPLE_MAX
    thirds = Counter(value // SAMPLE_MAX for _, value in samples[0].kept)
    for one, other in combinations(thirds.values(), 2):
        assert abs(one - other) < 0.05 * SAMPLE_MAX


def test_the_command_shows_both(tmp_path: Path) -> None:
    for name, faults in (("before", ""), ("after", SLOW)):
        store = SqliteStore.open(tmp_path / name, sync="normal")
        store_of(list(played(1500, faults=faults)[0]), store)
        store.close()
    result = run(tmp_path / "before", "--compare", str(tmp_path / "after"))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("first bytes come later in the other log")
    assert "first byte p90" in result.stdout
    told = json.loads(
        run(tmp_path / "before", "--compare", str(tmp_path / "after"), "--json").stdout
    )
    assert told["sentence"] in result.stdout
    missing = run(tmp_path / "before", "--compare", str(tmp_path / "aftr"))
    assert missing.exit_code == 2
    assert f"did you mean {tmp_path / 'after'}?" in missing.stderr


def test_only_the_end_of_each_log_is_compared_where_that_is_asked() -> None:
    one, other = source_of(played(600)[0]), source_of(played(900)[0])
    since_ms = (one.last().at_ms - 60_000, other.last().at_ms - 30_000)
    told = compare(one, other, ("one", "other"), withins=(Within(since_ms[0]), Within(since_ms[1])))
    for source, side, begin_ms in zip((one, other), (told.log, told.other), since_ms, strict=True):
        rows = [row for row in source.records() if row.at_ms >= begin_ms]
        assert side.decisions == sum(row.kind == "Dispatched" for row in rows) > 3
        assert side.begin_ms == rows[0].at_ms
