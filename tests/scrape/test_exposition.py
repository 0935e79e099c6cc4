"""Reading Prometheus text: what counts, what is junk, and what is no page at all."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tests.scrape.servers import UNDER_LOAD
from trioroute.scrape import exposition
from trioroute.scrape.exposition import Sample, Scanner, UnreadablePage, scan
from trioroute.scrape.vllm import WANTED


def values(page: bytes, *names: str) -> list[float | None]:
    return [sample.value for sample in scan(page, names or ("m",))]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"0", 0.0),
        (b"8.0", 8.0),
        (b"8.", 8.0),
        (b".5", 0.5),
        (b"1e3", 1000.0),
        (b"1.5E+02", 150.0),
        (b"-1", -1.0),
        (b"+Inf", math.inf),
        (b"-Inf", -math.inf),
        (b"12 1795974368622", 12.0),
        (b"12 1795974368.5", 12.0),
        (b'12 # {trace_id="a b"} 3', 12.0),
    ],
)
def test_values_as_the_format_allows_them(text: bytes, value: float) -> None:
    assert values(b"m " + text + b"\n") == [value]


def test_nan_is_kept_for_the_dialect_to_judge() -> None:
    (value,) = values(b"m NaN\n")
    assert value is not None
    assert math.isnan(value)


@pytest.mark.parametrize(
    "line",
    [
        b"m 0x10",
        b"m 1_000",
        b"m",
        b"m ",
        b"m{} ",
        b"m 1 2 3",
        b"m 1 soon",
        b"m one",
        b'm{a="1" 2',
        b"m{a=1} 2",
        b'm{a="1"b="2"} 2',
        b'm{="1"} 2',
        b'm{a="1} 2',
        b"m{a} 2",
        b'm"1',
        b"m 1,5",
        b"m \xff",
    ],
)
def test_a_junk_line_fails_alone(line: bytes) -> None:
    page = b'm{engine="0"} 1\n' + line + b'\nm{engine="2"} 3\n'
    assert values(page) == [1.0, None, 3.0]


def test_labels_with_escapes_blanks_and_a_trailing_comma() -> None:
    line = rb'm { a = "x\"y\\z\nw\t" , b="}," ,c="",} 4' + b"\n"
    assert scan(line, ["m"]) == [Sample("m", {"a": 'x"y\\z\nw\\t', "b": "},", "c": ""}, 4.0)]


def test_names_match_whole_only() -> None:
    page = b'm_total 1\nmm 2\n# HELP m text\n# TYPE m gauge\nm{a="b"} 3\nm:x 4\nm\t5\n'
    assert values(page) == [3.0, 5.0]


def test_leading_blanks_and_carriage_returns_are_read_over() -> None:
    assert values(b'\r\n  m 1\r\n\tm{a="b"} 2\r\nm 3 \r\n') == [1.0, 2.0, 3.0]


def test_last_line_needs_no_newline() -> None:
    assert values(b"m 1\nm 2") == [1.0, 2.0]


@pytest.mark.parametrize("page", [b"", b"\n", b"  \r\n\n", b"# only a comment\n", b"other 1\n"])
def test_an_empty_page_or_one_without_the_names_is_no_error(page: bytes) -> None:
    assert scan(page, ["m"]) == []


@pytest.mark.parametrize(
    "page",
    [
        b"<!DOCTYPE html>\n<html><body>\nm 1\n# no\n</body></html>\n",
        b"\n\n <html>m 1</html>",
        b"\x1f\x8b\x08\x00\x00m 1\n",
        b"\x89PNG\r\n\x1a\nabc\n",
        b"# HELP m fine so far\nm 1\n\0\n",
        b'{"detail":"Not Found"}',
        b"Service is starting, please wait\n",
        b"junk?\n" * 1000 + b"m 1\n",
    ],
)
def test_what_is_not_prometheus_text_is_unreadable(page: bytes) -> None:
    with pytest.raises(UnreadablePage):
        scan(page, ["m"])


def test_a_page_over_8_mib_is_unreadable() -> None:
    scanner = Scanner(["m"])
    line = b"n" * 1023 + b"\n"
    scanner.feed(b"# page\n")
    for _ in range(8 * 1024 - 1):
        scanner.feed(line)
    with pytest.raises(UnreadablePage, match="8388608 bytes"):
        scanner.feed(line)


def test_too_many_lines_are_unreadable() -> None:
    scanner = Scanner(["m"])
    scanner.feed(b"# page\n")
    for _ in range(199):
        scanner.feed(b"\n" * 1000)
    with pytest.raises(UnreadablePage, match="200000 lines"):
        scanner.feed(b"\n" * 1000)


def test_a_name_repeated_without_end_is_unreadable() -> None:
    with pytest.raises(UnreadablePage, match="2048 times"):
        scan(b"m 1\n" * 2049, ["m"])


def test_an_endless_line_is_junk_and_takes_no_memory() -> None:
    scanner = Scanner(["m"])
    scanner.feed(b'm 1\nm{a="')
    for _ in range(300):
        scanner.feed(b"x" * 1000)
        assert len(scanner._tail) <= exposition.LINE_MAX_BYTES
        scanner.feed(b"m 9")  # wherever the line was cut, this is still a part of it
    scanner.feed(b'"} 2\nm 3\n')
    assert [sample.value for sample in scanner.finish()] == [1.0, None, 3.0]


@given(st.lists(st.integers(0, len(UNDER_LOAD)), max_size=20))
def test_where_the_page_is_cut_does_not_matter(cuts: list[int]) -> None:
    scanner = Scanner(WANTED)
    edges = [0, *sorted(cuts), len(UNDER_LOAD)]
    for start, end in pairwise(edges):
        scanner.feed(UNDER_LOAD[start:end])
    assert scanner.finish() == scan(UNDER_LOAD, WANTED)


@given(st.binary(max_size=400))
def test_no_bytes_raise_anything_but_unreadable(noise: bytes) -> None:
    try:
        for sample in scan(b"m 1\nm" + noise, ["m"]):
            assert sample.name == "m"
    except UnreadablePage:
        pass


LABELS = st.dictionaries(
    st.sampled_from(["engine", "model_name", "le", "x"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    max_size=4,
)


@given(LABELS, st.floats(allow_nan=False))
def test_reads_what_the_reference_parser_reads(labels: dict[str, str], value: float) -> None:
    shown = ",".join(
        '{}="{}"'.format(k, v.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\""))
        for k, v in labels.items()
    )
    page = f"m{{{shown}}} {value!r}\n"
    ours = scan(page.encode(), ["m"])
    ((theirs,),) = [family.samples for family in text_string_to_metric_families(page)]
    assert ours == [Sample("m", theirs.labels, theirs.value)]


def test_agrees_with_the_reference_parser_on_a_real_page() -> None:
    reference = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(UNDER_LOAD.decode())
        for sample in family.samples
    }
    names = {name for name, _ in reference}
    ours = {}
    for name in names:  # one at a time: the whole page has more samples than a dialect may want
        for sample in scan(UNDER_LOAD, [name]):
            ours[(name, tuple(sorted(sample.labels.items())))] = sample.value
    assert len(reference) > 400
    assert ours == reference


def test_a_line_of_too_many_labels_is_junk_and_holds_none() -> None:
    def line(count: int) -> bytes:
        return b"m{" + b",".join(b'a%d="1"' % i for i in range(count)) + b"} 1\n"

    most, over = scan(line(exposition.LABELS_MAX) + line(exposition.LABELS_MAX + 1), ["m"])
    assert (len(most.labels), most.value) == (exposition.LABELS_MAX, 1.0)
    assert over == Sample("m", {}, None)
    assert scan(b"m{" + b'a="1",' * (exposition.LABELS_MAX + 1) + b"} 1\n", ["m"]) == [over]
