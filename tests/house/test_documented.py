"""What the code has is on the page that documents it, and no page names what the code has not."""

import ast
import re
import sqlite3
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import attrs
import click
import pytest
import trio

from eventlog.sqlite import SqliteStore
from tests.house import pages
from tests.house.source import ROOT, fail_with, within
from trioroute.cli.log.root import COMMANDS as LOG_COMMANDS
from trioroute.cli.log.root import log_group
from trioroute.cli.root import COMMANDS, main
from trioroute.engine.faults import Faults
from trioroute.events import Reading, words
from trioroute.events.codec import KINDS
from trioroute.events.flat import defaults_of
from trioroute.events.views import VIEWS
from trioroute.observe.admin import _PLACES, _allowed
from trioroute.observe.exporter import SERIES
from trioroute.observe.measured import PROCESS
from trioroute.observe.shapes import Counter, Info, Series
from trioroute.proxy.errors import STATUS
from trioroute.proxy.paths import BARE, INFERENCE
from trioroute.settings import KNOWN_KEYS, load
from trioroute.settings.keys import sections_of
from trioroute.settings.reference import reference_page

Errors = set[tuple[int, str]]
VOCABULARIES = {
    "ReplicaState": "States of a replica",
    "Reason": "Reasons",
    "Outcome": "Outcomes",
    "Blame": "Blames",
    "Cause": "Causes",
    "ChangedBy": "Who changed it",
    "Source": "Sources of a replica",
    "PinKind": "Kinds of pins",
    "BindCause": "Cause of a binding",
    "SpillCause": "Causes of a spill",
    "DeadPin": "Why a pin is dead",
    "RebindCause": "Causes of a rebind",
    "UnbindCause": "Causes of an end",
    "RefusalCode": "Refusal codes",
}
NO_KINDS = {"Authorization", "Reading"}


def test_the_page_of_settings_is_the_one_that_is_made_from_the_keys() -> None:
    assert pages.page(pages.SETTINGS) == reference_page(), "run tools/reference"


def test_every_key_is_in_a_table_and_no_other() -> None:
    text = pages.page(pages.SETTINGS)
    told = [key for rows in pages.tables(text) for key in pages.first_codes(rows)]
    assert sorted(told) == sorted(KNOWN_KEYS)


@pytest.mark.parametrize("where", pages.ALL)
def test_a_key_that_a_page_names_is_known(where: str) -> None:
    tops = "|".join(sorted({key.split(".")[0] for key in KNOWN_KEYS}))
    key = re.compile(rf"(?:{tops})\.[a-z_]+(?:\.[a-z_]+)*")
    known = {*KNOWN_KEYS, *sections_of(KNOWN_KEYS)}
    named = (code.partition(" ")[0] for code in pages.codes(pages.page(where)))
    fail_with(f"{where}: {code}" for code in named if key.fullmatch(code) and code not in known)


@pytest.mark.parametrize("where", [pages.README, pages.SETTINGS])
def test_an_example_of_settings_can_be_used(where: str, tmp_path: Path) -> None:
    for number, example in enumerate(pages.blocks(pages.page(where), "toml")):
        path = tmp_path / f"{number}.toml"
        path.write_text(example)
        assert load(path, environ={"GPU2_KEY": "secret"}).replicas


def test_every_kind_of_event_has_a_section_and_no_other() -> None:
    titles = pages.headings(pages.section_of_kinds(), 3)
    assert sorted(titles) == sorted(f"`{kind}`" for kind in KINDS)


@pytest.mark.parametrize("cls", [*(kind.cls for kind in KINDS.values()), Reading])
def test_every_field_of_an_event_is_in_its_table_and_no_other(cls: type) -> None:
    (rows,) = pages.tables(pages.section(pages.page(pages.EVENTS), f"`{cls.__name__}`"))
    told = {pages.codes(row[0])[0]: "*optional*" in row[1] for row in rows}
    fields = {name: it is not attrs.NOTHING for name, it in defaults_of(cls).items()}
    assert told == fields


