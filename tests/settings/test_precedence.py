"""Command line over environment over file over default."""

from pathlib import Path

import pytest

from tests.settings.writing import NOTHING, loaded, problem, problems
from trioroute.settings import KNOWN_KEYS, ReplicaSetting, SettingsError, load

FILE = "[scrape]\ninterval = 1\ntimeout = 1\nstale_after = 7\n"


def test_each_source_yields_to_the_stronger_one(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        FILE,
        environ={"TRIOROUTE_SCRAPE_INTERVAL": "2s", "TRIOROUTE_SCRAPE_TIMEOUT": "1500ms"},
        overrides={"scrape.interval": "4s"},
    ).in_force.scrape
    assert (found.interval_ms, found.timeout_ms, found.stale_after) == (4000, 1500, 7)


def test_overrides_that_were_not_given_change_nothing(tmp_path: Path) -> None:
    found = loaded(tmp_path, FILE, overrides={"scrape.interval": None, "replicas": ()})
    assert found.in_force.scrape.interval_ms == 1000


def test_overrides_may_be_values_or_their_text() -> None:
    found = load(
        None, environ=NOTHING, overrides={"pins.max": 5, "pins.prefix_chars": "6"}
    ).in_force.pins
    assert (found.max, found.prefix_chars) == (5, 6)


@pytest.mark.parametrize(
    "variable, text, field, value",
    [
        ("TRIOROUTE_SERVER_LISTEN", "0.0.0.0:80", "server.listen", "0.0.0.0:80"),
        ("TRIOROUTE_SERVER_REVEAL", "false", "server.reveal", False),
        ("TRIOROUTE_SERVER_REVEAL", "ON", "server.reveal", True),
        ("TRIOROUTE_SERVER_TLS_CERT", "", "server.tls_cert", ""),
        ("TRIOROUTE_POLICY_SLACK_SESSION", "2", "policy.slack.session", 2),
        ("TRIOROUTE_PINS_SESSION_HEADERS", "x-a, X-B,", "pins.session_headers", ("x-a", "x-b")),
        ("TRIOROUTE_PINS_SESSION_FIELDS", "", "pins.session_fields", ()),
        ("TRIOROUTE_RETRIES_BUDGET", "0.5", "retries.budget_m", 500),
        ("TRIOROUTE_LOG_BUFFER_BYTES", "1MiB", "log.buffer_bytes", 1 << 20),
        ("TRIOROUTE_TIMEOUTS_TOTAL", "90", "timeouts.total_ms", 90_000),
    ],
)
def test_a_variable_sets_its_key(variable: str, text: str, field: str, value: object) -> None:
    found: object = load(None, environ={variable: text}).in_force
    for name in field.split("."):
        found = getattr(found, name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "key", [key for key, info in KNOWN_KEYS.items() if info.field and info.kind.name != "HOST:PORT"]
)
def test_the_default_written_into_the_variable_changes_nothing(key: str) -> None:
    info = KNOWN_KEYS[key]
    text = info.default.strip('"[]').replace('"', "")
    assert load(None, environ={info.variable: text}) == load(None, environ={})


