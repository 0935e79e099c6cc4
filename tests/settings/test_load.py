"""What a file may say, and how everything wrong with it is told at once."""

from pathlib import Path

import pytest

from tests.settings.writing import NOTHING, loaded, problem, problems
from trioroute.events.sections import InForce
from trioroute.settings import Problem, SettingsError, load


def test_no_file_at_all_gives_the_defaults() -> None:
    settings = load(None, environ={})
    assert settings.in_force == InForce()
    assert settings.replicas == ()
    assert settings.source is None


def test_an_empty_file_gives_the_defaults_and_names_itself(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "")
    assert settings.in_force == InForce()
    assert settings.source == str(tmp_path / "trioroute.toml")


def test_values_reach_their_fields_in_their_units(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        """
        [server]
        listen = "[::1]:0"
        max_body_bytes = "1KiB"
        reveal = false
        [retries]
        budget = 0.25
        [policy]
        slack = { session = 2 }
        [wlc]
        bytes_per_token = 3.5
        [pins]
        session_headers = ["X-My-Session"]
        project_header = ""
        [scrape]
        interval = 0.5
        """,
    ).in_force
    assert found.server.listen == "[::1]:0"
    assert found.server.max_body_bytes == 1024
    assert found.server.reveal is False
    assert found.retries.budget_m == 250
    assert (found.policy.slack.session, found.policy.slack.prefix) == (2, 0)
    assert found.wlc.bytes_per_token_m == 3500
    assert found.pins.session_headers == ("x-my-session",)
    assert found.pins.project_header == ""
    assert found.scrape.interval_ms == 500
    assert found.scrape.timeout_ms == 2000


@pytest.mark.parametrize(
    "line, key, message",
    [
        ('[scrape]\ninterval = "3 parsecs"', "scrape.interval", "is not a duration"),
        ("[scrape]\ninterval = 0", "scrape.interval", "is out of range"),
        ("[scrape]\nstale_after = 0", "scrape.stale_after", "is out of range"),
        ("[scrape]\nstale_after = true", "scrape.stale_after", "is not a whole number"),
        ("[scrape]\nstale_after = 3.0", "scrape.stale_after", "is not a whole number"),
        ('[scrape]\nstale_after = "3"', "scrape.stale_after", "is not a whole number"),
        ("[server]\nreveal = 1", "server.reveal", "is neither true nor false"),
        ('[server]\nreveal = "true"', "server.reveal", "is neither true nor false"),
        ("[server]\nmax_body_bytes = -1", "server.max_body_bytes", "is out of range"),
        ('[server]\nname = "R1"', "server.name", "does not have the right form"),
        (f'[server]\nname = "{"r" * 33}"', "server.name", "does not have the right form"),
        ("[server]\nname = 1", "server.name", "is not a text"),
        ('[server]\nlisten = "8080"', "server.listen", "has no host or no port"),
        ("[server]\ntls_cert = 1", "server.tls_cert", "is not a text"),
        ("[retries]\nbudget = 1.5", "retries.budget", "is out of range"),
        ('[log]\npath = ""', "log.path", "is empty"),
        ('[log]\npath = "a\\nb"', "log.path", "is not one line of text"),
        ('[log]\nsync = "none"', "log.sync", "is not one of the choices"),
        ("[log]\nsync = true", "log.sync", "is not a text"),
        ("[pins]\nmax = 0", "pins.max", "is out of range"),
        ("[pins]\nsession_headers = 'x'", "pins.session_headers", "is not a list"),
        ("[pins]\nsession_headers = ['a b']", "pins.session_headers", 'holds "a b", which does'),
        ("[pins]\nsession_headers = ['X', 'x']", "pins.session_headers", 'names "x" twice'),
        ("[pins]\nsession_headers = [1]", "pins.session_headers", "holds 1, which is not a text"),
        ("[pins]\nsession_fields = ['a..b']", "pins.session_fields", 'holds "a..b"'),
        ("[eject]\ncooldown = inf", "eject.cooldown", "is not a duration"),
        ("[timeouts]\nconnect = 2020-01-01", "timeouts.connect", "is not a duration"),
    ],
)
def test_a_wrong_value_is_told_with_file_key_value_and_remedy(
    tmp_path: Path, line: str, key: str, message: str
) -> None:
    found = problem(tmp_path, line)
    assert found.place == str(tmp_path / "trioroute.toml")
    assert found.key == key
    assert found.message.startswith(message)
    assert found.value
    assert found.remedy
    told = str(found)
    assert "\n" not in told
    assert all(part in told for part in (found.place, found.key, found.value, found.remedy))


