"""What is documented but not built is refused with the reason, never quietly ignored."""

from pathlib import Path

import pytest

from tests.settings.writing import loaded, problem
from trioroute.events.sections import InForce
from trioroute.settings import KNOWN_KEYS, SettingsError, load


@pytest.mark.parametrize(
    "line, key",
    [
        ('[discovery.dns]\nname = "f"', "discovery.dns"),
    ],
)
def test_an_unbuilt_setting_is_refused_with_the_reason(tmp_path: Path, line: str, key: str) -> None:
    found = problem(tmp_path, line)
    assert found.key == key
    reason = found.message.removeprefix("is not built yet: ")
    assert reason != found.message
    assert len(reason) > 10
    assert found.remedy


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
def test_an_unbuilt_setting_that_is_off_changes_nothing(tmp_path: Path, line: str) -> None:
    assert loaded(tmp_path, line).in_force == InForce()


@pytest.mark.parametrize("key", [key for key, info in KNOWN_KEYS.items() if not info.built])
def test_every_unbuilt_key_is_refused_from_the_environment_too(key: str) -> None:
    info = KNOWN_KEYS[key]
    with pytest.raises(SettingsError, match=f"{key}.*is not built yet: "):
        load(None, environ={info.variable: "7"})


def test_a_variable_inside_an_unbuilt_table_is_refused_for_the_table() -> None:
    with pytest.raises(SettingsError) as caught:
        load(None, environ={"TRIOROUTE_DISCOVERY_DNS_TOKEN": "hunter2"})
    (found,) = caught.value.problems
    assert found.key == "discovery.dns"
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
