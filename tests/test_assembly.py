"""The parts of a router, wired: what a full log and a broken one do to them."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from eventlog import Entry, JournalFull, LogDamaged, MemoryStore, Record
from tests.rig import Rig
from trioroute.assembly import Parts, assemble, begin, open_log, rounds_of
from trioroute.clock import running_clock
from trioroute.events import Reading
from trioroute.policy import commands as c
from trioroute.policy.keys import HEX_KEY_BYTES, KEY_BYTES
from trioroute.recovery import log_secret, recover
from trioroute.settings import load

REPLICAS = ("gpu1=http://127.0.0.1:1",)


class FullLog:
    """Takes nothing but what must be taken."""

    def offer(self, entries: Sequence[Entry], *, must_take: bool = False) -> int:
        raise JournalFull(1, 1, 1, 1)


def parts_in(directory: Path) -> Parts:
    settings = load(None, environ={}, overrides={"log.path": str(directory), "replicas": REPLICAS})
    return assemble(settings, open_log(settings.in_force), {})


def test_the_log_closes_its_files_as_the_settings_say(tmp_path: Path) -> None:
    overrides = {"log.path": str(tmp_path / "log"), "log.segment_age": "1h"}
    with closing(open_log(load(None, environ={}, overrides=overrides).in_force)) as store:
        for n, at_ms in enumerate((0, 3_599_999, 3_600_000)):
            store.append("a", [Entry("k", 1, at_ms, 0, b"{}")], n)
    assert sorted(path.name for path in (tmp_path / "log").glob("log-*.sqlite")) == [
        "log-1.sqlite",
        "log-3.sqlite",
    ]


def test_a_new_log_gets_a_secret_and_keeps_it_and_an_early_one_stays(tmp_path: Path) -> None:
    made = log_secret(tmp_path)
    assert (len(made), log_secret(tmp_path)) == (KEY_BYTES, made)
    early = bytes(range(HEX_KEY_BYTES))
    (tmp_path / "key").write_text(early.hex() + "\n")
    assert log_secret(tmp_path) == early
    (tmp_path / "key").write_text(early.hex() + "00\n")
    with pytest.raises(ValueError, match="no key of 40 or 32 bytes"):
        log_secret(tmp_path)


def test_scrapes_and_ticks_that_a_full_log_refuses_end_nothing(tmp_path: Path) -> None:
    parts = parts_in(tmp_path / "log")
    with closing(parts.store):
        begin(parts)
        position = parts.router.state.position
        parts.router.log = FullLog()
        rounds = rounds_of(parts)
        reading = Reading(running=0, waiting=0, kv_m=0, tokens=0, asleep=False, own=0)
        rounds._on_readings({"gpu1": reading})
        rounds._on_failure("gpu1", "refused", None)
        parts.tell(c.Tick(at_ms=running_clock()()))
        assert parts.router.state.position == position


def test_a_log_with_a_row_missing_is_damaged_and_says_where(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s")

    class Holed(MemoryStore):
        def read(self, after: int = 0, limit: int = 1000) -> list[Record]:
            return [row for row in super().read(after, limit) if row.version != 3]

    holed = Holed()
    holed.append("router/r1", rig.log.entries, 0)
    with pytest.raises(LogDamaged, match="gap before version 4"):
        recover(holed, "router/r1")


@pytest.mark.parametrize("copied", ["whole", "without -wal"])
def test_a_start_upon_a_log_that_lost_its_write_ahead_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, copied: str
) -> None:
    """As a copy of a killed router's log has it that took the segments alone."""
    log, copy = tmp_path / "log", tmp_path / "copy"
    settings = load(None, environ={}, overrides={"log.path": str(log)}).in_force
    with closing(open_log(settings)) as store:
        store.append("a", [Entry("k", 1, 0, 0, b"{}")] * 3, 0)
        shutil.copytree(log, copy)
    if copied != "whole":
        for part in ("-wal", "-shm"):
            (copy / f"log-1.sqlite{part}").unlink()
    settings = load(None, environ={}, overrides={"log.path": str(copy)}).in_force
    with closing(open_log(settings)) as store:
        assert store.last_head.seq == (3 if copied == "whole" else 0)
    said = [record.message for record in caplog.records]
    if copied == "whole":
        assert said == []
    else:
        assert said[0].startswith(f"{copy / 'log-1.sqlite'}-wal is not there although the router")
        assert "rows after 0 are missing" in said[0]
        assert said[0].endswith("this run gives the numbers of such rows again")