def test_zero_switches_a_limit_off(tmp_path: Path) -> None:
    found = loaded(tmp_path, "[timeouts]\nidle = 0\nfirst_byte = '0s'\n").in_force.timeouts
    assert (found.idle_ms, found.first_byte_ms) == (0, 0)


@pytest.mark.parametrize(
    "line, key, near",
    [
        ("[scrape]\nintervall = 1", "scrape.intervall", "scrape.interval"),
        ("interval = 1", "interval", "scrape.interval"),
        ("[policy.slack]\nsesion = 1", "policy.slack.sesion", "policy.slack.session"),
        ('"scrape.interval" = 1', '"scrape.interval"', "scrape.interval"),
        ("[discovery.consul]\nurl = 1", "discovery.consul", "[discovery."),
        ('[[replica]]\nurl = "http://a"\nmodel = "m"', "replica[0].model", "replica.models"),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(
    tmp_path: Path, line: str, key: str, near: str
) -> None:
    found = problem(tmp_path, line)
    assert found.key == key
    assert found.message.startswith("is not a known")
    assert found.remedy.startswith(f"the nearest is {near}")
    assert found.value == ""


def test_a_misspelt_section_of_the_file_names_the_nearest_section(tmp_path: Path) -> None:
    found = problem(tmp_path, "[scrap]\ninterval = 1")
    assert (found.key, found.message) == ("scrap", "is not a known section")
    assert found.remedy == "the nearest is [scrape]"


@pytest.mark.parametrize(
    "line, key", [("scrape = 3", "scrape"), ("policy.slack = 3", "policy.slack")]
)
def test_a_section_that_is_a_value_is_refused(tmp_path: Path, line: str, key: str) -> None:
    found = problem(tmp_path, line)
    assert (found.key, found.message) == (key, "is a section, not a key")
    assert found.remedy.startswith(f"write [{key}]: its keys are {key}.")


def test_everything_wrong_is_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """
        [eject]
        cooldown = "10m"
        [[replica]]
        url = "gpu1"
        [scrape]
        interval = true
        nonsense = 1
        [server]
        tls_cert = "/nowhere/cert.pem"
        """,
    )
    assert [one.key for one in found] == [
        "eject.cooldown",
        "replica[0].url",
        "scrape.interval",
        "scrape.nonsense",
        "server.tls_cert",
    ]


def test_the_error_holds_every_problem_as_a_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        loaded(tmp_path, "a = 1\nb = 2\n")
    assert str(caught.value).splitlines() == [str(one) for one in caught.value.problems]
    assert len(caught.value.problems) == 2


def refused(path: Path) -> Problem:
    with pytest.raises(SettingsError) as caught:
        load(path, environ=NOTHING)
    (found,) = caught.value.problems
    assert found.place == str(path)
    assert found.key == ""
    assert found.remedy
    return found


def test_a_missing_file_is_one_problem(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "nowhere.toml").message


def test_a_directory_is_one_problem(tmp_path: Path) -> None:
    assert "cannot be read" in refused(tmp_path).message


@pytest.mark.parametrize(
    "raw, message",
    [
        (b"a = 1\nb = = 2\n", "is not TOML: Invalid value (at line 2"),
        (b"a = 1\na = 2\n", "is not TOML: Cannot overwrite a value (at line 2"),
        (b"a = 1\nb = '\xff'\n", "is not UTF-8 (line 2)"),
        (b"a = " + b"[" * 100_000, "is not TOML"),
        (b"a = " + b"9" * 10_000, "is not TOML"),
        (b"#" * ((1 << 20) + 1), "is larger than 1 MiB"),
    ],
)
def test_a_file_that_cannot_be_understood_is_one_problem(
    tmp_path: Path, raw: bytes, message: str
) -> None:
    path = tmp_path / "trioroute.toml"
    path.write_bytes(raw)
    assert refused(path).message.startswith(message)


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "trioroute.toml"
    path.write_bytes(b"\xef\xbb\xbf[scrape]\r\ninterval = 1\r\n")
    assert load(path, environ=NOTHING).in_force.scrape.interval_ms == 1000


def test_a_number_too_long_to_print_is_told_and_not_printed(tmp_path: Path) -> None:
    found = problem(tmp_path, f"[pins]\nmax = 0x{'f' * 20_000}")
    assert found.value == "a number of more than 128 bits"
