"""What ``--incident`` says would have prevented a failure: it names the row, and
played again under the setting that it names, the row is not there."""

import pytest
import trio

import trioroute.replay.incident.prevention as prevention
from tests.replay.prevented import found, play, row, said, told_of
from tests.replay.rig import source_of as source_of_rig
from tests.rig import Flown, Rig
from trioroute import events as e
from trioroute.policy.commands import Refuse
from trioroute.policy.retry_budget import RetryBudget
from trioroute.proxy.watch import Phase, Watch, Watched
from trioroute.replay.incident import tell_incident
from trioroute.replay.incident.lines import PREVENTION, blocks_of
from trioroute.settings import with_changes

# Ejects


def silent_scrapes(rig: Rig) -> None:
    rig.live("a", "b")
    rig.pass_s(3).fail_scrape("a")
    rig.pass_s(3).fail_scrape("a")


def failing_requests(rig: Rig) -> None:
    rig.live("a")
    for _ in range(3):
        rig.pass_s(1).finish(rig.go(), "upstream_cut")


def test_an_eject_by_failed_scrapes_in_a_row_needs_one_more() -> None:
    script, setting, instead = silent_scrapes, "eject.scrape_failures", "3"
    rig = play(script)
    one = found(told_of(rig), setting)
    assert row(rig, one.row).kind == "Ejected"
    assert one.instead == instead
    assert f"{one.row} came at failed" in one.text
    changed = with_changes(e.InForce(), {setting: one.instead})
    again = Rig(changed)
    script(again)
    assert "Ejected" not in [entry.kind for entry in again.log.entries]
    kept = Rig(with_changes(e.InForce(), {setting: str(int(one.instead or "0") - 1)}))
    script(kept)
    assert row(kept, one.row).kind == "Ejected"


def test_what_a_longer_limit_of_scrapes_would_have_done_is_not_guessed() -> None:
    told = told_of(play(silent_scrapes))
    assert "whether a scrape.timeout above 2s would have, the log does not tell" in said(told)[0]


def test_nothing_prevents_an_eject_of_a_replica_that_was_really_down() -> None:
    rig = Rig()
    silent_scrapes(rig)
    rig.pass_s(0.43).fail_scrape("a", "refused")
    told = told_of(rig)
    assert said(told)[0] == (
        "no setting of the router prevents that a was ejected: it was really down, its next scrape "
        "failed too (refused), 430 ms later; eject.scrape_failures=3 would only have left it in "
        "traffic for longer"
    )
    assert told.hints == ()
    rig = Rig()
    silent_scrapes(rig)
    rig.pass_s(0.4).same()
    rig.pass_s(0.4).fail_scrape("a", "refused")
    assert found(told_of(rig), "eject.scrape_failures").instead == "3"


def test_a_replica_that_served_while_its_scrapes_failed_was_not_down() -> None:
    """One request ended before the eject, one that ran then after it; a third broke off."""
    rig = Rig().live("a", models=("m",))
    rig.pass_s(3).use()
    rig.fail_scrape("a", "status")
    early, late, broken = rig.go(), rig.go(), rig.go()
    rig.pass_s(2).finish(early)
    rig.pass_s(1).fail_scrape("a", "status")
    assert rig.standing("a") == "EJECTED"
    rig.pass_s(1).finish(late)
    rig.pass_s(1.5).fail_scrape("a", "status")
    text = (
        "no setting of the router prevents that a was ejected: its next scrape failed too "
        "(status), 2.5 s later, though 2 requests ended well there since the first failed scrape, "
        "{} badly; eject.scrape_failures=3 would only have put it off: mend what answers its "
        "scrapes"
    )
    assert text.format("none") in said(told_of(rig))
    assert told_of(rig).hints == ()
    rig = Rig().live("a")
    rig.pass_s(3).fail_scrape("a", "status")
    early, late, broken = rig.go(), rig.go(), rig.go()
    rig.pass_s(2).finish(early)
    rig.pass_s(1).fail_scrape("a", "status")
    rig.pass_s(1).finish(late)
    rig.finish(broken, "upstream_cut")
    rig.pass_s(1.5).fail_scrape("a", "status")
    assert text.format("1") in said(told_of(rig))


