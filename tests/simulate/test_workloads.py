"""What is generated and what is read, before any of it runs."""

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from trioroute.simulate.profiles import BLOCK_TOKENS
from trioroute.simulate.script import Request, at_rate, cut
from trioroute.simulate.traces import BadWorkload, read_trace
from trioroute.simulate.workloads import workload_of

EXCERPT = Path(__file__).parent / "data" / "mooncake-300.jsonl.gz"


def turns_of(workload: str, client: int) -> list[Request]:
    return [turn.request for turn in workload_of(workload, 1).scripts[client].turns]


def test_agents_are_what_the_table_says_they_are() -> None:
    workload = workload_of("agents:200", 1)
    assert len(workload.scripts) == 200
    assert workload.requests == 200 * 60
    requests = [turn.request for script in workload.scripts for turn in script.turns]
    starts = [script.turns[0].request.prompt_tokens for script in workload.scripts]
    assert 8192 + 2000 <= min(starts) < 8192 + 3000
    assert 8192 + 19_000 < max(starts) <= 8192 + 20_000
    answers = [one.output_tokens for one in requests]
    assert (min(answers), max(answers)) == (60, 400)
    thinking = [turn.think_ms for script in workload.scripts for turn in script.turns]
    assert sum(thinking) / len(thinking) == pytest.approx(4000, rel=0.05)
    for script in workload.scripts:
        prompts = [turn.request.prompt_tokens for turn in script.turns]
        growth = [after - before for before, after in itertools.pairwise(prompts)]
        assert min(growth) >= 500
        assert max(growth) <= 3000


def test_an_agent_goes_on_from_its_own_text_and_shares_only_its_project() -> None:
    first, second = turns_of("agents:8", 0)[:2]
    assert second.blocks[: len(first.blocks)] == first.blocks
    assert len(first.blocks) == (first.prompt_tokens + first.output_tokens) // BLOCK_TOKENS
    colleague, stranger = turns_of("agents:8", 4)[0], turns_of("agents:8", 1)[0]
    pairs = zip(first.blocks, colleague.blocks, strict=False)
    shared = [block for block, other in pairs if block == other]
    assert len(shared) == 8192 // BLOCK_TOKENS
    assert first.prefix == colleague.prefix != stranger.prefix
    assert first.session == second.session != colleague.session
    assert first.blocks[0] != stranger.blocks[0]


def test_another_seed_is_another_crowd() -> None:
    assert workload_of("agents:4", 1) == workload_of("agents:4", 1)
    assert workload_of("agents:4", 1) != workload_of("agents:4", 2)


def test_chat_comes_at_its_rate_in_sessions_of_several_turns() -> None:
    workload = workload_of("chat:rate=5,turns=3,minutes=20,system=600", 1)
    assert workload.requests / (20 * 60) == pytest.approx(5, rel=0.1)
    assert {len(script.turns) for script in workload.scripts} == {3}
    first, second, _ = (turn.request for turn in workload.scripts[7].turns)
    assert first.session == second.session
    assert second.prompt_tokens > first.prompt_tokens + first.output_tokens
    assert second.blocks[: len(first.blocks)] == first.blocks


def test_a_cut_takes_first_turns_first() -> None:
    workload = cut(workload_of("agents:5", 1), 12)
    assert [len(script.turns) for script in workload.scripts] == [3, 3, 2, 2, 2]
    assert cut(workload, 1000).requests == 12


def test_a_lower_rate_spreads_the_beginnings() -> None:
    workload = workload_of(str(EXCERPT), 1)
    slow = at_rate(workload, 0.5)
    assert slow.scripts[-1].start_ms == 2 * workload.scripts[-1].start_ms


