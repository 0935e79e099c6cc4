"""Points in time and spans as people write and read them."""

import time
from collections.abc import Iterator

import pytest

from trioroute.replay import clock
from trioroute.replay.clock import ago, at_most, local_iso, parse_point, parse_span, span
from trioroute.replay.read import BadQuestion


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (12_340, "12.3 s"),
        (60_000, "1 min"),
        (250_000, "4 min 10 s"),
        (3_600_000, "1 h"),
        (90 * 60_000, "1 h 30 min"),
        (26 * 3_600_000, "1 d 2 h"),
    ],
)
def test_spans(ms: int, text: str) -> None:
    assert span(ms) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (2560, "2.6 s"),
        (2501, "2.6 s"),
        (2500, "2.5 s"),
        (59_901, "1 min"),
        (60_001, "1 min 1 s"),
        (3_599_001, "1 h"),
        (3_600_001, "1 h 1 min"),
        (86_340_001, "1 d"),
        (86_400_001, "1 d 1 h"),
    ],
)
def test_an_upper_bound_is_rounded_up(ms: int, text: str) -> None:
    assert at_most(ms) == text


def test_a_point_is_read_back_as_it_was_written() -> None:
    at_ms = 1_767_225_600_123
    assert parse_point(local_iso(at_ms), 0) == at_ms


def test_points_before_the_last_event() -> None:
    assert parse_point("-15m", 10_000_000) == 10_000_000 - 900_000
    assert parse_point("-1h30m", 10_000_000) == 10_000_000 - 5_400_000
    assert parse_point("-2", 10_000) == 8000


def test_a_point_with_an_offset() -> None:
    assert parse_point("1970-01-01T01:00:00+01:00", 0) == 0
    assert parse_point("1970-01-01T00:00:01.5Z", 0) == 1500


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("14:00", "2026-03-01T13:00Z"),
        ("16:21", "2026-02-28T15:21Z"),  # it would be after the last event
        ("3:05:07.5", "2026-03-01T02:05:07.5Z"),
        ("14:00Z", "2026-03-01T14:00Z"),
        ("- 10 min", "2026-03-01T15:10Z"),
        ("-1 hour 30 minutes", "2026-03-01T13:50Z"),
    ],
)
def test_points_of_the_last_day(berlin: None, text: str, utc: str) -> None:
    last_ms = parse_point("2026-03-01T16:20+01:00", 0)
    assert parse_point(text, last_ms) == parse_point(utc, 0)


def test_points_before_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now_ms", lambda: 100_000_000)
    assert parse_point("now", 7) == 100_000_000
    assert parse_point("10 min ago", 7) == 100_000_000 - 600_000
    assert parse_point("1 hour 30 min ago", 7) == parse_point("1h30m ago", 7) == 94_600_000
    assert parse_point("90s ago", 7) == parse_point("90 Seconds ago", 7) == 99_910_000


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("14:00/15:00", "2026-03-01T13:00Z", "2026-03-01T14:00Z"),
        ("23:50/00:10", "2026-02-28T22:50Z", "2026-02-28T23:10Z"),
        ("2026-03-01T14:00Z/15:00", "2026-03-01T14:00Z", "2026-03-01T15:00Z"),
        ("2026-03-01T14:00/15:00Z", "2026-03-01T13:00Z", "2026-03-01T15:00Z"),
        ("2026-03-01/06:00", "2026-02-28T23:00Z", "2026-03-01T05:00Z"),
        ("-2h/16:00", "2026-03-01T13:20Z", "2026-03-01T15:00Z"),
    ],
)
def test_an_end_by_the_clock_is_of_the_beginnings_day(
    berlin: None, text: str, begin: str, end: str
) -> None:
    last_ms = parse_point("2026-03-01T16:20+01:00", 0)
    assert parse_span(text, last_ms) == (parse_point(begin, 0), parse_point(end, 0))


def test_a_time_of_day_that_is_none_is_refused() -> None:
    for text in ("25:00", "2026-03-01T14:00/24:61", "14:00/99:00"):
        with pytest.raises(BadQuestion, match="write ISO time"):
            parse_span(text, 10**12)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "-", "-x", "2026-13-01", "15m", "ago", "x ago", "24:00:61"]
)
def test_what_is_no_point_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(BadQuestion, match="write ISO time"):
        parse_point(text, 0)


def test_the_future_is_not_ago() -> None:
    assert ago(0, 1500) == "1.5 s ago"
    assert ago(1500, 0) == "in 1.5 s"


def test_both_ends_of_a_span() -> None:
    day = parse_point("2026-03-01T00:00", 0)
    hours = (day + 14 * 3_600_000, day + 15 * 3_600_000)
    assert parse_span("2026-03-01T14:00/15:00", 0) == hours
    assert parse_span("2026-03-01T14:00/2026-03-01T15:00", 0) == hours
    assert parse_span("2026-03-01T14:00Z/15:00Z", 0)[0] == parse_point("2026-03-01T14:00Z", 0)
    assert parse_span("2026-03-01T14:00/-0s", hours[1]) == hours
    assert parse_span("-1h/-30m", 10_000_000) == (6_400_000, 8_200_000)
    assert parse_span("-1h", 10_000_000) == (6_400_000, 10_000_000)


@pytest.mark.parametrize("text", ["-1m/-1h", "-1m/-1m", "2026-03-01T14:00/13:00"])
def test_a_span_does_not_run_backwards(text: str) -> None:
    with pytest.raises(BadQuestion, match="FROM must be before TO"):
        parse_span(text, 10_000_000)


def test_an_end_before_its_begin_is_refused_unless_the_log_goes_on_over_midnight() -> None:
    last_ms = parse_point("2026-03-01T13:41", 0)
    for text in ("13:26/13:23", "13:30/13:20"):
        with pytest.raises(BadQuestion, match="did you mean 13:2"):
            parse_span(text, last_ms)
    begin, end = parse_span("23:50/00:10", parse_point("2026-03-01T00:05", 0))
    assert end - begin == 20 * 60_000


def test_a_time_after_the_end_is_of_the_last_day_where_the_log_is_of_that_day_only() -> None:
    first_ms, last_ms = parse_point("2026-03-01T13:22", 0), parse_point("2026-03-01T13:41", 0)
    assert parse_point("13:59", last_ms, first_ms) == parse_point("2026-03-01T13:59", 0)
    assert parse_point("13:59", last_ms) == parse_point("2026-02-28T13:59", 0)
