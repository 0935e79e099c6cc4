"""A replica that fell silent is told from the request that met it, not from the timeout."""

import pytest

from tests.replay.rig import store_of
from tests.replay.test_incident import whole
from tests.replay.test_incident_phases import seconds
from tests.rig import Flown, Rig, settings
from trioroute.replay.incident.told import FirstCause
from trioroute.replay.read import Source


def silent(*, answers: bool) -> tuple[FirstCause | None, int, Flown]:
    """One engine falls silent while it runs nothing; ``answers``: another request had one there."""
    rig = Rig().live("a")
    rig.finish(rig.go())
    rig.pass_s(2)
    sent_ms, flown = rig.at_ms, rig.go()
    for second in range(1, 20):
        rig.pass_s(1).scrape(a=(0, 0))
        if answers and second == 10:
            rig.finish(rig.go())
    rig.pass_s(1)
    rig.finish(flown, "first_byte_timeout", duration_ms=20_000)
    rig.pass_s(1)
    return whole(Source(store_of(rig.log.entries))).first_cause, sent_ms, flown


def test_the_cause_begins_with_the_first_request_that_got_no_byte() -> None:
    cause, sent_ms, flown = silent(answers=False)
    assert cause is not None
    assert (cause.at_ms, cause.place) == (sent_ms, f"r1/{flown.number}")
    assert cause.text.startswith("a was silent from ")
    assert cause.evidence[0].text.endswith(
        "was sent to a: neither it nor any other request got a byte from there until it timed out "
        "20 s later"
    )


def test_an_answer_in_between_says_that_it_was_not_silent() -> None:
    cause, sent_ms, _ = silent(answers=True)
    assert cause is not None
    assert cause.at_ms == sent_ms + 20_000
    assert "silent" not in cause.text


def in_the_middle(*, idle_ms: int = 30_000, answers: bool = False) -> tuple[FirstCause, int, Flown]:
    """An engine freezes 2 s after the first byte of a stream, which is given up for it."""
    rig = Rig(settings(timeouts={"idle_ms": idle_ms})).live("a")
    rig.finish(rig.go())
    flown = rig.pass_s(2).go()
    rig.pass_s(3)
    frozen_ms, lasts = rig.at_ms, idle_ms // 1000
    for second in range(1, lasts):
        rig.pass_s(1).scrape(a=(0, 0))
        if answers and second == 10:
            rig.finish(rig.go())
    rig.pass_s(1)
    rig.finish(flown, "idle_timeout", blame="replica", ttfb_ms=1000, duration_ms=3000 + idle_ms)
    rig.pass_s(1)
    cause = whole(Source(store_of(rig.log.entries))).first_cause
    assert cause is not None
    return cause, frozen_ms, flown


@pytest.mark.parametrize("idle_ms", [20_000, 30_000])
def test_a_stream_that_fell_silent_dates_the_cause_by_the_limit_in_force(idle_ms: int) -> None:
    cause, frozen_ms, flown = in_the_middle(idle_ms=idle_ms)
    assert (cause.at_ms, cause.place) == (frozen_ms, f"r1/{flown.number}")
    assert cause.text.startswith("a was silent from ")
    assert "had its last byte from a by then" in cause.evidence[0].text
    assert cause.evidence[0].text.endswith(f"{idle_ms // 1000} s later (timeouts.idle)")


def test_a_stream_that_fell_silent_alone_does_not_say_that_its_replica_did() -> None:
    cause, frozen_ms, _ = in_the_middle(answers=True)
    assert cause.at_ms == frozen_ms + 30_000
    assert "was silent from" not in cause.text


@pytest.mark.parametrize("one_out", [False, True])
def test_the_silence_is_no_lesser_phase(one_out: bool) -> None:
    """Two streams freeze 2 s after their first byte; the second of them to be given up ejects.
    ``one_out``: another replica is out all the time."""
    given = settings(eject={"request_failures": 2}, timeouts={"idle_ms": 30_000})
    rig = Rig(given).live("a")
    rig.finish(rig.go())
    rig.pass_s(3)
    running = [rig.go(), rig.go()]
    rig.live("b", "c")
    if one_out:
        rig.drain("c")
    rig.pass_s(3)
    for _ in range(30):
        rig.pass_s(1).scrape(a=(0, 0), b=(0, 0))
    for flown in running:
        rig.finish(flown, "idle_timeout", blame="replica", ttfb_ms=1000, duration_ms=33_000)
        rig.pass_s(1)
    assert rig.standing("a") == "EJECTED"
    told = whole(Source(store_of(rig.log.entries)))
    at = [one.name for one in told.phases].index("eject")
    assert seconds(told.phases)[at] == ("eject", 6, 37)
    assert [one.name for one in told.phases[:at]] == ["normal", "reduced capacity"][: 1 + one_out]
    assert told.phases[at].why.startswith("a was silent from ")
    assert "; a in trouble, then ejected" in told.phases[at].why