def test_ejecting_a_replica_that_fails_requests_was_right() -> None:
    told = told_of(play(failing_requests))
    (one,) = [one for one in told.prevention if one.harm == "eject"]
    assert (one.setting, one.instead) == (None, None)
    assert f"ejecting a at {one.row} was right: it failed 3 requests in a row" in one.text
    assert told.hints == ()


def test_nothing_prevents_that_a_replica_refuses_connections() -> None:
    rig = Rig().live("a", "b")
    rig.fail(flown := rig.go(), cause="refused")
    again = rig.retry(flown)
    assert isinstance(again, Flown)
    rig.finish(again)
    told, once = told_of(rig), "and once is enough (RULES 6.2)"
    helped = "1 request of 1 tried again elsewhere got an answer there (RULES 4.6)"
    retried = f"no setting of the router prevents that r1/{again.number} had to be tried again: "
    known = "which is known only by such requests and by scrapes"
    assert said(told) == (
        f"no setting of the router prevents that a was ejected: it refused a connection, {once}",
        f"{retried}a refused the connection though it was in traffic, {known}",
        f"what kept harm small: {helped}",
    )
    assert told.hints == ()
    assert [one.harm for one in told.prevention] == ["eject", "retried"]
    one = told.prevention[0]
    assert (one.setting, one.now, one.instead, one.times) == (None, None, None, 1)
    assert row(rig, one.row).kind == "Ejected"


def test_nothing_prevents_an_eject_of_a_probing_replica() -> None:
    rig = Rig().live("a", "b")
    rig.probing("a")
    rig.pass_s(1).fail_scrape("a")
    told = told_of(rig)
    assert any("it was PROBING, where one failed scrape or request" in text for text in said(told))
    assert told.hints == ()


def test_the_first_cause_comes_first_whatever_harm_was_before() -> None:
    rig = Rig().live("a", "b")
    rig.finish(rig.go(), "upstream_cut")
    rig.pass_s(700).eject("b")
    told = told_of(rig)
    assert told.first_cause is not None
    assert told.prevention[0].row == told.first_cause.place


def test_an_eject_by_hand_is_no_harm() -> None:
    rig = Rig().live("a", "b")
    told = told_of(rig)
    assert (said(told), told.prevention, told.retaken) == ((), (), ())
    assert PREVENTION not in [block.title for block in blocks_of(told)]


def test_harm_too_far_to_look_into_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = play(silent_scrapes)
    monkeypatch.setattr(prevention, "ROWS_MAX", 3)
    told = told_of(rig)
    assert (told.prevention, told.unproved) == ((), 1)
    assert said(told) == (
        "1 kind of harm not looked into: too far from a snapshot, or rows are missing",
    )


# Requests


def watched_limit(event: e.Released, in_force: e.InForce) -> str | None:
    """What ``Watch`` says of a request that was silent for all that it lasted."""
    watch = Watch(lambda: event.duration_ms, lambda: in_force, lambda _: False)
    phase: Phase = "idle" if event.outcome == "idle_timeout" else "first_byte"
    since_ms = event.ttfb_ms or 0
    return watch.over(Watched("a", trio.CancelScope(), 0, since_ms, phase))


@pytest.mark.parametrize(
    ("outcome", "blame", "setting", "now", "instead"),
    [
        ("idle_timeout", "router", "timeouts.total", "500s", "601s"),
        ("first_byte_timeout", "router", "timeouts.total", "500s", "601s"),
    ],
)
def test_a_request_ended_by_a_limit_names_a_longer_one(
    outcome: e.words.Outcome, blame: e.words.Blame, setting: str, now: str, instead: str
) -> None:
    other = {"timeouts.total": "500s", "timeouts.first_byte": 0, "timeouts.idle": 0}
    in_force = with_changes(e.InForce(), other if blame == "router" else {})
    rig = Rig(in_force).live("a")
    flown = rig.go()
    ttfb_ms = 5 if outcome == "idle_timeout" else None
    rig.pass_s(600.4)
    rig.finish(flown, outcome, blame=blame, ttfb_ms=ttfb_ms, duration_ms=600_400)
    one = found(told_of(rig), setting)
    assert (one.now, one.instead) == (now, instead)
    event = e.decode("Released", row(rig, one.row).schema, row(rig, one.row).body)
    assert isinstance(event, e.Released)
    assert watched_limit(event, in_force) == setting.removeprefix("timeouts.")
    assert watched_limit(event, with_changes(in_force, {setting: instead})) is None


