"""The table says what was measured, what was not, and why."""

from tests.bench.session import Results
from tests.bench.table import figure, ratio, render

TARGETS = ("direct", "nginx", "vllm-router", "trioroute")


def results(**cells: list[float | str]) -> Results:
    made = Results(TARGETS, ("rps-2k-32", "leave"), 3)
    for name, cell in cells.items():
        row, _, target = name.partition("__")
        made.cells[row.replace("_", "-"), target.replace("_", "-")] = cell
    return made


def lines_of(made: Results) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")][1:] for line in render(made).splitlines()]


def test_a_figure_is_the_median_of_the_rounds() -> None:
    assert figure([3.0, 100.0, 1.0]) == 3.0
    assert figure([3.0, "cut", 5.0]) == 4.0
    assert figure([3.0, "cut", "cut"]) is None
    assert figure([]) is None


def test_a_ratio_is_taken_round_by_round() -> None:
    assert ratio([10.0, 40.0, 9.0], [20.0, 80.0, 3.0]) == 0.5
    assert ratio([10.0, "cut"], [20.0, 1.0]) == 0.5
    assert ratio(["cut"], [20.0]) is None


def test_lines_are_measurements_columns_are_proxies_and_ratios_stand_last() -> None:
    made = results(
        rps_2k_32__direct=[70000.0],
        rps_2k_32__nginx=[50000.0],
        rps_2k_32__vllm_router=[10000.0],
        rps_2k_32__trioroute=[12345.6],
    )
    head, _, line, leave = lines_of(made)
    assert head[1:] == [*TARGETS, "trioroute / nginx", "trioroute / vllm-router"]
    assert line[1:] == ["70,000", "50,000", "10,000", "12,346", "0.25", "1.23"]
    assert leave[1:] == ["-", "-", "-", "-", "", ""]


def test_a_figure_that_is_missing_says_why_below_the_table() -> None:
    made = results(
        rps_2k_32__nginx=["wrong responses: 5 cut; right: 0"] * 3,
        rps_2k_32__trioroute=[5.0, 6.0, "no response within the time"],
        leave__nginx=["> 8 s for 20 of 20"],
    )
    text = render(made)
    _, _, line, leave, *notes = lines_of(made)
    assert line[2] == "x"
    assert line[4] == "6"
    assert leave[2] == "> 8 s"
    assert len(notes) == 2
    assert "nginx, rps-2k-32: wrong responses: 5 cut" in text
    assert "trioroute, rps-2k-32: no response within" in text


def test_a_proxy_that_is_absent_has_no_column_and_a_reason() -> None:
    made = results(rps_2k_32__trioroute=[5.0])
    made.absent["vllm-router"] = "not to be installed here"
    head, *_ = lines_of(made)
    assert head[1:] == ["direct", "nginx", "trioroute", "trioroute / nginx"]
    assert "vllm-router: not to be installed here" in render(made)
