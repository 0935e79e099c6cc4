"""``trioroute simulate`` as a user meets it."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from tests.pythons import others_or_skip, run_in
from trioroute.cli.root import main
from trioroute.policy.policies import POLICIES
from trioroute.simulate.baselines import BASELINES
from trioroute.simulate.compare import Comparison, Outcome
from trioroute.simulate.profiles import PROFILES
from trioroute.simulate.report import show
from trioroute.simulate.workloads import workload_of

EXCERPT = str(Path(__file__).parent / "data" / "mooncake-300.jsonl.gz")
SHORT = ("--workload", "agents:6", "--requests", "60", "--engine", "h100")
FIELDS = (
    "policy",
    "ttft_mean_s",
    "ttft_p50_s",
    "ttft_p90_s",
    "ttft_p99_s",
    "e2e_mean_s",
    "e2e_p99_s",
    "prefix_hit_ratio",
    "max_share_5m",
    "imbalance_index",
    "spills",
    "rebinds",
    "errors",
)


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments])


def told(*arguments: str) -> dict[str, Any]:
    result = simulate(*arguments, "--json")
    assert result.exit_code == 0, result.output
    data: dict[str, Any] = json.loads(result.stdout)
    return data


def test_json_has_the_fields_that_scripts_rely_on() -> None:
    data = told(*SHORT, "--policy", "all", "--replicas", "3", "--seed", "7")
    assert list(data) == ["workload", "replicas", "engine", "seed", "policies"]
    assert [data["workload"], data["replicas"], data["engine"]] == ["agents:6", 3, "h100"]
    assert data["seed"] == 7
    assert [row["policy"] for row in data["policies"]] == [*POLICIES, *BASELINES]
    for row in data["policies"]:
        assert tuple(row) == FIELDS
        assert 0 < row["ttft_p50_s"] <= row["ttft_p90_s"] <= row["ttft_p99_s"]
        assert row["ttft_mean_s"] < row["e2e_mean_s"] <= row["e2e_p99_s"]
        assert row["errors"] == 0


def test_the_table_is_plain_when_piped() -> None:
    result = simulate(*SHORT, "--policy", "soft-sticky", "--policy", "round-robin")
    assert result.exit_code == 0, result.output
    title, head, *rows = result.stdout.partition("\n\n")[0].splitlines()
    assert title.startswith("agents:6: 60 requests on 4 x h100, seed 1")
    assert head.split()[:2] == ["policy", "TTFT"]
    assert [row.split()[0] for row in rows] == ["soft-sticky", "round-robin"]
    assert "\x1b" not in result.output


def test_every_column_is_explained_under_the_table() -> None:
    table, meant = simulate(*SHORT).stdout.split("\n\n")
    for column in re.split(r"  +", table.splitlines()[1].rstrip())[1:]:
        name = "percentile" if column in ("p50", "p90", "p99") else column.removesuffix(" mean s")
        assert name.removesuffix(" s") in " ".join(meant.split())


def test_several_seeds_give_the_median_of_each_column() -> None:
    policy = ("--policy", "least-requests")
    alone = [told(*SHORT, *policy, "--seed", seed)["policies"][0] for seed in "345"]
    data = told(*SHORT, *policy, "--seed", "3", "--seeds", "3")
    assert (data["seed"], data["seeds"]) == (3, 3)
    for name in FIELDS[1:]:
        assert data["policies"][0][name] == sorted(one[name] for one in alone)[1]
    shown = simulate(*SHORT, *policy, "--seed", "3", "--seeds", "3").stdout
    assert "medians of seeds 3 to 5" in shown


@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_number_is_cut_short_on_a_narrow_terminal(width: int) -> None:
    workload = workload_of("agents:4", 1)
    comparison = Comparison(workload=workload, engine=PROFILES["a100"], replicas=4, seed=1)
    long = "soft-sticky,policy.slack.session=4,policy.load=literal"
    numbers: dict[str, Any] = dict.fromkeys(FIELDS[1:7], 1234.5678) | dict.fromkeys(
        FIELDS[7:10], 0.875
    )
    counts = dict.fromkeys(FIELDS[10:], 10_000)
    rows = [Outcome(**{"policy": name, **numbers, **counts}) for name in (long, "b")]
    terminal = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    show([comparison], rows, terminal)
    assert isinstance(terminal.file, io.StringIO)
    text = terminal.file.getvalue()
    assert "…" not in text
    assert max(len(line.rstrip()) for line in text.splitlines()[1:]) <= width
    for number in ("1234.568", "1234.57", "0.875", "10000"):
        assert text.count(number) >= 2


SEVERAL = """
from click.testing import CliRunner
from trioroute.cli.root import main
for workload in {workloads!r}:
    arguments = ["simulate", "--requests", "60", "--policy", "all", "--json", "--workload"]
    print(CliRunner().invoke(main, [*arguments, *workload], catch_exceptions=False).output)
