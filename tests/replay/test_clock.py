"""Points in time and spans as people write and read them."""

import pytest

from trioroute.replay.clock import ago, local_iso, parse_point, parse_span, span
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


@pytest.mark.parametrize("text", ["", "yesterday", "-", "-x", "2026-13-01", "15m"])
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
