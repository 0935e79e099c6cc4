"""The router as one task: what its end leaves to be seen."""

from pathlib import Path

import pytest

from tests.field.site import site
from tests.field.stub import Stub
from tests.proxy.scripted import OK, always


class Trouble(Exception):
    """Of whoever runs the router."""


async def test_cancelled_from_outside_it_does_not_bury_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log takes no more then, and its refusal is one line, not the exception that is told."""
    with pytest.RaisesGroup(Trouble, flatten_subgroups=True):
        async with site(tmp_path, caplog, Stub(always(OK))) as made:
            assert (await made.ask()).status == 200
            raise Trouble
    assert "the end of this run is not logged" in caplog.text