def test_a_trace_is_read_as_it_was_recorded() -> None:
    scripts = read_trace(EXCERPT)
    assert len(scripts) == 300
    first = scripts[0].turns[0].request
    assert (scripts[0].start_ms, first.prompt_tokens, first.output_tokens) == (0, 6758, 500)
    assert first.blocks == tuple(range(13))  # the 14th is partly filled
    prefixes = {script.turns[0].request.prefix for script in scripts}
    assert len(prefixes) < 300


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def trace_row(at_ms: int, tokens: int, ids: list[int]) -> dict[str, Any]:
    return {"timestamp": at_ms, "input_length": tokens, "output_length": 10, "hash_ids": ids}


def test_who_goes_on_from_an_earlier_prompt_belongs_to_its_session(tmp_path: Path) -> None:
    rows = [
        trace_row(0, 1600, [0, 1, 2, 3]),
        trace_row(5, 1100, [0, 9, 10]),
        trace_row(9, 2600, [0, 1, 2, 4, 5, 6]),
        trace_row(10, 3000, [0, 1, 2, 4, 5, 7]),
        trace_row(11, 700, [0, 12]),
        trace_row(12, 900, [0, 13]),
    ]
    scripts = read_trace(write(tmp_path / "t.jsonl.gz", rows))
    sessions = [script.turns[0].request.session for script in scripts]
    assert sessions[0] == sessions[2] == sessions[3]
    assert len(set(sessions)) == 4  # a shared first block alone makes nobody a follower
    assert len({script.turns[0].request.prefix for script in scripts}) == 1


def event(version: int, kind: str, at_ms: int, **body: Any) -> dict[str, Any]:
    stream = "router/r1"
    return {
        "seq": version,
        "stream": stream,
        "version": version,
        "kind": kind,
        "schema": 1,
        "at_ms": at_ms,
        "body": body,
    }


def test_an_exported_log_is_traffic_again(tmp_path: Path) -> None:
    def sent(version: int, at_ms: int, size: int, **more: Any) -> dict[str, Any]:
        keys = {"session": "aa", "prefix": "bb", "prompt_bytes": size, **more}
        return event(version, "Dispatched", at_ms, **keys)

    rows = [
        event(1, "Started", 5000),
        sent(2, 5000, 8000),
        event(3, "Released", 6000, dispatch=2, prompt_tokens=1500, completion_tokens=70),
        sent(4, 7000, 12_000),
        event(5, "Failed", 7001, dispatch=4),
        sent(6, 7002, 12_000, earlier=[4]),
        sent(7, 9000, 4400, session=None),
    ]
    scripts = read_trace(write(tmp_path / "log.jsonl", rows))
    assert [script.start_ms for script in scripts] == [0, 2000, 4000]
    first, second, third = (script.turns[0].request for script in scripts)
    assert (first.prompt_tokens, first.output_tokens) == (1500, 70)
    assert (second.prompt_tokens, second.output_tokens) == (3000, 70)  # bytes over 4, mean answer
    assert (first.session, first.prefix, third.session) == ("aa", "bb", None)
    assert second.blocks[: len(first.blocks)] == first.blocks
    assert third.blocks == first.blocks[:2]  # the prefix key's 1024 tokens
    assert len(third.blocks) == 1100 // BLOCK_TOKENS


@pytest.mark.parametrize(
    "row, words",
    [
        ({"a": 1}, ":1: has neither hash_ids"),
        ({"hash_ids": [1], "timestamp": 0, "output_length": 1}, ":1: input_length is None"),
        ({"hash_ids": "x"}, ":1: hash_ids is no list"),
        ({"kind": "Dispatched", "body": 3}, ":1: body is no JSON object"),
        ({"kind": "Started", "body": {}}, "holds no request"),
    ],
)
def test_a_file_that_is_no_trace_says_where_and_why(
    tmp_path: Path, row: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadWorkload) as refused:
        read_trace(write(tmp_path / "bad.jsonl", [row]))
    assert words in str(refused.value)


@pytest.mark.parametrize("name, data", [("a.jsonl", b""), ("a.jsonl", b"{"), ("a.jsonl.gz", b"{}")])
def test_a_file_that_cannot_be_read_is_no_workload(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BadWorkload, match=name):
        read_trace(tmp_path / name)