@pytest.mark.parametrize(
    "variable, text", [("TRIOROUTE_PINS_MAX", "many"), ("TRIOROUTE_SERVER_REVEAL", "maybe")]
)
def test_a_wrong_variable_is_the_place_of_the_problem(variable: str, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(None, environ={variable: text})
    (found,) = caught.value.problems
    assert found.place == variable
    assert found.value == f'"{text}"'


def test_a_wrong_override_is_told_at_the_command_line(tmp_path: Path) -> None:
    found = problem(tmp_path, "", overrides={"server.listen": "8080"})
    assert (found.place, found.key) == ("command line", "server.listen")


@pytest.mark.parametrize("key", ["server.listn", "replica.url", "replica"])
def test_an_unknown_override_is_refused(tmp_path: Path, key: str) -> None:
    assert problem(tmp_path, "", overrides={key: "x"}).message == "is not a known key"


def test_a_wrong_value_is_told_even_where_a_stronger_source_replaces_it(tmp_path: Path) -> None:
    found = problem(
        tmp_path, "[scrape]\ninterval = true", environ={"TRIOROUTE_SCRAPE_INTERVAL": "1s"}
    )
    assert found.place.endswith("trioroute.toml")


@pytest.mark.parametrize(
    "variable, near",
    [
        ("TRIOROUTE_SCRAPE_INTERVALL", "TRIOROUTE_SCRAPE_INTERVAL"),
        ("TRIOROUTE_SERVER_LISTN", "TRIOROUTE_SERVER_LISTEN"),
        ("TRIOROUTE_REPLICA", "TRIOROUTE_REPLICAS"),
        ("TRIOROUTE_PINS_MAXIMUM", "TRIOROUTE_PINS_"),
    ],
)
def test_an_unknown_variable_names_the_nearest_without_its_value(variable: str, near: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(None, environ={variable: "hunter2", "PATH": "/bin"})
    (found,) = caught.value.problems
    assert found.place == variable
    assert found.message == "is not a known variable"
    assert found.remedy.startswith(f"the nearest is {near}")
    assert "hunter2" not in str(found)


@pytest.mark.parametrize(
    "variable, told",
    [
        ("TRIOROUTE_X", "is not a known variable; no key is near to it: unset it"),
        ("TRIOROUTE_POLICY_SLACK", "is the section policy.slack, not a key; its keys are policy."),
    ],
)
def test_a_variable_that_nothing_is_near_to_is_not_told_any_key(variable: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(None, environ={variable: "hunter2"})
    assert told in str(caught.value)


def test_a_variable_names_the_file_unless_the_command_line_does(tmp_path: Path) -> None:
    named, other = tmp_path / "named.toml", tmp_path / "other.toml"
    named.write_text("[scrape]\nstale_after = 5\n", encoding="utf-8")
    other.write_text("[scrape]\nstale_after = 6\n", encoding="utf-8")
    environ = {"TRIOROUTE_CONFIG": str(named)}
    assert load(None, environ=environ).in_force.scrape.stale_after == 5
    assert load(None, environ=environ).source == str(named)
    assert load(other, environ=environ).in_force.scrape.stale_after == 6
    assert load(None, environ={"TRIOROUTE_CONFIG": ""}).source is None


def test_the_addresses_kubernetes_injects_for_a_service_of_this_name_are_no_settings() -> None:
    environ = {
        "TRIOROUTE_SERVICE_HOST": "10.0.0.1",
        "TRIOROUTE_SERVICE_PORT": "8080",
        "TRIOROUTE_SERVICE_PORT_HTTP": "8080",
        "TRIOROUTE_PORT": "tcp://10.0.0.1:8080",
        "TRIOROUTE_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "TRIOROUTE_PORT_8080_TCP_ADDR": "10.0.0.1",
        "TRIOROUTE_ADMIN_SERVICE_HOST": "10.0.0.2",
        "TRIOROUTE_ADMIN_PORT": "tcp://10.0.0.2:9090",
    }
    assert load(None, environ=environ) == load(None, environ={})


def test_a_port_that_a_person_wrote_is_not_taken_for_kubernetes() -> None:
    with pytest.raises(SettingsError, match="TRIOROUTE_PORT: is not a known variable"):
        load(None, environ={"TRIOROUTE_PORT": "8080"})


REPLICA_FILE = '[[replica]]\nname = "file"\nurl = "http://file:1"\n'


def test_replicas_of_a_stronger_source_replace_the_weaker(tmp_path: Path) -> None:
    environ = {"TRIOROUTE_REPLICAS": "gpu1=http://a:1, http://b:2"}
    by_variable = loaded(tmp_path, REPLICA_FILE, environ=environ).replicas
    assert [one.name for one in by_variable] == ["gpu1", "b:2"]
    listed = ("x=http://c:3", ReplicaSetting(name="y", url="http://d:4"))
    by_option = loaded(
        tmp_path, REPLICA_FILE, environ=environ, overrides={"replicas": listed}
    ).replicas
    assert [one.name for one in by_option] == ["x", "y"]
    assert [one.name for one in loaded(tmp_path, REPLICA_FILE).replicas] == ["file"]


def test_every_wrong_replica_of_a_list_is_told(tmp_path: Path) -> None:
    found = problems(tmp_path, "", overrides={"replicas": ["gpu1", "a=b=http://x", 3]})
    assert [one.key for one in found] == ["replicas"] * 3
    assert found[0].value == '"gpu1"'


def test_the_same_replica_twice_on_the_command_line_is_refused(tmp_path: Path) -> None:
    found = problem(tmp_path, "", overrides={"replicas": ["http://a:1", "http://a:1/"]})
    assert (found.place, found.message) == ("command line", "is used twice")
