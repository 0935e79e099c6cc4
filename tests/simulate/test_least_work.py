"""``least-work`` in virtual time, through the real core: what it promises, and logs that verify."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from trioroute.cli.root import main
from trioroute.simulate.compare import Comparison, Outcome, contenders
from trioroute.simulate.faults import parse_fault
from trioroute.simulate.profiles import PROFILES
from trioroute.simulate.script import Request, cut
from trioroute.simulate.workloads import workload_of

COMPARED = ("least-work", "prefix-tree", "least-requests", "soft-sticky")


def outcomes(workload: str, requests: int, engine: str, *policies: str) -> list[Outcome]:
    comparison = Comparison(
        workload=cut(workload_of(workload, 1), requests),
        engine=PROFILES[engine],
        replicas=4,
        seed=1,
    )
    return [comparison.run(contender) for contender in contenders(policies, {})]


def test_agents_find_their_prefix_without_pins() -> None:
    work, fewest = outcomes("agents:12", 360, "a100", "least-work", "least-requests")
    assert work.prefix_hit_ratio > fewest.prefix_hit_ratio + 0.1
    assert work.ttft_mean_s < 0.5 * fewest.ttft_mean_s
    assert work.e2e_mean_s < fewest.e2e_mean_s
    assert work.max_share_5m <= 0.45
    assert (work.spills, work.rebinds, work.errors) == (0, 0, 0)


def test_chats_wait_less_than_under_pins_or_counts_and_no_longer_than_under_a_tree() -> None:
    work, tree, *others = outcomes(
        "chat:rate=7,turns=3,prompt=6000,minutes=2", 700, "a100", *COMPARED
    )
    for other in others:
        assert work.ttft_mean_s < 0.7 * other.ttft_mean_s
        assert work.ttft_p99_s < 0.8 * other.ttft_p99_s
        assert work.e2e_mean_s < 0.8 * other.e2e_mean_s
    assert work.ttft_mean_s < 1.05 * tree.ttft_mean_s
    assert work.ttft_p99_s < 1.1 * tree.ttft_p99_s
    assert work.e2e_mean_s < 1.05 * tree.e2e_mean_s


def test_a_dead_replica_costs_no_more_than_its_streams() -> None:
    comparison = Comparison(
        workload=cut(workload_of("agents:12", 1), 240),
        engine=PROFILES["a100"],
        replicas=4,
        seed=1,
        faults=parse_fault("replica=1,down=20..90", 4),
    )
    (contender,) = contenders(["least-work"], {})
    world = comparison.world(contender)
    world.run()
    prompts = world.router.state.prompts
    assert world.measures.errors <= 4
    assert not prompts.promises
    assert sum(len(sent.held) for sent in prompts.sent.values()) == sum(prompts.holders.values())


@pytest.mark.parametrize("engine", ["a100", "3090x2"])
def test_its_log_is_verified_and_explained_on_one_screen(engine: str, tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    run = ("simulate", "--workload", "agents:8", "--requests", "160", "--engine", engine)
    fault = ("--fault", "replica=2,down=5..60", "--fault", "replica=1,slow=3@10..20")
    made = CliRunner().invoke(main, [*run, "--policy", "least-work", "--log", log, *fault])
    assert made.exit_code == 0, made.output
    found = CliRunner().invoke(main, ["replay", log, "--verify", "--json"])
    assert found.exit_code == 0, found.output
    verified = json.loads(found.stdout)
    assert verified["verified"]
    assert verified["decisions"] >= 160
    assert verified["digests"] > 0
    last = json.loads(CliRunner().invoke(main, ["replay", log, "--last", "1", "--json"]).stdout)
    decision = last[0]["decision"]
    screen = CliRunner().invoke(main, ["replay", log, "--decision", decision])
    assert screen.exit_code == 0, screen.output
    lines = screen.output.splitlines()
    assert len(lines) <= 24
    assert "it had the least work" in lines[0]
    head = next(line.split() for line in lines if "uncached" in line and "total" in line)
    assert {"cached", "uncached", "promised", "flight", "total"} <= {*head}
    assert "verified  today's code decides the same" in screen.output


def test_a_prompt_names_its_full_blocks_as_digests() -> None:
    request = Request("q", 1100, 5, (0, 1, 2, 3))
    assert request.named_blocks == (1, 2)
