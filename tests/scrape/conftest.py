"""A world of its own for every test of rounds."""

import pytest

from tests.scrape.world import World


@pytest.fixture
def world() -> World:
    return World()
