"""The code reads as the house wants it to; each rule is also run on a small text that breaks it."""

from collections.abc import Callable, Iterable, Iterator

import pytest

from tests.house import tidiness
from tests.house.source import ROOT, Source, fail_with, files, none_found, parsed, within

Rule = Callable[[Source], Iterator[str]]
ALL = ("trioroute/", "eventlog/", "tests/", "tools/")
SHIPPED = ("trioroute/", "eventlog/")
WRITTEN = {".py", ".md", ".toml", ".yml", ".yaml", ".sh", ".html", ".css", ".js", ""}


def written() -> Iterator[tuple[str, str]]:
    """Every text that people wrote; captures and other data are not theirs to word."""
    for path in files():
        if path.suffix in WRITTEN:
            yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")


@pytest.mark.parametrize(
    "rule",
    [
        tidiness.long_files,
        tidiness.long_functions,
        tidiness.empty_names,
        tidiness.caught_cancellations,
        tidiness.files_without_docstring,
    ],
)
def test_every_python_file_keeps_the_rule(rule: Rule) -> None:
    none_found(rule, within(*ALL))


def test_nothing_is_left_over_in_any_text() -> None:
    assert not "\n".join(
        line for where, text in written() for line in tidiness.left_overs(where, text)
    )


def test_no_text_names_a_place_outside_the_project() -> None:
    fail_with(line for where, text in written() for line in tidiness.outside_places(where, text))


def test_everything_a_package_hands_out_is_explained() -> None:
    sources = within(*SHIPPED)
    modules = by_module(sources)
    packages = [source for source in sources if source.stem == "__init__"]
    assert packages
    none_found(lambda package: tidiness.exports_without_docstring(package, modules), packages)


def by_module(sources: Iterable[Source]) -> dict[str, Source]:
    return {
        source.where.removesuffix(".py").removesuffix("/__init__").replace("/", "."): source
        for source in sources
    }


def check(rule: Rule, text: str, where: str = "trioroute/a.py") -> list[str]:
    return list(rule(parsed(where, text)))


def test_a_long_file_is_found() -> None:
    assert check(tidiness.long_files, "x = 1\n" * 301)
    assert not check(tidiness.long_files, "x = 1\n" * 300)
    assert not check(tidiness.long_files, "x = 1\n" * 400, "tests/test_a.py")
    assert check(tidiness.long_files, "x = 1\n" * 401, "tests/test_a.py")


def test_a_long_function_is_found() -> None:
    def function(lines: int) -> str:
        return "@decorated\nasync def f():\n" + "    x = 1\n" * (lines - 1)

    assert check(tidiness.long_functions, function(51))
    assert not check(tidiness.long_functions, function(50))
    assert not check(tidiness.long_functions, function(60), "tests/test_a.py")
    assert check(tidiness.long_functions, function(61), "tests/test_a.py")


@pytest.mark.parametrize(
    "where, text",
    [
        ("trioroute/utils.py", ""),
        ("trioroute/common/a.py", ""),
        ("trioroute/a.py", "class PoolManager: ..."),
        ("trioroute/a.py", "class HTTPBase: ..."),
        ("trioroute/a.py", "class A:\n    async def misc_things(self): ..."),
    ],
)
def test_a_name_that_says_nothing_is_found(where: str, text: str) -> None:
    assert len(check(tidiness.empty_names, text, where)) == 1


def test_a_word_that_only_begins_like_a_banned_one_is_let_pass() -> None:
    assert not check(tidiness.empty_names, "def database(): ...\nclass Managers: ...")


@pytest.mark.parametrize(
    "text",
    [
        "try: ...\nexcept trio.Cancelled: raise",
        "try: ...\nexcept (OSError, trio.Cancelled): raise",
        "try: ...\nexcept Cancelled as gone: raise",
    ],
)
def test_a_caught_cancellation_is_found(text: str) -> None:
    assert len(check(tidiness.caught_cancellations, text)) == 1


def test_a_file_without_a_docstring_is_found() -> None:
    assert check(tidiness.files_without_docstring, "import attrs\n")
    assert not check(tidiness.files_without_docstring, '"""What it is."""\n')


@pytest.mark.parametrize("word", ["TO" + "DO", "FIX" + "ME", "X" * 3])
def test_a_left_over_is_found_with_its_line(word: str) -> None:
    assert list(tidiness.left_overs("a.md", f"one\n# {word}: later")) == [
        f"a.md:2: {word} is left over"
    ]
    assert not list(tidiness.left_overs("a.md", f"{word}S and X{word}"))


@pytest.mark.parametrize(
    "text", ["https://py" + "pi.org/simple", "files.python" + "hosted.org", "cd /wor" + "k/main"]
)
def test_a_place_outside_the_project_is_found(text: str) -> None:
    assert len(list(tidiness.outside_places("a.md", text))) == 1


@pytest.mark.parametrize("line", ["from p.m import f", "from .m import f as f"])
def test_an_export_without_a_docstring_is_found(line: str) -> None:
    package = parsed("p/__init__.py", line)
    bare = by_module([parsed("p/m.py", "def f(): ...\ndef g(): ...")])
    told = by_module([parsed("p/m.py", 'def f():\n    """Does f."""')])
    assert len(list(tidiness.exports_without_docstring(package, bare))) == 1
    assert not list(tidiness.exports_without_docstring(package, told))
