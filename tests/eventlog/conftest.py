"""Both ways in which a journal commits."""

import pytest


@pytest.fixture(params=[True, False], ids=["thread", "inline"])
def threaded(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
