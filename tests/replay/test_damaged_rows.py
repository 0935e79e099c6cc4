"""Rows that SQLite reads but that are not what was written, and pages that mislead a search."""

import shutil
from pathlib import Path

import pytest

from eventlog.check import check_log
from tests.replay.rig import busy_day, written_log
from tests.replay.test_command import data, run
from tests.replay.test_damage import QUESTIONS, changed_by
from trioroute.replay.clock import local_iso, utc_iso

PAGE = 8192
LEAF = 13


@pytest.fixture(scope="module")
def day_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_log(tmp_path_factory.mktemp("day") / "log", busy_day(200))


def spoilt(day_log: Path, directory: Path, change: str) -> Path:
    log = Path(shutil.copytree(day_log, directory / "log"))
    changed_by(f"UPDATE events SET {change}")(log)
    return log


@pytest.mark.parametrize("at_ms", ["at_ms - (1 << 47)", "at_ms + (1 << 47)", "-1 << 63"])
@pytest.mark.parametrize("kind", ["Dispatched", "Released", "Ejected", "Scraped"])
def test_a_time_that_no_clock_says_is_an_unreadable_row(
    day_log: Path, tmp_path: Path, at_ms: str, kind: str
) -> None:
    place = f"seq = (SELECT min(seq) FROM events WHERE kind = '{kind}' AND seq > 60)"
    log = spoilt(day_log, tmp_path, f"at_ms = {at_ms} WHERE {place}")
    told = data(log, "--incident", "-1h")
    notes = [one for one in told["notes"] if one.startswith("what this row tells is not counted")]
    assert len(notes) == 1
    assert "is not from 1970 to 3000: the row is not as it was written" in notes[0]
    whole = data(day_log, "--incident", "-1h")
    assert whole["total"]["requests"] - told["total"]["requests"] in (0, 1)
    for question in (*QUESTIONS, ("--requests", "-1h")):
        result = run(log, *question)
        assert result.exception is None or isinstance(result.exception, SystemExit), question
    for question in (("--at", "-1s"), ("--replica", "a"), ("--what-if", "policy.slack.session=4")):
        assert "not from 1970" in run(log, *question).stderr, question


def test_what_is_shown_of_a_time_beyond_the_calendar_is_its_end() -> None:
    for at_ms, year in ((-(1 << 63), "0001"), ((1 << 63) - 1, "9999")):
        assert utc_iso(at_ms).startswith(year)
        assert len(local_iso(at_ms)) == len("2026-03-01T14:00:00.250+01:00")
    assert utc_iso(-1) == "1969-12-31T23:59:59.999Z"


@pytest.mark.parametrize("body", ["nojson", "{}", "", "[]"])
def test_a_list_of_requests_does_not_pass_over_an_unreadable_end(
    day_log: Path, tmp_path: Path, body: str
) -> None:
    end = "(SELECT max(seq) FROM events WHERE kind = 'Released')"
    result = run(
        spoilt(day_log, tmp_path, f"body = '{body}' WHERE seq = {end}"), "--requests", "-1h"
    )
    assert result.exit_code == 2
    assert "cannot be read: Released has an unreadable body" in result.stderr


def leaves(log: Path) -> list[int]:
    """Where the pages of rows begin."""
    whole = (log / "log-1.sqlite").read_bytes()
    return [at for at in range(3 * PAGE, len(whole), PAGE) if whole[at] == LEAF]


def miscounted(day_log: Path, directory: Path, at: int) -> Path:
    """One bit of a page's number of rows is another."""
    log = Path(shutil.copytree(day_log, directory / "log"))
    file = log / "log-1.sqlite"
    whole = bytearray(file.read_bytes())
    whole[at + 4] ^= 0x80
    file.write_bytes(whole)
    return log


@pytest.fixture
def misleading(day_log: Path, tmp_path: Path) -> tuple[Path, int]:
    """A log whose rows can all be read in order, of which a page misleads a search; where it is."""
    for at in leaves(day_log):
        log = miscounted(day_log, tmp_path / str(at), at)
        found = check_log(log)
        if found.rows == check_log(day_log).rows and found.bad[0].first == 1:
            return log, at
    raise AssertionError("no page of rows is such a one")


def test_an_incident_says_that_rows_were_looked_for_in_vain(
    day_log: Path, misleading: tuple[Path, int]
) -> None:
    log, _ = misleading
    whole, told = data(day_log, "--incident", "-1h"), data(log, "--incident", "-1h")
    assert not any("in vain" in one for one in whole["notes"])
    answers, before = (sum(one["answers"] for one in each["usual"]) for each in (told, whole))
    assert answers < before
    assert any("looked for in vain (gap: version " in one for one in told["notes"]), told["notes"]


def test_a_list_of_the_delayed_says_so_too(misleading: tuple[Path, int]) -> None:
    result = run(misleading[0], "--requests", "-1h", "--where", "outcome=delayed")
    assert "looked for in vain" in result.stderr


def test_a_page_of_rows_is_no_index_and_no_free_space(misleading: tuple[Path, int]) -> None:
    log, at = misleading
    (bad,) = check_log(log).bad
    assert bad.offset == at
    assert "read one after another, but a page of rows is damaged" in bad.reason


def test_a_log_whose_last_row_cannot_be_read_is_not_empty(day_log: Path, tmp_path: Path) -> None:
    log = miscounted(day_log, tmp_path, leaves(day_log)[-1])
    result = run(log, "--incident", "-1h")
    assert result.exit_code == 0, result.output
    assert "empty" not in result.stderr
    assert "cannot be read behind row" in result.stderr
    assert (
        "(file: its last row cannot be read): the answer tells it as if it ended there"
        in result.stderr
    )
