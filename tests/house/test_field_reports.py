"""Every report from the field has its row, in order, and every test a row names exists."""

import ast
import re

from tests.house.source import ROOT

FIELD = ROOT / "tests" / "field"
ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r"`((?:\.\./)?[\w/.]+\.py)::(\w+)`")


def rows() -> list[tuple[int, str]]:
    page = (FIELD / "README.md").read_text("utf-8")
    return [(int(number), last) for number, _, _, last in ROW.findall(page)]


def named() -> list[tuple[str, str]]:
    return [found for _, last in rows() for found in TEST.findall(last)]


def functions_of(file: str) -> set[str]:
    tree = ast.parse((FIELD / file).resolve().read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


def test_rows_are_in_order_and_each_number_has_one() -> None:
    """Reports are numbered to 143; the multiples of three are not used."""
    assert [number for number, _ in rows()] == [n for n in range(1, 144) if n % 3]


def test_every_test_that_a_row_names_exists() -> None:
    assert named()
    missing = [f"{file}::{test}" for file, test in named() if test not in functions_of(file)]
    assert not missing


def test_every_test_of_the_folder_has_its_row() -> None:
    known = set(named())
    for path in sorted(FIELD.glob("test_*.py")):
        for test in sorted(functions_of(path.name)):
            assert not test.startswith("test_") or (path.name, test) in known, test
