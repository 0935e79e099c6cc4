"""``--step`` and ``--watch``: the log walked through row by row, and as it grows."""

import json
import os
import pty
import select
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from eventlog.memory import MemoryStore
from eventlog.record import Entry
from tests.replay.rig import STREAM, busy_day, source_of, store_of, written_log
from tests.replay.test_command import run
from tests.rig import Rig
from trioroute.cli.replay import replay_command
from trioroute.cli.replay_live import Keys, Walk, line_of, watch
from trioroute.events import Released
from trioroute.events.codec import KINDS
from trioroute.policy.commands import Refuse
from trioroute.projections.digest import digest
from trioroute.replay import stepping
from trioroute.replay.event_words import is_error
from trioroute.replay.only import only_of
from trioroute.replay.read import NotFound, Past, Source
from trioroute.replay.stepping import BACK_ROWS, SOUGHT, Stepper


def digests(source: Source) -> Iterator[int]:
    """The digest of the state after each row, by folding once from the start."""
    past = Past(STREAM)
    for record in source.records():
        past.fold(record, source.event(record))
        yield digest(past.state)


def test_the_state_after_a_row_is_the_same_whichever_way_one_came() -> None:
    source = source_of(busy_day(200))
    expected = list(digests(source))
    stepper = Stepper(source)
    assert stepper.go_to(len(expected))
    for seq in range(len(expected), len(expected) - 2 * BACK_ROWS, -1):
        assert stepper.seq == seq
        assert digest(stepper.pasts[STREAM].state) == expected[seq - 1]
        assert stepper.back()
    for _ in range(50):
        assert stepper.next()
        assert digest(stepper.pasts[STREAM].state) == expected[stepper.seq - 1]
    assert stepper.go_to(1)
    assert digest(stepper.pasts[STREAM].state) == expected[0]
    assert not stepper.back()
    assert stepper.seq == 1


def with_errors() -> Rig:
    """A busy day, with requests that clients saw fail and one that was refused."""
    rig = busy_day(200)
    for outcome in ("upstream_error", "client_gone", "idle_timeout"):
        rig.finish(rig.go("s1"), outcome)
    rig.do(Refuse(at_ms=rig.at_ms, request_id="q", code="overloaded", model="m"))
    return rig


def rows_met(stepper: Stepper, key: str) -> list[int]:
    """All rows that a key leads to, forward from the first row, and back from the last."""
    there, back = [], []
    stepper.go_to(1)
    while stepper.next(SOUGHT.get(key)):
        there.append(stepper.seq)
    stepper.go_to(stepper.source.last().seq)
    while stepper.back(SOUGHT.get(key)):
        back.append(stepper.seq)
    last = stepper.source.last().seq
    assert [seq for seq in there if seq != last] == [seq for seq in back[::-1] if seq != 1], key
    return there


@pytest.mark.parametrize("rows", [7, 1000])
def test_keys_go_to_every_event_of_their_sort_and_back(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stepping, "SEARCH_ROWS", rows)
    source = source_of(with_errors())
    kinds = {"e": {"Ejected"}, "s": {"Spilled"}, "r": {"Rebound"}}
    for key, wanted in kinds.items():
        found = rows_met(Stepper(source), key)
        assert found == [row.seq for row in source.records() if row.kind in wanted], key
        assert found, key
    errors = rows_met(Stepper(source), "x")
    decoded = ((row, source.event(row)) for row in source.records())
    assert errors == [row.seq for row, event in decoded if event is not None and is_error(event)]
    kinds_met = {row.kind for row in source.records() if row.seq in errors}
    assert kinds_met == {"Failed", "Orphaned", "Released", "Refused"}


def about(source: Source, name: str, session: bool) -> list[int]:
    """The rows that are about a replica or session, by their bodies alone."""
    found, ran = list[int](), set[int]()
    for row in source.records():
        body = orjson.loads(row.body)
        ended = {body.get("dispatch"), *body.get("dispatches", ())}
        if row.kind in ("Released", "Failed", "Orphaned"):
            about = bool(ended & ran)
        elif row.kind == "Dispatched":
            if body["session" if session else "replica"] == name:
                ran.add(row.version)
            about = name in ([body["session"]] if session else [body["replica"], body["home"]])
        elif session:
            about = body.get("kind") == "session" and body.get("key") == name
        else:
            about = name in [body.get(field) for field in ("replica", "to", "previous")]
        found += [row.seq] if about else []
    return found


@pytest.mark.parametrize(("name", "session"), [("c", False), ("s3", True)])
def test_only_rows_of_a_replica_or_a_session_are_met(
    tmp_path: Path, name: str, session: bool
) -> None:
    source = source_of(with_errors())
    only = only_of(source, tmp_path, name)
    assert only.sort == ("session" if session else "replica")
    expected = about(source, name, session)
    assert len(expected) > 20
    assert rows_met(Stepper(source, only), "") == [seq for seq in expected if seq > 1]
    spills = {row.seq for row in source.records() if row.kind == "Spilled"}
    assert rows_met(Stepper(source, only), "s") == [seq for seq in expected if seq in spills]


def test_a_name_that_is_in_no_row_is_answered_with_the_nearest(tmp_path: Path) -> None:
    rig = Rig().live("gpu1", "gpu2")
    rig.use("s1")
    with pytest.raises(
        NotFound, match=r"no session 'gpu-1' .* are gpu1, gpu2; did you mean 'gpu1'"
    ):
        only_of(source_of(rig), tmp_path, "gpu-1")


