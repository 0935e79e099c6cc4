"""The project's pages, cut into what tests can compare: tables, code words, blocks and links."""

import re
from collections.abc import Iterator
from functools import cache

from tests.house.source import ROOT, files

README = "README.md"
CHANGELOG = "CHANGELOG.md"
CONTRIBUTING = "CONTRIBUTING.md"
RULES = "trioroute/policy/RULES.md"
SETTINGS = "trioroute/settings/SETTINGS.md"
EVENTS = "trioroute/events/EVENTS.md"
METRICS = "trioroute/observe/METRICS.md"
HTTP = "trioroute/proxy/HTTP.md"
REPLAY = "trioroute/replay/REPLAY.md"
EVENTLOG = "eventlog/README.md"
LOG = "trioroute/events/LOG.md"
ENGINE = "trioroute/engine/ENGINE.md"
ENGINES = "trioroute/scrape/ENGINES.md"
DISCOVERY = "trioroute/discovery/DISCOVERY.md"
ALL = (
    README,
    CHANGELOG,
    CONTRIBUTING,
    RULES,
    SETTINGS,
    EVENTS,
    METRICS,
    HTTP,
    REPLAY,
    EVENTLOG,
    LOG,
    DISCOVERY,
    ENGINE,
    ENGINES,
)

Row = tuple[str, ...]
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@cache
def page(where: str) -> str:
    return (ROOT / where).read_text("utf-8")


def shipped() -> Iterator[str]:
    """Every page in the two packages, whoever wrote it."""
    for path in files():
        where = path.relative_to(ROOT).as_posix()
        if path.suffix == ".md" and where.startswith(("trioroute/", "eventlog/")):
            yield where


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next heading of any level."""
    found = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert found is not None, f"there is no heading {heading!r}"
    following = _HEADING.search(text, found.end())
    return text[found.end() : following.start() if following else len(text)]


def section_of_kinds() -> str:
    """The part of the events' page that has one heading a kind."""
    text = page(EVENTS)
    return text[text.index("\n## Kinds\n") : text.index("\n## Closed vocabularies\n")]


def headings(text: str, level: int) -> list[str]:
    return re.findall(rf"^{'#' * level} (.+)$", text, re.MULTILINE)


def tables(text: str) -> list[list[Row]]:
    """The tables of a text, without their heads; a cell is stripped."""
    found: list[list[Row]] = []
    body = False
    for line in text.splitlines():
        if not line.startswith("|"):
            body = False
        elif re.fullmatch(r"\|(-+\|)+", line):
            found.append([])
            body = True
        elif body:
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            found[-1].append(tuple(cell.strip().replace("\\|", "|") for cell in cells))
    return found


def codes(text: str) -> list[str]:
    """What stands between single backticks, in order; nothing of fenced blocks."""
    return _CODE.findall(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def first_codes(rows: list[Row]) -> list[str]:
    """The code words of the first column."""
    return [code for row in rows for code in codes(row[0])]


def blocks(text: str, language: str) -> list[str]:
    """Fenced blocks of a language."""
    pattern = rf"^```{language}\n(.*?)^```"
    return re.findall(pattern, text, re.MULTILINE | re.DOTALL)


def links(text: str) -> list[str]:
    """Targets of links that lead to files, without the part after ``#``."""
    targets = (target.partition("#")[0] for target in _LINK.findall(text))
    return [target for target in targets if target and "://" not in target]
