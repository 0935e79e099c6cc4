"""Imports point downwards, and nothing below the waterline can make replay differ.

Each rule is run on the project and, so that it is known to bite, on small sources that break it.
"""

from collections.abc import Callable, Iterator

import pytest

from tests.house import dry, floors
from tests.house.source import Source, none_found, parsed, within

Rule = Callable[[Source], Iterator[str]]
DRY = ("trioroute/events/", "trioroute/projections/", "trioroute/policy/", "trioroute/router.py")


@pytest.mark.parametrize("part", DRY)
def test_dry_code_imports_only_dry_code_below_it(part: str) -> None:
    none_found(dry.foreign_imports, within(part))


@pytest.mark.parametrize("part", DRY)
def test_dry_code_knows_no_clock_no_chance_and_no_io(part: str) -> None:
    none_found(dry.forbidden_names, within(part))


@pytest.mark.parametrize("part", DRY)
def test_dry_code_has_no_float(part: str) -> None:
    none_found(dry.floats, within(part))


@pytest.mark.parametrize("part", DRY)
def test_dry_code_never_suspends(part: str) -> None:
    none_found(dry.suspensions, within(part))


@pytest.mark.parametrize("part", DRY)
def test_dry_code_never_takes_a_set_in_its_order(part: str) -> None:
    attributes = dry.set_attributes(within(*DRY))
    none_found(lambda source: dry.set_iterations(source, attributes), within(part))


def test_every_package_stands_on_lower_ones_only() -> None:
    none_found(floors.upward_imports, within("trioroute/"))


def test_packages_that_serve_joins_do_not_know_each_other() -> None:
    none_found(floors.meddling_imports, within("trioroute/", "tools/"))


def test_the_event_log_knows_no_user_and_keeps_trio_and_sqlite_in_their_files() -> None:
    none_found(floors.log_imports, within("eventlog/"))


def check(rule: Rule, where: str, text: str) -> list[str]:
    return list(rule(parsed(where, text)))


@pytest.mark.parametrize(
    "where, text",
    [
        ("trioroute/events/a.py", "import time"),
        ("trioroute/events/a.py", "def f():\n    import random"),
        ("trioroute/events/a.py", "from os.path import join"),
        ("trioroute/events/a.py", "import orjson"),
        ("trioroute/policy/codec.py", "from cattrs import Converter"),
        ("trioroute/events/a.py", "from trioroute.projections import State"),
        ("trioroute/events/a.py", "from trioroute import policy"),
        ("trioroute/events/a.py", "from ..policy import select"),
        ("trioroute/projections/a.py", "import trioroute.policy.select"),
        ("trioroute/policy/a.py", "from trioroute.router import Router"),
        ("trioroute/policy/a.py", "from trioroute.settings import load"),
        ("trioroute/policy/a.py", "import trioroute"),
        ("trioroute/policy/a.py", "from eventlog.record import Entry"),
        ("trioroute/router.py", "from eventlog import Journal"),
        ("trioroute/router.py", "from trioroute.proxy import app"),
    ],
)
def test_a_foreign_import_is_found(where: str, text: str) -> None:
    assert len(check(dry.foreign_imports, where, text)) == 1


@pytest.mark.parametrize(
    "where, text",
    [
        (
            "trioroute/events/codec.py",
            "import orjson\nfrom cattrs import Converter",
        ),
        ("trioroute/events/a.py", "from trioroute.events.words import Reason"),
        ("trioroute/events/a.py", "from . import words"),
        ("trioroute/policy/a.py", "from collections.abc import Mapping\nimport attrs, zlib"),
        ("trioroute/policy/a.py", "from trioroute import events\nimport trioroute.projections"),
        ("trioroute/router.py", "from eventlog.record import Entry"),
    ],
)
def test_a_dry_import_is_let_pass(where: str, text: str) -> None:
    assert check(dry.foreign_imports, where, text) == []


@pytest.mark.parametrize(
    "text", ["at = time.monotonic()", "random", "hash('a')", "id(x)", "open('f')", "print(1)"]
)
def test_a_forbidden_name_is_found(text: str) -> None:
    assert len(check(dry.forbidden_names, "trioroute/policy/a.py", text)) == 1


@pytest.mark.parametrize(
    "text", ["x = 0.5", "x = 1e3", "a / b", "a /= 2", "float(a)", "x: float = 1", "x = 2j"]
)
def test_a_float_is_found(text: str) -> None:
    assert len(check(dry.floats, "trioroute/policy/a.py", text)) == 1


def test_turning_a_float_away_is_no_float() -> None:
    text = "if isinstance(a, int | float) or a // 2:\n    raise TypeError"
    assert check(dry.floats, "trioroute/policy/a.py", text) == []


