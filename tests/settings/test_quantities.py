"""Durations, sizes and shares as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trioroute.quantities import (
    duration_text,
    parse_thousandths,
    size_text,
    thousandths_text,
)
from trioroute.settings import BadValue, parse_duration_ms, parse_size_bytes


@pytest.mark.parametrize(
    "written, ms",
    [
        (3, 3000),
        (0.5, 500),
        (0, 0),
        (0.1, 100),
        ("3s", 3000),
        ("250ms", 250),
        ("10m", 600_000),
        ("1h", 3_600_000),
        ("14d", 1_209_600_000),
        ("1h30m", 5_400_000),
        ("1.5s", 1500),
        (" 3 s ", 3000),
        ("3", 3000),
        ("0.25", 250),
        (0.3333, 333),
    ],
)
def test_a_duration_is_seconds_or_text_with_a_unit(written: object, ms: int) -> None:
    assert parse_duration_ms(written) == ms


@pytest.mark.parametrize(
    "written",
    [True, False, None, [], "", "s", "3 parsecs", "3S", "-3s", "3s!", "1e3", "٣s", float("nan")],
)
def test_what_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(BadValue, match="is not a duration; write seconds"):
        parse_duration_ms(written)


@pytest.mark.parametrize("written", [0.0004, "0.4ms", "0.0001s"])
def test_a_short_duration_never_becomes_zero_which_means_off(written: object) -> None:
    with pytest.raises(BadValue, match="shorter than a millisecond"):
        parse_duration_ms(written)


@pytest.mark.parametrize("written", [10**15, 10**400, 1e300, -(10**16)])
def test_a_huge_number_of_seconds_is_refused(written: object) -> None:
    with pytest.raises(BadValue, match="is too large"):
        parse_duration_ms(written)


@pytest.mark.parametrize(
    "written, size",
    [
        (0, 0),
        (65536, 65536),
        ("65536", 65536),
        ("64MiB", 67_108_864),
        ("64 mib", 67_108_864),
        ("1.5GiB", 1_610_612_736),
        ("64MB", 64_000_000),
        ("20GiB", 21_474_836_480),
        ("1kB", 1000),
        ("7B", 7),
        ("1TiB", 1 << 40),
    ],
)
def test_a_size_is_bytes_or_text_with_a_unit(written: object, size: int) -> None:
    assert parse_size_bytes(written) == size


@pytest.mark.parametrize("written", [True, 1.5, "", "MiB", "64M", "-1", "64MiBs", None])
def test_what_is_no_size_is_refused(written: object) -> None:
    with pytest.raises(BadValue, match="is not a size; write bytes"):
        parse_size_bytes(written)


def test_part_of_a_byte_is_refused() -> None:
    with pytest.raises(BadValue, match="is not a whole number of bytes"):
        parse_size_bytes("0.3KiB")


@pytest.mark.parametrize("written, m", [(0.2, 200), (1, 1000), ("0.125", 125), (0, 0), (4, 4000)])
def test_a_share_is_kept_in_thousandths(written: object, m: int) -> None:
    assert parse_thousandths(written) == m


@pytest.mark.parametrize("written", [True, "20%", "", None, float("inf")])
def test_what_is_no_number_is_refused(written: object) -> None:
    with pytest.raises(BadValue, match="is not a number"):
        parse_thousandths(written)


def test_a_share_finer_than_a_thousandth_is_refused_and_not_rounded() -> None:
    with pytest.raises(BadValue, match="finer than a thousandth"):
        parse_thousandths(0.0004)


@given(st.integers(0, 10**14))
def test_texts_read_back_as_the_same_quantity(quantity: int) -> None:
    assert parse_duration_ms(duration_text(quantity)) == quantity
    assert parse_size_bytes(size_text(quantity)) == quantity
    assert parse_thousandths(thousandths_text(quantity)) == quantity
