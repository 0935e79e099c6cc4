"""What the tests of the field reports share."""

from functools import partial
from pathlib import Path

import pytest

from tests.field.site import OpenSite, site


@pytest.fixture
def open_site(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> OpenSite:
    """Runs a router over stubs; leaving it makes the standing checks of ``site.Site``."""
    return partial(site, tmp_path, caplog)
