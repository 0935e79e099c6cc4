"""What is refused, with the reason, and never quietly ignored."""

from pathlib import Path

import pytest

from tests.settings.writing import loaded, problem
from trioroute.events.sections import InForce
from trioroute.settings import SettingsError, load


@pytest.mark.parametrize(
    "line",
    [
        '[server]\nadmin_token_env = ""\napi_keys_file = ""\napi_keys = []',
        '[server]\ncors_origins = []\nheartbeat = 0\naccess_log = "off"',
        '[server]\nheartbeat = "0s"',
        "[models.aliases]",
        "[models]",
        "[discovery]",
    ],
)
def test_a_setting_at_its_default_changes_nothing(tmp_path: Path, line: str) -> None:
    assert loaded(tmp_path, line).in_force == InForce()


def test_a_variable_that_looks_like_a_key_is_refused_without_its_value() -> None:
    with pytest.raises(SettingsError) as caught:
        load(None, environ={"TRIOROUTE_DISCOVERY_GPUSTACK_TOKEN": "hunter2"})
    (found,) = caught.value.problems
    assert "TRIOROUTE_DISCOVERY_GPUSTACK_TOKEN_ENV" in found.remedy
    assert "hunter2" not in str(found)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "[::]", "gpu1"])
def test_an_admin_port_others_can_reach_is_refused_for_want_of_a_token(
    tmp_path: Path, host: str
) -> None:
    found = problem(tmp_path, f'[server]\nadmin = "{host}:9090"')
    assert found.key == "server.admin"
    assert "not on loopback" in found.message
    assert "token" in found.message
    assert "admin_token_env" in found.remedy


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_an_admin_port_on_loopback_is_taken(tmp_path: Path, host: str) -> None:
    found = loaded(tmp_path, f'[server]\nadmin = "{host}:0"')
    assert found.in_force.server.admin == f"{host}:0"
