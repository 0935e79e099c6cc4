"""The project's own source, parsed, for the rules of the house."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).resolve().parents[2]
_SKIPPED = re.compile(r"\.(git|venv.*|.*_cache|hypothesis)|__pycache__|.*\.egg-info|build|dist")


@attrs.frozen
class Source:
    """One file of Python. ``where`` is its path from the root of the project."""

    where: str
    text: str
    tree: ast.Module

    @property
    def stem(self) -> str:
        return Path(self.where).stem

    @property
    def is_test(self) -> bool:
        return self.where.startswith("tests/")

    def found(self, node: ast.AST, what: str) -> str:
        """A finding as one line that an editor can jump to."""
        return f"{self.where}:{getattr(node, 'lineno', 1)}: {what}"


def parsed(where: str, text: str) -> Source:
    return Source(where, text, ast.parse(text))


def files() -> Iterator[Path]:
    """Every file of the project that is written by hand, wherever it lies."""
    stack = [ROOT]
    while stack:
        for path in sorted(stack.pop().iterdir()):
            if _SKIPPED.fullmatch(path.name):
                continue
            if path.is_dir():
                stack.append(path)
            else:
                yield path


@cache
def paths() -> tuple[Path, ...]:
    """Every Python file, the executables of ``tools`` that are Python among them."""
    tools = ROOT / "tools"
    return tuple(
        path
        for path in files()
        if path.suffix == ".py" or (path.parent == tools and _is_python(path))
    )


@cache
def source_of(path: Path) -> Source:
    """A file, parsed once."""
    return parsed(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))


def _is_python(path: Path) -> bool:
    first = path.read_text("utf-8").partition("\n")[0]
    return first.startswith("#!") and "python" in first


def within(*prefixes: str) -> tuple[Source, ...]:
    """The Python files under these paths; fails when there are none, so no rule runs on nothing."""
    starts = tuple(f"{ROOT.as_posix()}/{prefix}" for prefix in prefixes)
    found = tuple(source_of(path) for path in paths() if path.as_posix().startswith(starts))
    assert found, f"no Python file under {prefixes}"
    return found


def none_found(rule: Callable[[Source], Iterator[str]], files: Iterable[Source]) -> None:
    """Fails with every finding of a rule as a line."""
    fail_with(line for source in files for line in rule(source))


def fail_with(findings: Iterable[str]) -> None:
    """Fails if there is a finding, and says all of them."""
    lines = list(findings)
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


def imports(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Every imported module, wherever the import stands. ``from p import x`` gives ``p.x`` where
    ``p`` is a whole program, so that ``from trioroute import proxy`` is seen."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(source.where, node)
            if "." in module or module not in {"trioroute", "eventlog"}:
                yield node, module
            else:
                yield from ((node, f"{module}.{alias.name}") for alias in node.names)


def _absolute(where: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = where.split("/")[: -node.level]
    return ".".join([*package, *([node.module] if node.module else [])])


def part_of(module: str) -> str:
    """The package a module belongs to: ``events``, ``router``, ... or ``eventlog``."""
    parts = module.split(".")
    if parts[0] == "trioroute":
        return parts[1] if len(parts) > 1 else ""
    return parts[0]


def own_part(source: Source) -> str:
    """The package a file belongs to, as ``part_of`` names it."""
    path = source.where.removesuffix(".py").removesuffix("/__init__")
    return part_of(path.replace("/", "."))
