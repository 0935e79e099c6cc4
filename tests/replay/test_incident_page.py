"""An incident as a user gets it: on a screen, as Markdown, as data, as one HTML page."""

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import attrs
import orjson
import pytest

from eventlog.sqlite import SqliteStore
from tests.replay.logs import played, source_of
from tests.replay.rig import store_of
from tests.replay.test_command import run
from tests.small_disk import fill, mounted
from trioroute.replay.incident import Incident, tell_incident
from trioroute.replay.incident.lanes import DOWN
from trioroute.replay.incident.lines import blocks_of
from trioroute.replay.incident.page import page_of
from trioroute.replay.incident.plots import PHASES, REPLICAS_MAX, STATES, plots_of, replicas_of
from trioroute.replay.incident.present import markdown_of
from trioroute.replay.incident.told import TimeStep

NASTY = 'gpu<script>alert(1)</script>"|`&'


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("incident") / "log"
    store = SqliteStore.open(directory, sync="normal")
    store_of(list(played(1500, faults="replica=1,down=60..120")[0]), store)
    store.close()
    return directory


def nasty() -> Incident:
    """A log in which a replica's name is everything a page and a table fear."""
    entries = [
        attrs.evolve(entry, body=entry.body.replace(b'"gpu1"', orjson.dumps(NASTY)))
        for entry in played(1500, faults="replica=1,down=60..120")[0]
    ]
    source = source_of(entries)
    return tell_incident(source, 1, source.last().at_ms)


class Loads(HTMLParser):
    """What a page would fetch or run, and its tags."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in (
            "script",
            "img",
            "link",
            "iframe",
            "object",
            "image",
            "use",
            "a",
            "foreignobject",
        ):
            self.found.append(tag)
        self.found += [name for name, _ in given if name in ("src", "href") or name[:2] == "on"]


def test_the_screen_tells_phases_cause_and_who_was_hit(log: Path) -> None:
    result = run(log, "--incident", "-1h")
    assert result.exit_code == 0, result.output
    text = result.stdout
    for words in (
        "reduced capacity",
        "gpu1 EJECTED for at least 30 s",
        "Who was hit",
        "upstream_cut",
        "spill: a request that went elsewhere than its pin said, by cause (",
        "running: more run there than the slack allows",
        "rebind: a pin that was moved to another replica, by cause (",
        "ejected: the replica was ejected",
    ):
        assert words in text
    assert "\x1b" not in text


def test_data_markdown_and_page_tell_the_same(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "incident.html"
    result = run(log, "--incident", "-1h", "--json", "--html", str(file))
    told = json.loads(result.stdout)
    assert result.stderr == f"wrote {file}\n"
    assert [one["name"] for one in told["phases"]][1] == "reduced capacity"
    markdown = run(log, "--incident", "-1h", "--markdown").stdout
    page = file.read_text()
    for text in (markdown, page):
        assert told["sentence"] in text
        assert told["first_cause"]["place"] in text


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    seen = Loads()
    seen.feed(page_of(nasty()))
    assert seen.found == []
    assert seen.tags.count("svg") == 5
    assert "url(" not in page_of(nasty())


def test_times_stay_on_one_line() -> None:
    """They are the first column of every table that has some."""
    told = nasty()
    for block in blocks_of(told):
        assert not {"time", "from", "phase from"} & set(block.columns[1:])
    assert "td:first-child { white-space: nowrap; }" in page_of(told)


def test_names_from_the_log_are_escaped_everywhere() -> None:
    page = page_of(nasty())
    assert "<script" not in page
    assert "gpu&lt;script&gt;alert(1)" in page
    markdown = markdown_of(nasty())
    assert "<script" not in markdown
    columns = [
        line.replace("\\|", "").count("|") for line in markdown.splitlines() if "EJECTED" in line
    ]
    assert set(columns[:1]) == {5}


def test_a_phase_and_a_state_have_one_colour_only_where_they_mean_the_same() -> None:
    same = {
        frozenset({"normal", "LIVE"}),
        frozenset({"eject", "EJECTED"}),
        frozenset({"recovery", "PROBING"}),
        frozenset({"stalled", "STALLED"}),
        frozenset({"restart", "died", DOWN}),
    }
    named = [*PHASES.items(), *STATES.items()]
    by_fill = {fill: frozenset(name for name, one in named if one == fill) for _, fill in named}
    assert {names for names in by_fill.values() if len(names) > 1} == same


def test_times_can_be_read_along_a_plot() -> None:
    told = attrs.evolve(nasty(), from_ms=1_700_000_000_000, to_ms=1_700_000_300_000)
    for _, svg in plots_of(told):
        labels = re.findall(r'text-anchor="middle">(\d\d:\d\d:\d\d)<', svg)
        assert len(labels) >= 3
        assert svg.count("<line") == len(labels)
        assert all(label.endswith(":00") for label in labels)


def test_plots_are_whole_svg_with_every_replica() -> None:
    told = nasty()
    for title, svg in plots_of(told):
        root = ET.fromstring(svg)
        assert root.tag == "svg", title
    lanes = plots_of(told)[0][1]
    assert all(name in lanes for name in ("gpu2", "gpu3", "gpu4", "EJECTED", "PROBING"))


def test_many_replicas_are_gathered_as_others() -> None:
    told = nasty()
    many = {f"r{number}": 1 for number in range(REPLICAS_MAX + 10)}
    told = attrs.evolve(told, steps=(TimeStep(at_ms=told.from_ms, dispatches=many),))
    assert len(replicas_of(told)) == REPLICAS_MAX
    assert f"others: 10 of {REPLICAS_MAX + 10}" in plots_of(told)[1][1]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--incident", "x"), 2, "write ISO time"),
        (("--incident", "-1m/-5m"), 2, "FROM must be before TO"),
        (("--requests", "around", "13:24"), 2, 'in quotes: --requests "around 13:24"'),
        (("--incident", "1999-01-01/1999-01-02"), 1, "the log holds 2023-11-14"),
        (("--last", "3", "--markdown"), 2, "--markdown needs --incident"),
        (("--html", "x.html"), 2, "--html needs --incident"),
        (("--incident", "-1h", "--json", "--markdown"), 2, "choose one"),
        (("--incident", "-1h", "--html", "/nowhere/at/all.html"), 2, "in a directory that exists"),
    ],
)
def test_wrong_questions_are_told_how(
    log: Path, arguments: tuple[str, ...], code: int, text: str
) -> None:
    result = run(log, *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert text in result.stderr


def test_an_older_page_stays_where_the_disk_is_full(log: Path, tmp_path: Path) -> None:
    with mounted(tmp_path / "small", 1 << 20) as place:
        file = place / "incident.html"
        file.write_text("an older page")
        fill(place)
        result = run(log, "--incident", "-1h", "--html", str(file))
        assert result.exit_code == 2
        assert "free room on its disk" in result.output
        assert file.read_text() == "an older page"
        assert sorted(one.name for one in place.iterdir()) == ["ballast", "incident.html"]


def test_a_page_can_go_into_a_pipe(log: Path) -> None:
    result = run(log, "--incident", "-1h", "--html", "/dev/null")
    assert result.exit_code == 0
    assert not Path("/dev/null").is_file()