@pytest.mark.parametrize("name", [name for name, value in vars(words).items() if get_args(value)])
def test_every_closed_word_is_in_its_vocabulary_and_no_other(name: str) -> None:
    text = pages.page(pages.EVENTS)
    part = pages.section(text, VOCABULARIES[name])
    told = {*(code for rows in pages.tables(part) for code in pages.first_codes(rows))}
    if not told:
        told = {*pages.codes(part)}
    if "The words of a dead pin" in part:
        told |= {*pages.codes(pages.section(text, VOCABULARIES["DeadPin"]))}
    assert told == {*get_args(getattr(words, name))}


def test_columns_views_and_queries_of_the_page_are_those_of_a_log(tmp_path: Path) -> None:
    SqliteStore.open(tmp_path, views=VIEWS).close()
    log = sqlite3.connect(tmp_path / "log-1.sqlite")
    try:
        text = pages.page(pages.EVENTS)
        (columns,) = pages.tables(pages.section(text, "Columns of `events`"))
        assert pages.first_codes(columns) == columns_of(log, "events")
        (views,) = pages.tables(pages.section(text, "Reading it with SQL"))
        assert pages.first_codes(views) == list(VIEWS)
        for name, _, listed in views:
            assert pages.codes(listed) == columns_of(log, name.strip("`"))
        queries = pages.blocks(text, "sql")
        assert queries
        for query in queries:
            log.execute(query).fetchall()
    finally:
        log.close()


def columns_of(log: sqlite3.Connection, table: str) -> list[str]:
    return [column[0] for column in log.execute(f"SELECT * FROM {table} LIMIT 0").description]


def test_every_fault_of_the_simulated_replica_is_in_its_table_and_no_other() -> None:
    (rows,) = pages.tables(pages.section(pages.page(pages.ENGINE), "Faults"))
    assert [row[0].strip("`") for row in rows] == [field.name for field in attrs.fields(Faults)]


@pytest.mark.parametrize("where", pages.ALL)
def test_an_event_that_a_page_names_is_a_kind(where: str) -> None:
    if where in (pages.EVENTLOG, pages.CHANGELOG):
        return
    camel = re.compile(r"(?!Trioroute)[A-Z][a-z]+(?:[A-Z][a-z]+)*")
    named = {code for code in pages.codes(pages.page(where)) if camel.fullmatch(code)}
    assert not named - set(KINDS) - NO_KINDS


def test_every_series_is_in_the_table_as_it_is_exposed_and_no_other() -> None:
    (rows,) = pages.tables(pages.section(pages.page(pages.METRICS), "Series"))
    told = {(name, kind, labels, origin) for name, kind, labels, origin, _ in rows}
    assert told == {as_told(series) for series in SERIES}


def as_told(series: Series) -> pages.Row:
    shown = ", ".join(f"`{label}`" for label in series.labels) or "none"
    origin = "process" if series in PROCESS else "log"
    return f"`{exposed(series)}`", type(series).__name__.lower(), shown, origin


def exposed(series: Series) -> str:
    if isinstance(series, Counter):
        return f"{series.name}_total"
    return f"{series.name}_info" if isinstance(series, Info) else series.name


@pytest.mark.parametrize("where", pages.ALL)
def test_a_series_that_a_page_names_is_exposed(where: str) -> None:
    named = set(re.findall(r"\btrioroute_[a-z_]+", pages.page(where)))
    assert not named - {exposed(series) for series in SERIES}


def errors_made_by(function: str, *prefixes: str) -> Errors:
    """Status and code of every call of ``function(status, "code", ...)`` in these files."""
    found: Errors = set()
    for source in within(*prefixes):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == function:
                given = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant)]
                if len(given) == 2 and isinstance(given[0], int) and isinstance(given[1], str):
                    found.add((given[0], given[1]))
    return found


def errors_told(rows: list[pages.Row]) -> Errors:
    return {(int(row[0]), pages.codes(row[1])[0]) for row in rows}