@pytest.mark.parametrize("outcome", ["first_byte_timeout", "idle_timeout"])
def test_a_longer_wait_for_a_silent_replica_is_not_proposed(outcome: e.words.Outcome) -> None:
    rig = Rig().live("a")
    flown = rig.go()
    ttfb_ms = 5 if outcome == "idle_timeout" else None
    rig.pass_s(600.4).finish(flown, outcome, ttfb_ms=ttfb_ms, duration_ms=600_400)
    told = told_of(rig)
    assert "as a was silent: a longer limit would have let its client wait" in said(told)[0]
    assert told.hints == ()


def test_nothing_is_said_of_a_limit_that_was_not_reached() -> None:
    rig = Rig().live("a")
    rig.finish(rig.go(), "first_byte_timeout", duration_ms=100)
    told = told_of(rig)
    assert told.hints == ()
    assert "which limit of time ended it is not certain" in said(told)[0]


def test_nothing_prevents_that_an_answer_breaks_off() -> None:
    rig = Rig().live("a")
    rig.finish(flown := rig.go(), "upstream_cut")
    (text,) = said(told_of(rig))
    assert f"no setting of the router prevents that r1/{flown.number} broke off on a (fin)" in text


def twice_failed(rig: Rig) -> Flown:
    """An attempt that moved on after a 502, and one that did not; "c" was never tried."""
    rig.live("a", "b", "c").pass_s(1)
    rig.fail(flown := rig.go(), status=502)
    again = rig.retry(flown)
    assert isinstance(again, Flown)
    return again


def test_a_request_given_up_for_the_number_of_tries_names_one_more() -> None:
    rig = Rig(with_changes(e.InForce(), {"retries.max": 1}))
    again = twice_failed(rig)
    more = rig.state.settings
    rig.finish(again, "upstream_error", status=502, ttfb_ms=None)
    one = found(told_of(rig), "retries.max")
    assert (one.now, one.instead) == ("1", "2")
    assert f"r1/{again.number} failed in attempt 2 while c was LIVE and untried" in one.text
    assert again.event.attempt > more.retries.max
    changed = with_changes(more, {"retries.max": one.instead})
    assert again.event.attempt <= changed.retries.max
    assert budget_of(rig, again).try_again(rig.at_ms, changed.retries.budget_m)
    third = rig.retry(again)
    assert isinstance(third, Flown)
    assert third.replica == "c"


def budget_of(rig: Rig, until: Flown) -> RetryBudget:
    """The budget as the rows before an attempt filled it."""
    budget = RetryBudget()
    for entry in rig.log.entries[: until.number]:
        event = e.decode(entry.kind, entry.schema, entry.body)
        if isinstance(event, e.Dispatched) and event.attempt == 1:
            budget.request(entry.at_ms)
        elif isinstance(event, e.Failed):
            assert budget.try_again(entry.at_ms, 1000)
    return budget


