"""RULES 6.2: what takes a replica out of traffic, and what does not."""

import pytest

from tests.rig import Flown, MakeRig, Rig
from trioroute import events as e
from trioroute.events.words import Blame, Cause, Outcome


def request(rig: Rig, name: str) -> Flown:
    """A request in flight on the named replica."""
    others: list[Flown] = []
    while (flown := rig.go()).replica != name:
        others.append(flown)
        assert len(others) < 50, f"{name} is out of reach"
    for other in others:
        rig.finish(other, "client_gone")
    return flown


@pytest.fixture
def two(rig: Rig) -> Rig:
    return rig.live("a", "b")


@pytest.mark.parametrize("cause", ["refused", "reset"])
def test_rule_6_2_one_refused_or_reset_scrape_ejects(two: Rig, cause: Cause) -> None:
    failed, ejected = two.fail_scrape("a", cause)
    assert failed == e.ScrapeFailed(replica="a", cause=cause)
    assert ejected == e.Ejected(replica="a", cause=cause, n=1, until_ms=two.at_ms + 30_000)


@pytest.mark.parametrize("cause", ["refused", "reset"])
def test_rule_6_2_one_refused_or_reset_dispatch_ejects(two: Rig, cause: Cause) -> None:
    two.fail(request(two, "a"), cause)
    assert two.standing("a") == "EJECTED"


def test_rule_6_2_a_refused_dispatch_that_ends_its_request_ejects_too(two: Rig) -> None:
    two.finish(request(two, "a"), "upstream_error", cause="refused", status=None, ttfb_ms=None)
    assert two.standing("a") == "EJECTED"


def test_rule_6_13_a_replica_refuses_once_it_is_out_and_nothing_listens_there(two: Rig) -> None:
    two.fail_scrape("a", "reset")
    health = two.state.health["a"]
    assert not health.refuses(), "a reset says that something is there"
    two.fail_scrape("a", "refused")
    assert health.refuses()
    two.same("a")
    assert not health.refuses(), "it accepts again"


@pytest.mark.parametrize("cause", ["timeout", "status", "protocol", "dns", "tls", "fin"])
def test_rule_6_2_two_failed_scrapes_of_another_kind_eject(two: Rig, cause: Cause) -> None:
    two.fail_scrape("a", cause)
    assert two.standing("a") == "LIVE"
    two.fail_scrape("a", cause)
    assert two.standing("a") == "EJECTED"


def test_rule_6_2_failed_scrapes_must_be_consecutive(two: Rig) -> None:
    for _ in range(5):
        two.fail_scrape("a", "timeout")
        two.same("a")
    assert two.standing("a") == "LIVE"


@pytest.mark.parametrize("status", [500, 502, 504])
def test_rule_6_2_three_requests_in_a_row_that_failed_eject(two: Rig, status: int) -> None:
    for _ in range(2):
        two.finish(request(two, "a"), "upstream_error", status=status)
    assert two.standing("a") == "LIVE"
    two.finish(request(two, "a"), "upstream_error", status=status)
    assert two.standing("a") == "EJECTED"


def test_rule_6_2_mixed_failures_count_together_retried_or_not(two: Rig) -> None:
    two.fail(request(two, "a"), "status", "replica", 502)
    two.finish(request(two, "a"), "first_byte_timeout")
    assert two.standing("a") == "LIVE"
    two.finish(request(two, "a"), "upstream_cut")
    assert two.standing("a") == "EJECTED"


def test_rule_6_2_a_cut_by_reset_is_one_failure_not_an_eject(two: Rig) -> None:
    two.finish(request(two, "a"), "upstream_cut", cause="reset")
    assert two.standing("a") == "LIVE"


@pytest.mark.parametrize("between", ["ok", "client_error"])
def test_rule_6_2_an_answer_breaks_the_row(two: Rig, between: Outcome) -> None:
    for _ in range(4):
        two.finish(request(two, "a"), "upstream_error")
        two.finish(request(two, "a"), "upstream_error")
        two.finish(request(two, "a"), between)
    assert two.standing("a") == "LIVE"


def test_rule_6_2_an_answer_that_moved_on_breaks_the_row_too(two: Rig) -> None:
    for _ in range(4):
        two.finish(request(two, "a"), "upstream_error")
        two.finish(request(two, "a"), "upstream_error")
        two.fail(request(two, "a"), "status", "none", 401)
    assert two.standing("a") == "LIVE"


@pytest.mark.parametrize("between", ["client_gone", "client_stall", "shutdown"])
def test_rule_6_2_what_says_nothing_about_the_replica_does_not_break_the_row(
    two: Rig, between: Outcome
) -> None:
    two.finish(request(two, "a"), "upstream_error")
    two.finish(request(two, "a"), "upstream_error")
    two.finish(request(two, "a"), between)
    assert two.standing("a") == "LIVE"
    two.finish(request(two, "a"), "upstream_error")
    assert two.standing("a") == "EJECTED"


