"""How the code reads: sizes, names, docstrings, and words that have no place in it."""

import ast
import re
from collections.abc import Iterator, Mapping

from tests.house.source import Source

LINES, TEST_LINES = 300, 400
FUNCTION_LINES, TEST_FUNCTION_LINES = 50, 60
BANNED = frozenset({"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"})
# Put together here, so that the rule does not find itself.
LEFT_OVER = re.compile(rf"\b({'TO' + 'DO'}|{'FIX' + 'ME'}|{'X' * 3})\b")
OUTSIDE = re.compile(
    "|".join((r"pypi\." + "org", "python" + "hosted", "/wor" + "k/", "/far" + "m/"))
)

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def long_files(source: Source) -> Iterator[str]:
    most = TEST_LINES if source.is_test else LINES
    lines = len(source.text.splitlines())
    if lines > most:
        yield f"{source.where}:{most}: has {lines} lines, more than {most}"


def long_functions(source: Source) -> Iterator[str]:
    most = TEST_FUNCTION_LINES if source.is_test else FUNCTION_LINES
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > most:
                yield source.found(node, f"{node.name} has {lines} lines, more than {most}")


def empty_names(source: Source) -> Iterator[str]:
    """Names that say nothing, of files, folders, classes and functions."""
    for word in {word for part in source.where.split("/") for word in words(part)} & BANNED:
        yield f"{source.where}:1: the path says {word}"
    for node in ast.walk(source.tree):
        if isinstance(node, _Definition):
            for word in sorted(set(words(node.name)) & BANNED):
                yield source.found(node, f"{node.name} says {word}")


def words(name: str) -> list[str]:
    """The words of a snake_case or CamelCase name, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def left_overs(where: str, text: str) -> Iterator[str]:
    yield from _matches(where, text, LEFT_OVER, "is left over")


def outside_places(where: str, text: str) -> Iterator[str]:
    """Hosts of packages and paths of somebody's machine."""
    yield from _matches(where, text, OUTSIDE, "is a place outside the project")


def _matches(where: str, text: str, pattern: re.Pattern[str], what: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        for found in pattern.finditer(line):
            yield f"{where}:{number}: {found[0]} {what}"


def caught_cancellations(source: Source) -> Iterator[str]:
    """``except trio.Cancelled``: releases live in ``finally``, as plain calls."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            names = {
                getattr(inner, "attr", getattr(inner, "id", "")) for inner in ast.walk(node.type)
            }
            if "Cancelled" in names:
                yield source.found(node, "catches Cancelled")


def files_without_docstring(source: Source) -> Iterator[str]:
    if ast.get_docstring(source.tree) is None:
        yield f"{source.where}:1: does not start with a docstring"


def exports_without_docstring(package: Source, modules: Mapping[str, Source]) -> Iterator[str]:
    """Classes and functions that a package hands out and does not explain. ``modules`` are all
    files by dotted name."""
    own = package.where.removesuffix("/__init__.py").replace("/", ".")
    for node in package.tree.body:
        if not isinstance(node, ast.ImportFrom):
            continue
        module = node.module or ""
        if node.level:
            module = f"{own}.{module}".rstrip(".")
        for alias in node.names:
            yield from _unexplained(modules.get(module), alias.name)


def _unexplained(source: Source | None, name: str) -> Iterator[str]:
    for node in source.tree.body if source else ():
        if isinstance(node, _Definition) and node.name == name and not ast.get_docstring(node):
            assert source is not None
            yield source.found(node, f"{name} is exported and has no docstring")
