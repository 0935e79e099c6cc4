"""``--step`` and ``--watch``: the log walked through row by row, and as it grows."""

import json
import os
import pty
import select
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from eventlog.memory import MemoryStore
from tests.replay.rig import STREAM, busy_day, source_of, store_of, written_log
from tests.replay.test_command import run
from trioroute.cli.replay import replay_command
from trioroute.cli.replay_live import line_of, walk_by_keys, watch
from trioroute.events.codec import KINDS
from trioroute.projections.digest import digest
from trioroute.replay.read import Past, Source
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


def test_keys_go_to_every_event_of_their_sort() -> None:
    source = source_of(busy_day(200))
    rows = [(row.seq, source.event(row)) for row in source.records()]
    for key, kinds in {"e": {"Ejected"}, "s": {"Spilled"}, "r": {"Rebound"}}.items():
        stepper, found = Stepper(source), []
        while stepper.next(SOUGHT[key][1]):
            found.append(stepper.seq)
        assert found == [row.seq for row in source.records() if row.kind in kinds], key
        assert found, key
    wanted = SOUGHT["x"][1]
    errors = [seq for seq, event in rows if event is not None and wanted(event)]
    kinds = {row.kind for row in source.records() if row.seq in errors}
    assert kinds == {"Failed", "Orphaned"}
    assert len(errors) == sum(row.kind in kinds for row in source.records())


def keys(pressed: str) -> Callable[[], str]:
    left = iter(pressed)
    return lambda: next(left)


def test_a_walk_shows_rows_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    source = source_of(busy_day(60))
    walk_by_keys(source, 1, keys("pnnpe?q"))
    text = capsys.readouterr().out
    assert "the log begins here" in text
    assert text.count("r1/2 ") == 2
    assert "c: EJECTED for at least 30 s: refused" in text
    assert text.count("n next, p back") == 2
    walk_by_keys(source, source.last().seq, keys("nexq"))
    text = capsys.readouterr().out
    assert "the log ends here" in text
    assert "no eject follows" in text


def test_every_event_of_a_log_has_words() -> None:
    source = source_of(busy_day(200))
    lines = [line_of(row, source.event(row)) for row in source.records()]
    kinds = {row.kind for row in source.records()}
    assert {"Dispatched", "Released", "Failed", "Spilled", "Scraped", "Ejected"} <= kinds
    assert all("\n" not in line and len(line) > 50 for line in lines)
    assert not any(line.endswith(tuple(f" {kind}" for kind in KINDS)) for line in lines)


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


def test_keys_come_from_a_pipe_too(tmp_path: Path) -> None:
    log = written_log(tmp_path / "log", busy_day(60))
    asked = [str(log), "--step", "start"]
    result = CliRunner().invoke(replay_command, asked, input="n\ne\n?")
    assert result.exit_code == 0
    assert "EJECTED for at least 30 s" in result.stdout
    assert result.stdout.count("n next, p back") == 2  # once for the "?", and the end is q
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