def test_rule_6_2_failures_of_another_replica_do_not_count(two: Rig) -> None:
    for name in ("a", "b", "a", "b"):
        two.finish(request(two, name), "upstream_error")
    assert (two.standing("a"), two.standing("b")) == ("LIVE", "LIVE")


@pytest.mark.parametrize(
    ("cause", "blame", "status"),
    [
        ("status", "client", 400),
        ("status", "client", 404),
        ("status", "none", 401),
        ("none", "router", None),  # no file descriptor left
        ("timeout", "router", None),  # waited for the router's own pool
        ("cancelled", "client", None),
        ("refused", "router", None),
        ("shutdown", "router", None),
    ],
)
def test_rule_6_2_never_counts(two: Rig, cause: Cause, blame: Blame, status: int | None) -> None:
    for _ in range(6):
        two.fail(request(two, "a"), cause, blame, status)
    for _ in range(6):
        two.finish(request(two, "a"), "client_error", cause=cause, blame=blame, status=status)
    assert two.standing("a") == "LIVE"


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("blame", ["none", "replica"])
def test_rule_6_2_busy_is_not_ejected(two: Rig, status: int, blame: Blame) -> None:
    for _ in range(6):
        two.fail(request(two, "a"), "status", blame, status)
        two.pass_s(1).same()
        two.finish(request(two, "a"), "upstream_error", blame=blame, status=status)
        two.pass_s(1).same()
    assert two.standing("a") == "LIVE"


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(("retry_after_ms", "busy_s"), [(None, 1), (5000, 5), (200, 0.2)])
def test_rule_6_2_busy_is_a_queue_until_retry_after(
    two: Rig, status: int, retry_after_ms: int | None, busy_s: float
) -> None:
    two.fail(request(two, "a"), "status", "none", status, retry_after_ms)
    two.pass_s(busy_s - 0.001)
    assert {two.use().replica for _ in range(6)} == {"b"}
    two.pass_s(0.001)
    assert {two.use().replica for _ in range(6)} == {"a", "b"}


def test_rule_6_2_busy_follows_the_setting(make_rig: MakeRig) -> None:
    rig = make_rig(eject={"busy_default_ms": 7000})
    rig.live("a", "b")
    rig.fail(request(rig, "a"), "status", "none", 429)
    rig.pass_s(6.9)
    assert {rig.use().replica for _ in range(6)} == {"b"}


def test_rule_6_2_busy_is_per_replica_and_spills_pins(two: Rig) -> None:
    assert two.use("s").replica == "a"
    two.fail(two.go("s"), "status", "none", 503)
    flown = two.use("s")
    assert flown.replica == "b"
    (spilled,) = flown.pins
    assert isinstance(spilled, e.Spilled)
    assert spilled.cause == "busy"


def test_rule_6_2_when_all_are_busy_the_least_loaded_is_tried(two: Rig) -> None:
    for name in ("a", "b"):
        two.fail(request(two, name), "status", "none", 429, 60_000)
    two.scrape(a=(5, 0), b=(4, 0))
    assert two.use(tokens=1).replica == "b"


@pytest.mark.parametrize("status", [500, 502, 504])
def test_rule_6_2_a_retry_after_beside_a_5xx_is_still_a_failure(two: Rig, status: int) -> None:
    for _ in range(3):
        two.finish(request(two, "a"), "upstream_error", status=status, retry_after_ms=1000)
    assert two.standing("a") == "EJECTED"


def test_rule_6_2_switched_off_failing_requests_never_eject(make_rig: MakeRig) -> None:
    rig = make_rig(eject={"request_failures": 10**9, "scrape_failures": 10**9})
    rig.live("a")
    for _ in range(30):
        rig.finish(rig.go(), "upstream_error")
        rig.fail_scrape("a", "timeout")
    assert rig.standing("a") == "LIVE"


def test_rule_6_12_an_error_inside_a_200_counts_as_its_status(two: Rig) -> None:
    two.fail(request(two, "a"), "error_event", "none", 503)
    assert {two.use().replica for _ in range(4)} == {"b"}
    two.pass_s(1)
    for _ in range(3):
        two.fail(request(two, "a"), "error_event", "replica", 500)
    assert two.standing("a") == "EJECTED"


def test_rule_6_12_aborts_are_held_against_the_replica(two: Rig) -> None:
    for _ in range(3):
        two.finish(request(two, "a"), "upstream_cut", cause="abort")
    assert two.standing("a") == "EJECTED"


def test_endings_of_a_replica_that_left_change_nothing(two: Rig) -> None:
    flown = request(two, "a")
    two.leave("a")
    assert [type(event) for event in two.fail(flown, "refused")] == [e.Failed]


def test_an_ejected_replica_is_not_ejected_again(two: Rig) -> None:
    running = [request(two, "a") for _ in range(4)]
    two.eject("a")
    until_ms = two.state.health["a"].until_ms
    two.pass_s(1)
    for flown in running:
        two.finish(flown, "upstream_cut")
    two.fail_scrape("a", "refused")
    assert len(two.logged(e.Ejected)) == 1
    assert two.state.health["a"].until_ms == until_ms
