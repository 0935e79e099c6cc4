"""Dotted changes to settings that are in force, as ``replay --what-if`` makes them."""

import attrs
import pytest

from trioroute.events.sections import InForce, Scrape, Server
from trioroute.settings import SettingsError, with_changes


def test_a_change_touches_its_own_field_only() -> None:
    before = InForce(scrape=Scrape(interval_ms=1234))
    after = with_changes(before, {"policy.slack.session": "4", "scrape.timeout": "1s"})
    assert after.policy.slack.session == 4
    assert after.scrape == Scrape(interval_ms=1234, timeout_ms=1000)
    assert attrs.evolve(after, policy=before.policy, scrape=before.scrape) == before


def test_no_change_is_the_same_settings() -> None:
    before = InForce(scrape=Scrape(interval_ms=1234))
    assert with_changes(before, {}) == before


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("policy.slack.sesion", "4", "the nearest is policy.slack.session"),
        ("policy.slak", "3", "the nearest is policy.slack."),
        ("policy.slack", "3", "its keys are policy.slack.session and policy.slack.prefix"),
        ("policy.slack.session", "four", "is not a whole number"),
        ("policy.slack.session", True, "is not a whole number"),
        ("policy.name", "magic", "is not one of the choices"),
        ("replicas", "http://a", "is not a known key"),
        ("replica.url", "http://a", "is not a known key"),
        ("eject.cooldown", "10m", "is longer than eject.cooldown_max"),
    ],
)
def test_a_wrong_change_is_refused_as_in_a_file(key: str, value: object, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        with_changes(InForce(), {key: value})
    (found,) = caught.value.problems
    assert found.place == "--what-if"
    assert found.key == key
    assert message in str(found)


def test_every_wrong_change_is_told() -> None:
    with pytest.raises(SettingsError) as caught:
        with_changes(InForce(), {"a": "1", "pins.max": "0"})
    assert len(caught.value.problems) == 2


def test_a_log_of_another_machine_can_be_changed_without_its_files() -> None:
    before = InForce(server=Server(tls_cert="/nowhere/cert.pem", tls_key="/nowhere/key.pem"))
    assert with_changes(before, {"pins.max": "7"}).pins.max == 7
