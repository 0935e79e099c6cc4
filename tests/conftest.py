"""Fixtures of the whole test tree."""

from collections.abc import Iterator

import pytest

from tests.rig import MakeRig, Rig, settings


@pytest.fixture
def make_rig() -> Iterator[MakeRig]:
    """Rigs with settings by section; at the end each one's log must fold to its live state."""
    made: list[Rig] = []

    def make(**sections: dict[str, object]) -> Rig:
        made.append(Rig(settings(**sections)))
        return made[-1]

    yield make
    for rig in made:
        rig.verify()


@pytest.fixture
def rig(make_rig: MakeRig) -> Rig:
    """A rig with the default rules and no replica yet."""
    return make_rig()