"""
WORKLOADS = (
    ("agents:6",),
    (EXCERPT,),
    ("chat:rate=2,turns=3", "--fault", "replica=1,down=3..9"),
)


def run_alone(
    python: Path, hash_seed: str, workloads: tuple[tuple[str, ...], ...] = WORKLOADS
) -> bytes:
    """The output of every workload in a process of its own."""
    return run_in(python, SEVERAL.format(workloads=workloads), hash_seed=hash_seed)


def test_one_seed_gives_the_same_bytes_under_any_hash_seed() -> None:
    one, other = (run_alone(Path(sys.executable), seed) for seed in ("1", "2"))
    assert one.count(b'"policies"') == len(WORKLOADS)
    assert one == other


def test_one_seed_gives_the_same_bytes_in_other_versions_of_python() -> None:
    pythons = others_or_skip()
    quick = WORKLOADS[2:]  # with a fault; each process starts slowly
    here = run_alone(Path(sys.executable), "1", quick)
    assert {run_alone(python, "1", quick) for python in pythons} == {here}


def test_another_seed_gives_another_crowd() -> None:
    assert told(*SHORT)["policies"] != told(*SHORT, "--seed", "2")["policies"]


def test_a_policy_may_bring_settings_of_its_own() -> None:
    literal = "soft-sticky,policy.load=literal"
    data = told("--workload", EXCERPT, "--policy", "soft-sticky", "--policy", literal)
    counted, other = data["policies"]
    assert other["policy"] == literal
    assert counted["ttft_mean_s"] != other["ttft_mean_s"]
    everyone = told("--workload", EXCERPT, "--set", "policy.load=literal")["policies"][0]
    assert {**everyone, "policy": literal} == other


def test_pins_keep_agents_where_their_prefix_is() -> None:
    arguments = ("--workload", "agents:12", "--requests", "300")
    data = told(*arguments, "--policy", "soft-sticky", "--policy", "round-robin")
    sticky, robin = data["policies"]
    assert sticky["prefix_hit_ratio"] > robin["prefix_hit_ratio"] + 0.05
    assert sticky["ttft_mean_s"] < robin["ttft_mean_s"]
    assert [robin["spills"], robin["rebinds"]] == [0, 0]


def test_rate_stretches_a_trace() -> None:
    tight, loose = (
        told("--workload", EXCERPT, "--rate", rate)["policies"][0] for rate in ("2", "0.2")
    )
    assert loose["ttft_mean_s"] < tight["ttft_mean_s"]


def test_a_simulated_log_is_verified_like_a_live_one(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    fault = ("--fault", "replica=2,down=5..60", "--fault", "replica=1,slow=3@10..20")
    result = simulate("--workload", "agents:6", "--requests", "150", "--log", log, *fault)
    assert result.exit_code == 0, result.output
    found = CliRunner().invoke(main, ["replay", log, "--verify", "--json"])
    assert found.exit_code == 0, found.output
    verified = json.loads(found.stdout)
    assert verified["verified"]
    assert verified["decisions"] >= 150
    assert verified["digests"] > 0
    assert verified["in_flight"] == 0
    session = CliRunner().invoke(main, ["replay", log, "--session", "agent-3", "--json"])
    assert session.exit_code == 0, session.output
    decision = CliRunner().invoke(main, ["replay", log, "--last", "1"])
    assert "agent-" in decision.output


def test_a_log_is_never_added_to(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    assert simulate(*SHORT, "--log", log).exit_code == 0
    again = simulate(*SHORT, "--log", log)
    assert again.exit_code == 2
    assert "holds a log already" in again.output


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("--workload", "agents:many"), "agents:N needs N from 1 to 10000"),
        (("--workload", "agents"), "conversation"),
        (("--workload", "nowhere.jsonl"), "there is no such file"),
        (("--workload", "chat:speed=2"), "keys: rate, turns"),
        (("--workload", "chat:turns=0.5"), "turns=0.5 must be a whole number"),
        (("--policy", "magic"), "soft-sticky"),
        (("--policy", "soft-sticky,slack"), "is not KEY=VALUE"),
        (("--set", "policy.slack.sesion=4"), "policy.slack.session"),
        (("--set", "policy.load"), "needs KEY=VALUE"),
        (("--fault", "replica=9,down=1..2"), "replica=9 must be 1 to 4"),
        (("--fault", "down=1..2"), "needs replica=N first"),
        (("--fault", "replica=1,explode=1..2"), "down=60..120"),
        (("--fault", "replica=1,down=5..2"), "ends before it begins"),
        (("--policy", "round-robin", "--log", "x"), "--log needs one seed and one policy"),
    ],
)
def test_wrong_usage_says_what_would_be_right(arguments: tuple[str, ...], words: str) -> None:
    result = simulate(*arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())


def test_the_whole_trace_comes_with_the_package() -> None:
    data = told("--workload", "conversation", "--requests", "50")
    assert data["policies"][0]["errors"] == 0
