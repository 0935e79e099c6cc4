"""The page of an incident in a browser: light and dark, wide and narrow."""

import os
import re
from collections.abc import Iterator

import pytest

from tests.browser.chromium import CHROMIUM, Page, browser
from tests.replay.logs import played, source_of
from trioroute.replay.incident import tell_incident
from trioroute.replay.incident.page import page_of

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"),
    reason="chromium is not installed (Debian and Ubuntu: apt install chromium)",
)

FAULTS = "replica=3,down=60..90,replica=1,drain=150..300"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    directory = tmp_path_factory.mktemp("incident")
    source = source_of(played(1000, faults=FAULTS)[0])
    file = directory / "incident.html"
    file.write_text(page_of(tell_incident(source, 1, source.last().at_ms)))
    with browser(directory) as page:
        page.fresh()
        page.open(file.as_uri())
        yield page


def luminance(colour: str) -> float:
    """Of ``rgb(r, g, b)``, as WCAG counts it."""
    parts = [int(one) / 255 for one in re.findall(r"\d+", colour)[:3]]
    made = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * made[0] + 0.7152 * made[1] + 0.0722 * made[2]


def contrast(one: str, other: str) -> float:
    less, more = sorted((luminance(one), luminance(other)))
    return (more + 0.05) / (less + 0.05)


def style(tab: Page, of: str, name: str) -> str:
    found = tab.look(f"getComputedStyle(document.querySelector({of!r})).{name}")
    return str(found)


@pytest.mark.parametrize("dark", [False, True])
def test_everything_can_be_read_in_light_and_dark(tab: Page, dark: bool) -> None:
    tab.size(1100, dark=dark)
    back = style(tab, "body", "backgroundColor")
    assert (luminance(back) < 0.2) is dark
    assert contrast(style(tab, "body", "color"), back) >= 7
    assert contrast(style(tab, "svg text", "fill"), back) >= 4.5
    within = style(tab, "svg text.in", "fill")
    fills = tab.look("[...new Set([...document.querySelectorAll('svg rect')].map(r =>"
                     " getComputedStyle(r).fill))]")  # fmt: skip
    for fill in fills:
        assert contrast(fill, back) >= 1.1  # never the ground itself
    lanes = tab.look("[...document.querySelectorAll('svg')[0].querySelectorAll('rect')].map(r =>"
                     " getComputedStyle(r).fill)")  # fmt: skip
    assert min(contrast(within, fill) for fill in lanes) >= 4.5


def test_lanes_come_in_the_configurations_order_with_their_states(tab: Page) -> None:
    tab.size(1100)
    texts = tab.look("[...document.querySelectorAll('svg')[0].querySelectorAll('text')].map(t =>"
                     " t.textContent)")  # fmt: skip
    names = [text for text in texts if re.fullmatch(r"gpu\d", text)]
    assert names == ["gpu1", "gpu2", "gpu3", "gpu4"]
    assert {"normal", "LIVE", "DRAINING"} <= {*texts}
    keys = tab.look("[...document.querySelectorAll('.key')].map(k => k.textContent)")
    assert {"EJECTED", "DRAINING", "reduced capacity"} <= {*keys}
    assert "overload" not in keys  # no colour is explained that is not there


@pytest.mark.parametrize("width", [400, 1100])
def test_the_page_itself_never_scrolls_sideways(tab: Page, width: int) -> None:
    tab.size(width)
    assert tab.look("document.documentElement.scrollWidth <= innerWidth")
    assert tab.problems == []