@pytest.mark.parametrize(
    "text",
    [
        "async def f(): ...",
        "async def f():\n    await g()",
        "async def f():\n    async for x in y: ...",
        "async def f():\n    async with y: ...",
        "async def f():\n    return [x async for x in y]",
    ],
)
def test_a_suspension_is_found(text: str) -> None:
    inner = 1 if text.endswith("f(): ...") else 2
    assert len(check(dry.suspensions, "trioroute/policy/a.py", text)) == inner


@pytest.mark.parametrize(
    "text",
    [
        "for x in {1, 2}: ...",
        "for x in set(y): ...",
        "[x for x in frozenset(y)]",
        "{x: 1 for x in {a for a in b}}",
        "for x in a.union(b): ...",
        "for x in a.keys() - b: ...",
        "for i, x in enumerate(set(y)): ...",
        "list({1, 2})",
        "tuple(a.difference(b))",
        "next(iter({1, 2}))",
        "', '.join({'a', 'b'})",
        "f(*{1, 2})",
        "{1, 2}.pop()",
        "a, b = {1, 2}",
        "names = set()\nfor x in names: ...",
        "def f(names: frozenset[str]):\n    return list(names)",
        "class A:\n    tried: set[str]\n    def f(self):\n        return tuple(self.tried)",
        "def f(self):\n    self.tried = {1}\n    for x in self.tried: ...",
        "dict.fromkeys({1, 2})",
        "def f():\n    yield from {1, 2}",
    ],
)
def test_a_set_taken_in_its_order_is_found(text: str) -> None:
    assert len(check(dry.set_iterations, "trioroute/policy/a.py", text)) == 1


def test_a_set_of_another_file_is_known_by_its_field() -> None:
    fields = dry.set_attributes([parsed("trioroute/events/a.py", "class A:\n    tried: set[str]")])
    taking = parsed("trioroute/policy/a.py", "for x in flight.tried: ...")
    assert len(list(dry.set_iterations(taking, fields))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "for x in sorted({1, 2}): ...",
        "len({1, 2}) + max({1, 2})",
        "x in {1, 2}",
        "for x in [1, 2]: ...",
        "for x in a.keys(): ...",
        "for x in range(a - b): ...",
        "{x for x in [1, 2]}",
        "stack.pop()",
    ],
)
def test_what_does_not_show_the_order_of_a_set_is_let_pass(text: str) -> None:
    assert check(dry.set_iterations, "trioroute/policy/a.py", text) == []


@pytest.mark.parametrize(
    "where, text",
    [
        ("trioroute/scrape/a.py", "from trioroute.proxy import app"),
        ("trioroute/observe/a.py", "from trioroute import serve"),
        ("trioroute/proxy/a.py", "import trioroute.cli"),
        ("trioroute/proxy/a.py", "from trioroute.simulate import world"),
        ("trioroute/settings/a.py", "from trioroute.router import Router"),
        ("trioroute/proxy/a.py", "from trioroute.novelty import x"),
        ("trioroute/novelty/a.py", "import attrs"),
        ("trioroute/__init__.py", "from trioroute.serve import serve"),
    ],
)
def test_an_upward_import_is_found(where: str, text: str) -> None:
    assert len(check(floors.upward_imports, where, text)) == 1


@pytest.mark.parametrize(
    "where, text",
    [
        ("trioroute/proxy/a.py", "from trioroute.scrape import rounds"),
        ("trioroute/proxy/a.py", "from ..observe import Timings"),
        ("trioroute/discovery/dns.py", "import trioroute.scrape.vllm"),
        ("trioroute/simulate/a.py", "from trioroute.proxy import pool"),
        ("trioroute/engine/a.py", "from trioroute import proxy"),
        ("tools/bench", "from trioroute.proxy.app import app"),
    ],
)
def test_an_import_that_only_serve_may_make_is_found(where: str, text: str) -> None:
    assert len(check(floors.meddling_imports, where, text)) == 1


def test_serve_may_import_all_it_joins() -> None:
    text = "\n".join(f"import trioroute.{part}" for part in sorted(floors.SEPARATE))
    for rule in (floors.upward_imports, floors.meddling_imports):
        assert check(rule, "trioroute/serve.py", text) == []


@pytest.mark.parametrize(
    "where, text",
    [
        ("eventlog/store.py", "from trioroute.events import Event"),
        ("eventlog/store.py", "import trio"),
        ("eventlog/memory.py", "import sqlite3"),
        ("eventlog/journal.py", "from sqlite_utils import Database"),
        ("eventlog/sqlite.py", "import trio.to_thread"),
    ],
)
def test_an_import_the_event_log_must_not_make_is_found(where: str, text: str) -> None:
    assert len(check(floors.log_imports, where, text)) == 1


def test_the_files_of_the_event_log_that_may_use_trio_or_sqlite_are_let_pass() -> None:
    assert check(floors.log_imports, "eventlog/journal.py", "import trio") == []
    assert check(floors.log_imports, "eventlog/sqlite_reader.py", "import sqlite3") == []