def test_every_error_of_the_data_port_is_in_a_table_and_no_other() -> None:
    router, server = pages.tables(pages.section(pages.page(pages.HTTP), "Errors"))
    assert errors_told(router) == {(status, code) for code, status in STATUS.items()}
    made = errors_made_by("Refusal", "trioroute/proxy/serving/")
    assert made, "the server's refusals are made in another way now"
    assert errors_told(server) == made | {(400, "invalid_request")}
    logged = {pages.codes(row[1])[0] for row in router if row[2] not in ("", "no")}
    assert logged <= {*get_args(words.RefusalCode)}


def test_every_error_of_the_admin_port_is_in_the_table_and_no_other() -> None:
    rows = pages.tables(pages.section(pages.page(pages.METRICS), "Paths"))[1]
    made = errors_made_by("error", "trioroute/observe/")
    assert errors_told(rows) == made


def test_every_path_of_the_admin_port_is_in_the_table_and_answers_as_it_says() -> None:
    rows = pages.tables(pages.section(pages.page(pages.METRICS), "Paths"))[0]
    told = {pages.codes(row[0])[0]: row[1] for row in rows}
    for path, method in told.items():
        assert method in _allowed(path.replace("NUMBER", "1")), path
    assert {*_PLACES.split(", ")} <= told.keys()
    (source,) = within("trioroute/observe/admin.py")
    texts = {node.value for node in ast.walk(source.tree) if isinstance(node, ast.Constant)}
    plain = {text for text in texts if isinstance(text, str) and re.fullmatch(r"/[a-z]*", text)}
    assert plain
    assert plain <= told.keys()


def test_every_field_of_the_state_is_told() -> None:
    (source,) = within("trioroute/observe/state_view.py")
    keys = {
        key.value
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant)
    }
    told = set(re.findall(r"\w+", pages.section(pages.page(pages.METRICS), "Paths")))
    assert keys
    assert not keys - told - {"session", "prefix"}


def test_every_proxied_path_and_header_is_told() -> None:
    text = pages.page(pages.HTTP)
    assert not BARE - {*pages.codes(pages.section(text, "Paths"))}
    again = pages.section(text, "What is tried again").partition("Repeatable are")[2]
    repeatable = {code for code in pages.codes(again) if code.startswith("/v")}
    assert repeatable - {"/v1"} == INFERENCE - BARE
    made = {
        node.value.decode()
        for source in within("trioroute/proxy/")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, bytes)
        and re.fullmatch(rb"x-trioroute-[a-z]+", node.value)
    }
    (headers,) = pages.tables(pages.section(text, "Headers"))
    assert {code for code in pages.first_codes(headers) if "trioroute" in code} == made


def test_every_outcome_says_how_it_comes_about() -> None:
    (rows,) = pages.tables(pages.section(pages.page(pages.HTTP), "How a request ends"))
    assert {*pages.first_codes(rows)} == {*get_args(words.Outcome)}
    assert {code for row in rows for code in pages.codes(row[2])} <= {*get_args(words.Cause)}
    blamed = {code for row in rows for code in pages.codes(row[3])} - {"timeouts.total"}
    assert blamed <= {*get_args(words.Blame)}


def options_of(name: str) -> set[str]:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    if isinstance(command, click.Group):
        return set().union(
            *(options_in(command, inner) for inner in [*command.commands, *LOG_COMMANDS])
        )
    return options_in(main, name)


def options_in(group: click.Group, name: str) -> set[str]:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    return {
        option
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in (*parameter.opts, *parameter.secondary_opts)
    }


def test_every_command_and_option_is_told_and_no_other() -> None:
    (rows,) = [
        rows for rows in pages.tables(pages.section(pages.page(pages.README), "Commands")) if rows
    ]
    told = {row[0].strip("`").split()[1]: {*pages.codes(row[2])} for row in rows}
    assert told.keys() == COMMANDS.keys()
    replay = pages.page(pages.REPLAY)
    rows = [*pages.tables(replay)[0], *pages.tables(pages.section(replay, "Options"))[0]]
    told["replay"] = {code.split()[0] for code in pages.first_codes(rows)}
    told["log"] = options_of("log")  # told on a page of its own, below
    for name, options in told.items():
        assert options == options_of(name), name


