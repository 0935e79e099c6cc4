"""Which segments go: whole, closed, oldest first, and never one whose going would lose the past."""

from pathlib import Path

import pytest

from eventlog import Entry
from eventlog.conformance import read_all
from eventlog.retention import Retention, Segment, look, plan, unlink
from eventlog.segments import SegmentFile
from eventlog.sqlite import SegmentLimits, SqliteStore

DAY_MS = 86_400_000


def segment(first: int, day: int, size: int = 100, *, closed: bool = True) -> Segment:
    """Of one day; its file was written to last when that day was over."""
    return dated(first, day, day + 1, day + 1, size, closed=closed)


def dated(
    first: int, begins: int, ends: int, changed: int, size: int = 100, *, closed: bool = True
) -> Segment:
    """From the day that its first row tells to the day that its last one tells."""
    file = SegmentFile(first, Path(f"log-{first}.sqlite"))
    times = begins * DAY_MS, ends * DAY_MS
    return Segment(file, size, *times, first + 9, closed, changed * DAY_MS)


DAYS = [segment(1, 0), segment(11, 1), segment(21, 2), segment(31, 3, closed=False)]


def yes(_: Segment, __: Segment) -> str:
    return ""


@pytest.mark.parametrize(
    ("limits", "now_days", "going"),
    [
        (Retention(), 99, []),
        (Retention(age_ms=2 * DAY_MS), 2, []),
        (Retention(age_ms=2 * DAY_MS), 3, [1]),
        (Retention(age_ms=2 * DAY_MS), 4, [1, 11]),
        (Retention(age_ms=2 * DAY_MS), 99, [1, 11, 21]),
        (Retention(size_bytes=400), 9, []),
        (Retention(size_bytes=399), 9, [1]),
        (Retention(size_bytes=200), 9, [1, 11]),
        (Retention(size_bytes=1), 9, [1, 11, 21]),
        (Retention(age_ms=2 * DAY_MS, size_bytes=300), 3, [1]),
        (Retention(age_ms=DAY_MS), -5, []),
    ],
)
def test_the_oldest_go_by_age_or_size_and_the_newest_never(
    limits: Retention, now_days: int, going: list[int]
) -> None:
    now_ms = now_days * DAY_MS + 1
    decided = plan(DAYS, limits, now_ms, yes)
    assert [one.file.first for one in decided.going] == going
    assert decided.kept_back == ()


WRONG = 9_000
"""A day that a wrong clock told."""


@pytest.mark.parametrize(
    ("first", "second", "third", "goes_on"),
    [
        (dated(1, 0, WRONG, WRONG), dated(11, WRONG, WRONG, WRONG), (WRONG, 3), (6, 6)),
        (dated(1, 0, 1, 1), dated(11, 1, WRONG, WRONG), (3, 3), (4, 6)),
        (dated(1, 0, WRONG, 1), dated(11, WRONG, WRONG, 2), (WRONG, 3), (4, 5)),
        (dated(1, 0, 1, 1), dated(11, -400, -399, 2), (2, 3), (4, 4)),
    ],
    ids=["put-right-in-the-third", "put-right-with-the-third", "files-tell-better", "behind"],
)
def test_a_clock_that_was_wrong_keeps_nothing_for_ever_and_loses_nothing_early(
    first: Segment, second: Segment, third: tuple[int, int], goes_on: tuple[int, int]
) -> None:
    """The day on which each goes, kept for three days after the last day that it may be of."""
    segments = [first, second, dated(21, *third, 3), dated(31, 3, 4, 4, closed=False)]
    for day in range(1, 9):
        decided = plan(segments, Retention(age_ms=3 * DAY_MS), day * DAY_MS + 1, yes)
        going = [one.file.first for one in decided.going]
        assert (1 in going, 11 in going) == (day >= goes_on[0], day >= goes_on[1]), day


def test_a_log_whose_clock_is_ahead_of_ours_stays() -> None:
    ahead = [dated(n, WRONG, WRONG, WRONG) for n in (1, 11, 21)]
    assert plan(ahead, Retention(age_ms=DAY_MS), 9 * DAY_MS, yes).going == ()


def test_one_that_may_not_go_keeps_all_after_it() -> None:
    def not_the_second(one: Segment, following: Segment) -> str:
        assert following.file.first == one.file.first + 10
        return "why" if one.file.first == 11 else ""

    decided = plan(DAYS, Retention(size_bytes=1), 0, not_the_second)
    assert [one.file.first for one in decided.going] == [1]
    assert [one.file.first for one in decided.kept_back] == [11]
    assert decided.reason == "why"


def test_one_that_is_not_sealed_waits() -> None:
    days = [segment(1, 0, closed=False), *DAYS[1:]]
    decided = plan(days, Retention(size_bytes=1), 0, yes)
    assert (decided.going, decided.reason) == ((), "it is not sealed yet")


def test_segments_are_unlinked_as_files_under_a_live_writer(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, sync="normal", limits=SegmentLimits(size_bytes=1))
    for n in range(5):
        store.append("a", [Entry("k", 1, n * DAY_MS, 0, b"{}")] * 2, 2 * n)
    found = look(tmp_path)
    assert [(one.file.first, one.last_seq, one.closed) for one in found] == [
        (1, 2, True),
        (3, 4, True),
        (5, 6, True),
        (7, 8, True),
        (9, 10, False),
    ]
    assert [one.last_at_ms for one in found] == [n * DAY_MS for n in range(5)]
    decided = plan(found, Retention(age_ms=2 * DAY_MS), 4 * DAY_MS, yes)
    unlink(decided.going)
    assert sorted(path.name for path in tmp_path.glob("log-*.sqlite")) == [
        "log-5.sqlite",
        "log-7.sqlite",
        "log-9.sqlite",
    ]
    assert store.append("a", [Entry("k", 1, 0, 0, b"{}")], 10).first == 11
    assert [row.seq for row in read_all(store)] == list(range(5, 12))
    store.close()
