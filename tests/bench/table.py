"""The one table that is printed: measurements as lines, proxies as columns, ratios at the end."""

from collections.abc import Iterator, Sequence
from statistics import median

from tests.bench.rows import ROWS, Row
from tests.bench.session import Cell, Results

OURS = "trioroute"
AGAINST = ("nginx", "vllm-router")

Missing = dict[tuple[str, str], list[str]]
"""Rows without a figure, by target and reason."""


def figure(cell: Cell) -> float | None:
    """The median of the rounds that gave a figure, if most did."""
    figures = [value for value in cell if isinstance(value, float | int)]
    return median(figures) if figures and 2 * len(figures) > len(cell) else None


def ratio(ours: Cell, theirs: Cell) -> float | None:
    """The median of the ratios of each round: what both suffered alike drops out."""
    pairs = [
        a / b
        for a, b in zip(ours, theirs, strict=False)
        if isinstance(a, float | int) and isinstance(b, float | int) and b
    ]
    return median(pairs) if pairs else None


def render(results: Results) -> str:
    """Text for a terminal; what could not be measured is told below the table."""
    missing: dict[tuple[str, str], list[str]] = {}
    shown = [name for name in results.targets if name not in results.absent]
    against = [name for name in AGAINST if name in shown and OURS in shown]
    head = ["row", "", *shown, *(f"{OURS} / {name}" for name in against)]
    lines = [head]
    for name in results.rows:
        row = ROWS[name]
        cells = {target: results.cells.get((name, target), []) for target in shown}
        line = [name, row.title, *(_cell(row, target, cells[target], missing) for target in shown)]
        lines.append([*line, *(_ratio(ratio(cells[OURS], cells[other])) for other in against)])
    return "\n".join([*_columns(lines), *_notes(results, missing)])


def _notes(results: Results, missing: Missing) -> Iterator[str]:
    yield from (f"  {name}: {why}" for name, why in results.absent.items())
    for (target, reason), rows in missing.items():
        yield f"  {target}, {', '.join(rows)}: {reason}"


def _cell(row: Row, target: str, cell: Cell, missing: Missing) -> str:
    found = figure(cell)
    if not cell:
        return "-"
    reasons = [value for value in cell if isinstance(value, str)]
    if found is None and reasons[0].startswith(">"):
        return reasons[0].partition(" for ")[0]
    if reasons:
        missing.setdefault((target, reasons[0]), []).append(row.name)
    return "x" if found is None else shown_figure(found, row.digits)


def shown_figure(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _columns(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for number, line in enumerate(lines):
        cells = [f"{cell:>{width}}" for cell, width in zip(line[2:], widths[2:], strict=True)]
        named = [f"{line[0]:<{widths[0]}}", f"{line[1]:<{widths[1]}}"]
        yield " | ".join([*named, *cells]).rstrip()
        if number == 0:
            yield "-|-".join("-" * width for width in widths)
