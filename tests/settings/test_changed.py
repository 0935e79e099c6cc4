"""What a change of the settings is called."""

import attrs

from trioroute import events as e
from trioroute.events.sections import InForce
from trioroute.settings import DnsDiscovery, ReplicaSetting, load, with_changes
from trioroute.settings.changed import changed_keys, reload_words

EVERY_TIMEOUT = {
    f"timeouts.{name}": "7s" for name in ("connect", "first_byte", "idle", "total", "client_stall")
}


def test_each_key_is_told_with_what_it_was_and_is() -> None:
    after = with_changes(InForce(), {"eject.cooldown": "1m", "pins.session_headers": []})
    headers, cooldown = sorted(changed_keys(InForce(), after), reverse=True)
    assert cooldown == "eject.cooldown 30s -> 1m"
    assert headers.startswith('pins.session_headers ["x-session-id", ')
    assert len(headers) < 120, "long values are cut"
    assert changed_keys(after, after) == []


def test_of_many_keys_the_first_are_told_and_the_others_counted() -> None:
    after = with_changes(InForce(), {**EVERY_TIMEOUT, "eject.cooldown": "1m"})
    told = changed_keys(InForce(), after)
    assert len(told) == 5
    assert told[0] == "timeouts.connect 3s -> 7s"
    assert told[-1].endswith(" -> 7s and 1 more")


def joined(name: str) -> e.ReplicaJoined:
    return e.ReplicaJoined(replica=name, url=f"http://{name}:2", models=(), engine="vllm")


def test_a_reload_tells_what_no_event_of_settings_holds_too() -> None:
    old = [ReplicaSetting(name, f"http://{name}:1") for name in ("gpu1", "gpu2")]
    new = [attrs.evolve(old[0], api_key_env="OTHER_KEY"), ReplicaSetting("gpu3", "http://gpu3:1")]
    before = load(None, environ={}, overrides={"replicas": old})
    discovered = (DnsDiscovery("gpu.example", 8000),)
    after = attrs.evolve(before, replicas=tuple(new), discovery=discovered)
    events: list[e.Event] = [
        e.ReplicaLeft(replica="gpu2"),
        joined("gpu1"),
        joined("gpu3"),
    ]
    assert reload_words(before, after, events) == (
        "discovery",
        "replica.api_key_env of gpu1",
        "replica gpu2 left",
        "replica gpu1 changed",
        "replica gpu3 joined",
    )
    many: list[e.Event] = [joined(f"r{n}") for n in range(30)]
    assert reload_words(before, before, many)[-2:] == ("replica r19 joined", "and 10 more")