def test_every_command_of_the_log_and_its_options_are_told_and_no_other() -> None:
    (rows,) = pages.tables(pages.section(pages.page(pages.LOG), "Commands"))
    told = {row[0].strip("`").split()[2]: {*pages.codes(row[2])} for row in rows}
    assert told == {name: options_in(log_group, name) for name in LOG_COMMANDS}


@pytest.mark.parametrize("where", pages.ALL)
def test_an_option_that_a_page_names_is_one_of_some_command(where: str) -> None:
    known = {"--help", "--version"}.union(*(options_of(name) for name in COMMANDS))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", pages.page(where)))
    assert not named - known


@pytest.mark.parametrize("where", pages.ALL)
def test_links_and_named_files_are_there(where: str) -> None:
    text = pages.page(where)
    folder = (ROOT / where).parent
    gone = [link for link in pages.links(text) if not (folder / link).exists()]
    folders = r"tools|tests|\.ci|trioroute|eventlog"
    named = re.findall(rf"(?<![\w/.])(?:\./)?((?:{folders})/\w+(?:/\w+)*(?:\.[a-z]+)?)\b", text)
    fail_with(f"{where}: {name}" for name in (*gone, *named) if not (ROOT / name).exists())


def rules_told() -> Iterator[str]:
    text = pages.page(pages.RULES)
    yield from re.findall(r"^## (\d)\. ", text, re.MULTILINE)
    steps = pages.section(text, "4. Choosing: five steps")
    yield from (f"4.{step}" for step in re.findall(r"^(\d)\. \*\*", steps, re.MULTILINE))
    yield from re.findall(r"^(\d\.\d+) ", text, re.MULTILINE)


def test_every_rule_that_code_and_tests_cite_is_on_the_page() -> None:
    told = set(rules_told())
    cited = {
        number
        for source in within("trioroute/", "tests/")
        for number in re.findall(r"RULES (\d(?:\.\d+)?)", source.text)
    }
    tested = {
        found[1].replace("_", ".")
        for source in within("tests/")
        for found in re.finditer(r"def test_rule_(\d(?:_\d+)?)_[a-z]", source.text)
    }
    assert cited
    assert tested
    assert not (cited | tested) - told


def test_the_examples_in_python_compile() -> None:
    for where in (pages.README, pages.EVENTLOG):
        examples = pages.blocks(pages.page(where), "python")
        assert examples, where
        for example in examples:
            compile(example, where, "exec")


async def test_the_example_of_the_event_log_does_what_it_says(tmp_path: Path) -> None:
    (example,) = pages.blocks(pages.page(pages.EVENTLOG), "python")
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example, pages.EVENTLOG, "exec"), names)
    with trio.fail_after(20):
        assert await names["main"](tmp_path / "log") == [0, 1, 2]


def test_pages_in_packages_are_shipped_with_them() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    data = project["tool"]["setuptools"]["package-data"]
    shipped = {
        path.relative_to(ROOT).as_posix()
        for package, patterns in data.items()
        for pattern in patterns
        for path in (ROOT / package).glob(pattern)
    }
    assert {*pages.shipped()} <= shipped


def test_what_the_parsing_of_pages_finds() -> None:
    text = "# a\n\n| x |\n|---|\n| `b\\|c` `d` |\n\n## e\n[f](g.md#h) `i`\n```sql\n`j`\n```\n"
    assert pages.tables(text) == [[("`b|c` `d`",)]]
    assert pages.first_codes(pages.tables(text)[0]) == ["b|c", "d"]
    assert pages.links(text) == ["g.md"]
    assert pages.codes(pages.section(text, "e")) == ["i"]
    assert pages.blocks(text, "sql") == ["`j`\n"]
