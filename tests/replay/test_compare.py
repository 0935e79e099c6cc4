"""``--compare``: two logs side by side, and whether first bytes differ by more than chance."""

import json
import math
import random
from collections import Counter
from itertools import combinations
from pathlib import Path

import orjson
import pytest

from eventlog.sqlite import SqliteStore
from tests.replay.logs import played, source_of
from tests.replay.rig import store_of
from tests.replay.test_command import run
from trioroute.replay.compare import Compared, compare
from trioroute.replay.significance import SAMPLE_MAX, Sample, mann_whitney

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


def test_the_test_agrees_with_counting_pairs_and_with_permutations() -> None:
    """The share of pairs exactly; p against shuffles of the same values, within their noise."""
    dice = random.Random(7)
    first = [dice.randrange(50) for _ in range(40)]
    second = [dice.randrange(50) + 6 for _ in range(40)]
    told = mann_whitney(first, second)
    assert told is not None

    def share(left: list[int], right: list[int]) -> float:
        return sum((b > a) + (b == a) / 2 for a in left for b in right) / len(left) / len(right)

    assert told.greater == pytest.approx(share(first, second))
    rounds, extreme = 2000, 0
    both = first + second
    for _ in range(rounds):
        dice.shuffle(both)
        extreme += abs(share(both[:40], both[40:]) - 0.5) >= abs(told.greater - 0.5)
    noise = 4 * math.sqrt(told.p * (1 - told.p) / rounds)
    assert extreme / rounds == pytest.approx(told.p, abs=noise + 0.005)


def test_same_values_and_few_values() -> None:
    same = mann_whitney([5] * 30, [5] * 30)
    assert same is not None
    assert (same.greater, same.p) == (0.5, 1.0)
    assert mann_whitney([1] * 19, [2] * 100) is None
    apart = mann_whitney(list(range(30)), list(range(100, 130)))
    assert apart is not None
    assert apart.greater == 1.0
    assert apart.p < 1e-9


def test_a_sample_is_bounded_even_and_always_the_same() -> None:
    samples = [Sample(), Sample()]
    for value in range(3 * SAMPLE_MAX):
        for sample in samples:
            sample.add(value)
    assert samples[0].values == samples[1].values
    assert len(samples[0].values) == SAMPLE_MAX
    thirds = Counter(value // SAMPLE_MAX for value in samples[0].values)
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
