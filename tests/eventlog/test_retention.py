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
    file = SegmentFile(first, Path(f"log-{first}.sqlite"))
    return Segment(file, size, day * DAY_MS, (day + 1) * DAY_MS, first + 9, closed)


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