def walked(source: Source, seq: int, pressed: str, *names: str) -> None:
    left, asked = iter(pressed), iter(names)
    keys = Keys(lambda: next(left), lambda: next(asked))
    Walk(Path("log"), Stepper(source), keys).by_keys(seq)


def test_a_walk_shows_rows_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    source = source_of(busy_day(60))
    walked(source, 1, "pnnpe?q")
    text = capsys.readouterr().out
    assert "the log begins here" in text
    assert text.count("r1/2 ") == 2
    assert "c: EJECTED for at least 30 s: refused" in text
    assert text.count("n next, p back") == 2
    walked(source, source.last().seq, "neE?q")
    text = capsys.readouterr().out
    assert "the log ends here" in text
    assert "no eject follows" in text
    assert text.count("c: EJECTED for at least 30 s: refused") == 1
    walked(source, 1, "E/n/eE/nq", "c", "nobody", "")
    text = capsys.readouterr().out
    assert "no eject is before this one" in text
    assert "only what is about replica c" in text
    assert "no replica and no session 'nobody' is in the log; its replicas are a, b, c" in text
    assert "no eject of c is before this one" in text
    assert "all rows" in text


def test_every_event_of_a_log_has_words() -> None:
    source = source_of(busy_day(200))
    lines = [line_of(row, source.event(row)) for row in source.records()]
    kinds = {row.kind for row in source.records()}
    assert {"Dispatched", "Released", "Failed", "Spilled", "Scraped", "Ejected"} <= kinds
    assert all("\n" not in line and len(line) > 50 for line in lines)
    assert not any(line.endswith(tuple(f" {kind}" for kind in KINDS)) for line in lines)


def test_an_end_names_its_decision_by_its_place() -> None:
    source = source_of(busy_day(50))
    for row in source.records():
        event = source.event(row)
        if isinstance(event, Released):
            assert f"r1/{event.dispatch} ended: " in line_of(row, event)
            assert "attempt" not in line_of(row, event)


def test_watching_says_that_it_watches(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    watch(source_of(busy_day(50)), as_data=False, wait=interrupted)
    assert capsys.readouterr().out == "watching for what comes; Ctrl-C ends it\n"


def test_watching_prints_what_comes_and_nothing_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    entries = busy_day(60).log.entries
    store = MemoryStore()
    store_of(entries[:40], store)
    parts = iter((entries[40:90], entries[90:100]))

    def wait() -> None:
        part = next(parts, None)
        if part is None:
            raise KeyboardInterrupt
        store_of(part, store)

    watch(Source(store), as_data=True, wait=wait)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["seq"] for one in told] == [
        place
        for place, entry in enumerate(entries[:100], 1)
        if place > 40 and entry.kind not in ("Scraped", "Checked")
    ]
    assert all(one["event"] == entries[one["seq"] - 1].kind for one in told)


def test_watching_only_a_replica_or_a_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = busy_day(60).log.entries
    for name, session in (("b", False), ("s3", True)):
        store = MemoryStore()
        store_of(entries[:40], store)
        source, parts = Source(store), iter((entries[40:90], entries[90:]))
        only = only_of(source, tmp_path, name)

        def wait(parts: Iterator[list[Entry]] = parts, store: MemoryStore = store) -> None:
            part = next(parts, None)
            if part is None:
                raise KeyboardInterrupt
            store_of(part, store)

        watch(source, as_data=True, wait=wait, only=only)
        told = [json.loads(line)["seq"] for line in capsys.readouterr().out.splitlines()]
        assert told == [seq for seq in about(source, name, session) if seq > 40]
        assert told


def test_keys_come_from_a_pipe_too(tmp_path: Path) -> None:
    log = written_log(tmp_path / "log", busy_day(60))
    asked = [str(log), "--step", "start"]
    result = CliRunner().invoke(replay_command, asked, input="n\ne\n?")
    assert result.exit_code == 0
    assert "EJECTED for at least 30 s" in result.stdout
    assert result.stdout.count("n next, p back") == 2  # once for the "?", and the end is q
    result = CliRunner().invoke(replay_command, [*asked, "--only", "c"], input="/b\nn/\nq")
    assert result.exit_code == 0
    assert "only what is about replica b" in result.stdout
    assert "all rows" in result.stdout
    assert run(log, "--last", "3", "--only", "c").exit_code == 2
    assert run(log, "--step", "end", "--json").exit_code == 2
    missing = run(log, "--step", "r1/99999")
    assert missing.exit_code == 1
    assert "holds no row r1/99999" in missing.stderr


def test_stepping_in_a_real_terminal(tmp_path: Path) -> None:
    log = written_log(tmp_path / "log", busy_day(60))
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["COLUMNS"] = "160"
        command = [sys.executable, "-m", "trioroute", "replay", str(log), "--step", "start"]
        os.execv(sys.executable, command)
    assert b"q quit" in pressed(terminal, b"", b"q quit")
    assert b"EJECTED for" in pressed(terminal, b"e", b"EJECTED for")
    pressed(terminal, b"q", None)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)


def pressed(terminal: int, key: bytes, until: bytes | None) -> bytes:
    """What is shown once ``key`` was pressed; again and again, for the terminal drops keys that
    come before the program asks for one. ``until`` None: until it has ended."""
    seen = b""
    while until is None or until not in seen:
        if select.select([terminal], [], [], 0.3)[0]:
            try:
                seen += os.read(terminal, 4096)
            except OSError:
                break  # Linux says so when the other side has closed the terminal
        else:
            os.write(terminal, key)
    return seen
