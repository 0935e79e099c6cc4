"""A fleet and a browser tab for the tests of the dashboard."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import Page, browser
from tests.e2e.fleet import Fleet, fleet_in


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with fleet_in(tmp_path) as started:
        started.engine()
        started.engine()
        yield started


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture
def page(chromium: Page) -> Page:
    chromium.fresh()
    chromium.size(1280)
    return chromium
