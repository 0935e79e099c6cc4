"""Trouble on purpose, from the option to what the router makes of it."""

import pytest

from tests.simulate.scenes import at_once, played, request, steady
from trioroute import events as e
from trioroute.simulate.faults import BadFault, Fault, parse_fault
from trioroute.simulate.script import Script, Turn


@pytest.mark.parametrize(
    "text, fault",
    [
        ("replica=1,down=60..120", Fault(1, "down", ((60_000, 120_000),))),
        ("replica=2,freeze=0.5..2", Fault(2, "freeze", ((500, 2000),))),
        ("replica=2,drain=1..2", Fault(2, "drain", ((1000, 2000),))),
        ("replica=3,slow=2.5@10..20", Fault(3, "slow", ((10_000, 20_000),), 2500)),
        ("replica=3,slow=3", Fault(3, "slow", ((0, 1 << 50),), 3000)),
        ("replica=4,flap=10/5..40", Fault(4, "down", ((10_000, 15_000), (25_000, 30_000)))),
        ("replica=4,flap=10/10..15", Fault(4, "down", ((10_000, 15_000),))),
    ],
)
def test_a_fault_is_what_it_says(text: str, fault: Fault) -> None:
    assert parse_fault(text, 4) == (fault,)


def test_one_option_may_hold_several() -> None:
    first, second = parse_fault("replica=1,down=1..2,slow=3@5..6", 4)
    assert (first.kind, second.kind) == ("down", "slow")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "replica=1",
        "down=1..2",
        "replica=0,down=1..2",
        "replica=5,down=1..2",
        "replica=1,down=1",
        "replica=1,down=2..1",
        "replica=1,slow=0",
        "replica=1,flap=0/10..20",
        "replica=1,flap=10/0..20",
        "replica=x,down=1..2",
    ],
)
def test_what_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(BadFault, match="fault"):
        parse_fault(text, 4)


def test_a_slow_replica_is_slow_for_its_time_only() -> None:
    def took_ms(*faults: str) -> list[int]:
        scripts = [Script(at_ms, (Turn(request(f"q{at_ms}")),)) for at_ms in (1000, 30_000)]
        every = [f"replica={number},slow=3@0..20" for number in range(1, 5)] if faults else []
        made = played(scripts, *every)
        return [released.duration_ms for _, released in made.of(e.Released)]

    (slow, after), (_, normal) = took_ms("slow"), took_ms()
    assert after == normal
    assert slow == pytest.approx(3 * normal, rel=0.02)


def test_streams_on_a_frozen_replica_end_at_the_idle_limit() -> None:
    made = played(
        at_once(4, output=2000), "replica=1,freeze=2..500", rules={"timeouts.idle": "20s"}
    )
    assert made.outcomes() == {"idle_timeout": 1, "ok": 3}
    (ended,) = [at for at, one in made.of(e.Released) if one.outcome == "idle_timeout"]
    assert ended == 22_000


def test_a_stream_that_thaws_in_time_goes_on() -> None:
    made = played(at_once(4, output=2000), "replica=1,freeze=2..10")
    assert made.outcomes() == {"ok": 4}
    times = sorted(released.duration_ms for _, released in made.of(e.Released))
    assert times[-1] - times[0] == pytest.approx(8000, abs=100)


def test_a_request_without_a_byte_ends_at_the_first_byte_limit() -> None:
    rules: dict[str, object] = {"timeouts.first_byte": "5s"}
    made = played(at_once(4), "replica=1,freeze=0.5..500", rules=rules)
    assert made.outcomes() == {"first_byte_timeout": 1, "ok": 3}


def test_a_dead_replica_loses_its_cache_and_its_counters() -> None:
    made = played(steady(5, 40), "replica=1,down=10..20")
    engine = made.world.fleet["gpu1"].engine
    total = sum(one.engine.generated_at(1 << 50) for one in made.world.fleet.values())
    assert engine.generated_at(1 << 50) < total / 4
    made.verify()


def test_when_nobody_is_left_every_attempt_is_refused_and_the_client_told() -> None:
    everyone = [f"replica={number},down=0.5..100" for number in range(1, 5)]
    made = played(at_once(5), *everyone)
    assert made.outcomes() == {"upstream_error": 5}
    assert made.world.measures.errors == 5
    reasons = {event.reason for _, event in made.of(e.Dispatched)}
    assert reasons == {"load", "fallback"}