def test_a_request_given_up_for_the_budget_names_a_larger_one() -> None:
    rig = Rig(with_changes(e.InForce(), {"eject.request_failures": 100})).live("a", "b", "c")
    rig.pass_s(20)
    for _ in range(6):
        rig.use()
    for _ in range(3):
        rig.pass_s(0.1).fail(flown := rig.go(), status=502)
        moved = rig.retry(flown)
        assert isinstance(moved, Flown)
        rig.finish(moved)
    rig.fail(flown := rig.go(), status=502)
    last = rig.retry(flown)
    assert isinstance(last, Flown)
    rig.finish(last, "upstream_error", status=502, ttfb_ms=None)
    one = found(told_of(rig), "retries.budget")
    assert one.now == "0.2"
    changed = with_changes(e.InForce(), {"retries.budget": one.instead})
    assert not budget_of(rig, last).try_again(rig.at_ms, 200)
    assert budget_of(rig, last).try_again(rig.at_ms, changed.retries.budget_m)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("second 500", "a second 500 speaks for the request itself"),
        ("nobody untried", "no other replica was LIVE that it had not tried"),
        ("not known to be safe", "whether it was all the while, or the budget of retries"),
        ("own fault", "the replica did not take it from this router"),
    ],
)
def test_no_setting_is_named_where_something_else_may_have_stopped_it(case: str, why: str) -> None:
    rig = Rig(with_changes(e.InForce(), {"retries.max": 1}))
    names = ("a", "b") if case == "nobody untried" else ("a", "b", "c")
    rig.live(*names).pass_s(1)
    flown = rig.go()
    status = {"second 500": 500, "not known to be safe": None}.get(case, 502)
    rig.fail(flown, cause="fin" if status is None else "status", status=status)
    again = rig.retry(flown)
    assert isinstance(again, Flown)
    status = 500 if case == "second 500" else 502
    blame: e.words.Blame = "router" if case == "own fault" else "replica"
    rig.finish(again, "upstream_error", status=status, ttfb_ms=None, blame=blame)
    told = told_of(rig)
    assert told.total.failed == 1
    assert told.hints == ()
    assert any(why in text for text in said(told))


def crammed(rig: Rig) -> None:
    rig.live("a", "b")
    rig.go()
    rig.go()


def test_a_refusal_for_want_of_room_names_the_number_that_was_full() -> None:
    rig = play(crammed, admission__max_in_flight=1)
    assert rig.arrive() is None
    rig.pass_s(5).do(Refuse(at_ms=rig.at_ms, request_id="q", code="overloaded", model="m"))
    one = found(told_of(rig), "admission.max_in_flight")
    assert (one.now, one.instead) == ("1", "2")
    assert row(rig, one.row).kind == "Refused"
    again = play(crammed, admission__max_in_flight=2)
    assert isinstance(again.pass_s(5).arrive(), Flown)


def test_a_refusal_with_only_a_full_probing_replica_names_its_number() -> None:
    rig = Rig(with_changes(e.InForce(), {"probing.max_in_flight": 1})).live("a")
    rig.probing("a")
    rig.go()
    rig.do(Refuse(at_ms=rig.at_ms, request_id="q", code="overloaded", model="m"))
    assert found(told_of(rig), "probing.max_in_flight").instead == "2"


def test_a_refusal_when_there_was_room_again_is_not_explained() -> None:
    rig = Rig().live("a")
    rig.do(Refuse(at_ms=rig.at_ms, request_id="q", code="overloaded", model="m"))
    told = told_of(rig)
    assert (told.hints, told.refusals) == ((), {"overloaded": 1})
    (text,) = said(told)
    assert text.startswith("no admission.max_waiting is proved to help: r1/")
    assert text.endswith("nobody of its key and model who came later got a place in time")


def test_nothing_prevents_refusals_without_replicas_nor_lost_requests() -> None:
    rig = Rig().live("a")
    rig.go()
    rig.pass_s(1).restart()
    rig.drain("a")
    assert isinstance(rig.arrive(), e.Refused)
    texts = said(told_of(rig))
    assert any("requests end with a router that dies" in text for text in texts)
    assert any("was refused: nobody was left to take it (RULES 4 step 5)" in text for text in texts)


def test_a_first_cause_that_no_setting_prevents_is_said_first() -> None:
    rig = Rig().live("a", "b")
    for _ in range(6):
        rig.pass_s(3).scrape(a=(4, 2), b=(4, 3))
    told = told_of(rig)
    assert told.first_cause is not None
    assert told.prevention[0].row == told.first_cause.place
    assert "makes room where requests wait at every LIVE replica" in said(told)[0]
    rig = Rig().live("a")
    rig.pass_s(1).restart()
    assert said(told_of(rig)) == ("no setting of the router prevents that it died",)


def test_a_cause_before_the_span_is_to_be_asked_for() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(1).eject("a")
    rig.calm(9, "b")
    told = tell_incident(source_of_rig(rig), rig.at_ms - 5000, rig.at_ms)
    assert said(told) == ("the first cause is before the span: ask from an earlier time for it",)
    assert told.prevention == ()
