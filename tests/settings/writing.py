"""A configuration file as text, loaded, with its problems as lines."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from trioroute.settings import Problem, Settings, SettingsError, load
from trioroute.settings.load import NO_OVERRIDES

NOTHING: Mapping[str, str] = {}


def loaded(
    directory: Path,
    toml: str,
    *,
    environ: Mapping[str, str] = NOTHING,
    overrides: Mapping[str, object] = NO_OVERRIDES,
) -> Settings:
    """The settings of a file that holds ``toml``."""
    path = directory / "trioroute.toml"
    path.write_text(toml, encoding="utf-8")
    return load(path, environ=environ, overrides=overrides)


def problems(
    directory: Path,
    toml: str,
    *,
    environ: Mapping[str, str] = NOTHING,
    overrides: Mapping[str, object] = NO_OVERRIDES,
) -> tuple[Problem, ...]:
    """What ``load`` finds wrong with ``toml``; fails if it finds nothing."""
    with pytest.raises(SettingsError) as caught:
        loaded(directory, toml, environ=environ, overrides=overrides)
    assert caught.value.problems
    return caught.value.problems


def problem(
    directory: Path,
    toml: str,
    *,
    environ: Mapping[str, str] = NOTHING,
    overrides: Mapping[str, object] = NO_OVERRIDES,
) -> Problem:
    """The one thing that is wrong with ``toml``."""
    found = problems(directory, toml, environ=environ, overrides=overrides)
    assert len(found) == 1, [str(one) for one in found]
    return found[0]
