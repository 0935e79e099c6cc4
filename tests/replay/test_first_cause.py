"""What ``--incident`` names as the first cause: trouble, and a change only where harm followed."""

import pytest

from tests.replay.logs import played, source_of
from tests.replay.rig import source_of as source_of_rig
from tests.rig import BEGIN_MS, Rig, settings
from trioroute.policy import commands as c
from trioroute.replay.incident import Incident, tell_incident
from trioroute.replay.incident.lines import blocks_of
from trioroute.replay.incident.told import FirstCause


def of_rig(rig: Rig, from_s: float = 0) -> Incident:
    source = source_of_rig(rig)
    begin_ms = BEGIN_MS + round(from_s * 1000) if from_s else 1
    return tell_incident(source, begin_ms, source.last().at_ms)


def cause_of(rig: Rig, from_s: float = 0) -> FirstCause:
    cause = of_rig(rig, from_s).first_cause
    assert cause is not None
    return cause


def queue(rig: Rig, rounds: int = 5, **waiting: int) -> None:
    for _ in range(rounds):
        rig.pass_s(3).scrape(**{name: (4, many) for name, many in waiting.items()})


def stop(rig: Rig) -> None:
    rig.do(c.Stop(at_ms=rig.at_ms, cause="signal"))


def drained(rig: Rig) -> None:
    rig.do(c.Drain(at_ms=rig.at_ms, replica="b", on=True, leaves=True, why="new driver"))


def removed(rig: Rig) -> None:
    rig.do(c.Leave(at_ms=rig.at_ms, replica="b", by="admin", why="sold"))


def ejected_by_hand(rig: Rig) -> None:
    rig.do(c.Eject(at_ms=rig.at_ms, replica="b", why="hot"))


def asleep(rig: Rig) -> None:
    rig.scrape(b=rig.reading("b", asleep=True))


def after_a_stop(seconds: int) -> Incident:
    rig = Rig().live("a", "b")
    rig.finish(rig.go())
    rig.pass_s(2)
    rig.do(c.Stop(at_ms=rig.at_ms, cause="signal"))
    rig.pass_s(seconds)
    rig.restart()
    rig.scrape(a=(0, 0), b=(0, 0))
    rig.pass_s(2)
    rig.finish(rig.go())
    return of_rig(rig)


def test_a_long_time_in_which_nobody_listened_is_a_cause() -> None:
    told = after_a_stop(86)
    cause = told.first_cause
    assert cause is not None
    assert cause.kind == "down"
    said = "for 1 min 26 s nobody listened: the router had stopped; who came is not in the log"
    assert cause.text == said
    assert [line.event for line in cause.evidence] == ["Started"]
    assert "nothing went wrong" not in str(blocks_of(told))


def test_a_stop_behind_which_no_router_came_is_noted() -> None:
    rig = Rig().live("a")
    rig.pass_s(2)
    stop(rig)
    told = tell_incident(source_of_rig(rig), 1, rig.at_ms + 5000)
    assert len(told.notes) == 1
    assert "did not start again in this log" in told.notes[0]
    assert not tell_incident(source_of_rig(rig), 1, rig.at_ms + 4999).notes


def test_a_short_one_is_no_cause_but_is_not_called_harmless() -> None:
    told = after_a_stop(4)
    assert told.first_cause is None
    (changes,) = [block for block in blocks_of(told) if block.title == "Changes"]
    assert changes.said == ("made on purpose; who came while no router ran is not in the log",)


def test_an_outage_made_by_hand_is_not_called_harmless() -> None:
    rig = Rig().live("a")
    rig.do(c.Eject(at_ms=rig.at_ms, replica="a", why="test"))
    rig.pass_s(5)
    rig.same("a")
    told = of_rig(rig)
    assert "outage" in [phase.name for phase in told.phases]
    (changes,) = [block for block in blocks_of(told) if block.title == "Changes"]
    assert changes.said == ("made on purpose",)


def restarted(rig: Rig) -> None:
    stop(rig)
    rig.pass_s(4)
    rig.restart()


ON_PURPOSE = [drained, removed, ejected_by_hand, asleep, restarted]


@pytest.mark.parametrize("change", ON_PURPOSE)
def test_what_is_done_on_purpose_is_no_cause_where_nothing_went_wrong(change: object) -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(5).use()
    assert callable(change)
    change(rig)
    rig.pass_s(5)
    rig.use()
    rig.pass_s(1).same("a")
    told = of_rig(rig)
    assert told.first_cause is None
    assert told.changes
    titles = {block.title: block.said for block in blocks_of(told)}
    assert titles["First cause"] == ("nothing went wrong with the service in this span",)
    but = "; who came while no router ran is not in the log"
    harmless = ", and nothing went wrong by them"
    assert titles["Changes"] == (f"made on purpose{but if change is restarted else harmless}",)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (drained, "b: draining: takes no new request, then leaves, by admin: new driver"),
        (removed, "b: left the fleet, by admin: sold"),
        (ejected_by_hand, "b: EJECTED for at least 30 s: by hand, eject 1 in a row, by admin: hot"),
        (asleep, "b: its engine says that it was put to sleep"),
    ],
)
def test_a_replica_taken_away_is_the_cause_where_the_rest_did_not_suffice(
    change: object, text: str
) -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(5)
    assert callable(change)
    change(rig)
    rig.pass_s(17)
    queue(rig, a=3)
    cause = cause_of(rig)
    assert (cause.kind, cause.at_ms) == ("change", BEGIN_MS + 5000)
    assert cause.text.startswith(f"{text}; 20 s later overload: requests wait at every LIVE")
    assert cause.evidence[0].text == "overload: requests wait at every LIVE replica: a 3"
    assert cause.evidence[1].text.startswith("a LIVE, 4 running, 3 waiting, 0 of this router's")


def test_a_replica_that_is_back_or_went_long_ago_is_not_blamed_for_a_shortage() -> None:
    rig = Rig().live("a", "b")
    drained(rig)
    rig.pass_s(60).drain("b", on=False)
    queue(rig, a=1, b=1)
    assert cause_of(rig).kind == "overload"
    rig = Rig().live("a", "b")
    drained(rig)
    rig.calm(900, "a")
    queue(rig, a=2)
    cause = cause_of(rig)
    assert (cause.kind, cause.before) == ("overload", ())


def test_an_eject_is_the_cause_with_its_scrapes_and_what_was_changed_before_it() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(5)
    rig.do(
        c.Join(at_ms=rig.at_ms, replica="b", url="http://b:2", models=("m",), by="admin", why="x")
    )
    rig.scrape(b=(0, 0))
    rig.pass_s(3).fail_scrape("b")
    rig.pass_s(3).fail_scrape("b")
    cause = cause_of(rig)
    assert cause.kind == "eject"
    assert [line.event for line in cause.evidence] == ["ScrapeFailed"] * 2
    assert [line.text for line in cause.before] == [
        "b: joined or changed: http://b:2 (vllm), models m, by admin: x"
    ]


@pytest.mark.parametrize("change", [drained, asleep])
def test_an_eject_of_what_was_taken_away_on_purpose_only_follows(change: object) -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(5)
    assert callable(change)
    change(rig)
    rig.pass_s(3).eject("b")
    rig.pass_s(3).same("a")
    assert of_rig(rig).first_cause is None


def test_what_began_first_is_the_cause_though_it_was_known_later() -> None:
    """Queues are overload once they last 10 s; the eject they led to is in the log before that."""
    rig = Rig().live("a", "b")
    queue(rig, rounds=2, a=2, b=2)
    rig.fail_scrape("b")
    rig.pass_s(2).fail_scrape("b")
    assert rig.standing("b") == "EJECTED"
    queue(rig, rounds=3, a=2)
    cause = cause_of(rig)
    assert (cause.kind, cause.at_ms) == ("overload", BEGIN_MS + 3000)


def test_refusals_for_want_of_room_show_who_was_there() -> None:
    rig = Rig().live("a")
    rig.leave("a")
    rig.pass_s(2)
    rig.do(c.Refuse(at_ms=rig.at_ms, request_id="q", code="no_healthy_instances", model="m"))
    cause = cause_of(rig)
    assert cause.kind == "change"
    assert cause.text == (
        "a: left the fleet; 2 s later overload: requests for m were refused: no replica could take "
        "them (no_healthy_instances)"
    )
    rig = Rig().live("a")
    rig.go()
    rig.do(c.Refuse(at_ms=rig.at_ms, request_id="q", code="overloaded"))
    cause = cause_of(rig)
    assert cause.kind == "overload"
    assert [line.text for line in cause.evidence] == [
        "a LIVE, 0 running, 0 waiting, 1 of this router's in flight"
    ]


def test_a_router_that_died_is_the_cause_and_names_what_it_left() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(5)
    rig.go()
    rig.pass_s(2)
    rig.restart()
    for from_s in (0, 6):
        cause = cause_of(rig, from_s)
        assert cause.kind == "died"
        assert cause.text.startswith("the router died and started again, release 0, 2 s after")
        (line,) = cause.evidence
        assert line.text.startswith("1 request had no end: the router died under them, between")


def test_the_row_before_the_span_tells_whether_the_router_died() -> None:
    rig = Rig().live("a", "b")
    stop(rig)
    rig.pass_s(20)
    rig.restart()
    rig.pass_s(1).same()
    assert cause_of(rig, 10).kind == "down"


def test_a_log_that_could_not_be_written_is_the_cause() -> None:
    rig = Rig().live("a")
    rig.pass_s(9)
    begun_ms = rig.at_ms - 4000
    rig.do(c.Restate(at_ms=rig.at_ms, lost=7, from_ms=begun_ms, to_ms=rig.at_ms))
    cause = cause_of(rig)
    assert cause.kind == "log"
    assert cause.text == "the log could not be written for 4 s: 7 events lost"
    rig = Rig().live("a")
    rig.do(c.Refuse(at_ms=rig.at_ms, request_id="q", code="log_stalled"))
    assert cause_of(rig).kind == "log"


def test_other_settings_are_told_before_what_came_after_them() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(5)
    changed = settings(eject={"scrape_failures": 1})
    same = tuple(
        c.Join(at_ms=rig.at_ms, replica=name, url=f"http://{name}:1", models=("m",))
        for name in ("a", "b")
    )
    rig.do(c.Reconfigure(at_ms=rig.at_ms, settings=changed, replicas=same, by="signal"))
    rig.pass_s(3).fail_scrape("b")
    cause = cause_of(rig)
    assert cause.kind == "eject"
    assert [line.event for line in cause.before] == ["Configured"]


def test_a_request_that_failed_is_the_cause_only_where_nothing_greater_is() -> None:
    rig = Rig().live("a", "b")
    flown = rig.go()
    rig.finish(flown, "upstream_cut")
    did = f"{flown.replica} answered 200, then closed the connection too early"
    name = f"r1/{flown.number} failed: {did}; its client got an answer that broke off"
    cause = cause_of(rig)
    assert (cause.kind, cause.text) == ("failure", name)
    rig.pass_s(60).eject("a" if flown.replica == "b" else "b")
    cause = cause_of(rig)
    assert (cause.kind, cause.text) == ("failure", name)
    assert [line.event for line in cause.unfelt] == ["eject"]


def test_a_request_whose_attempts_all_failed_is_a_cause_too() -> None:
    rig = Rig().live("a")
    flown = rig.go()
    rig.fail(flown, status=500)
    cause = cause_of(rig)
    assert cause.kind == "failure"
    assert cause.text == f"r1/{flown.number} failed: a answered 500, and nobody else took it"
    rig = Rig().live("a", "b")
    rig.fail(rig.go(), status=500)
    assert cause_of(rig).kind == "failure"  # nothing follows: the client saw it
    rig = Rig().live("a", "b")
    flown = rig.go()
    rig.fail(flown, status=500)
    assert rig.retry(flown) is not None
    assert of_rig(rig).first_cause is None


def test_requests_that_could_not_be_served_by_anybody_are_no_trouble() -> None:
    rig = Rig().live("a")
    rig.do(c.Refuse(at_ms=rig.at_ms, request_id="q", code="model_not_found", model="x"))
    told = of_rig(rig)
    assert told.first_cause is None
    (block,) = [one for one in blocks_of(told) if one.title == "First cause"]
    assert block.said[1] == "what was asked for was refused: 1: model_not_found 1"


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("down=60..120", "gpu1 EJECTED for at least 30 s: reset"),
        ("freeze=60..200", "gpu1 stopped generating; then stalled: its engine says 3 running"),
    ],
)
def test_a_simulated_fault_is_named(fault: str, text: str) -> None:
    source = source_of(played(1500, faults=f"replica=1,{fault}")[0])
    cause = tell_incident(source, 1, source.last().at_ms).first_cause
    assert cause is not None
    assert cause.text.startswith(text)
    assert any(line.event == "Ejected" for line in cause.evidence) == (cause.kind == "stall")
    assert cause.evidence


def test_a_simulated_drain_is_none() -> None:
    source = source_of(played(1500, faults="replica=1,drain=60..120")[0])
    told = tell_incident(source, 1, source.last().at_ms)
    assert told.first_cause is None
    assert [line.text for line in told.changes if "gpu1" in line.text] == [
        "gpu1: draining: takes no new request, by admin",
        "gpu1: draining is over, by admin",
    ]


def recovering() -> Rig:
    """Replica a is PROBING, and requests run on b."""
    rig = Rig().live("a", "b")
    rig.probing("a")
    return rig.pass_s(1)


def killed(rig: Rig) -> None:
    for _ in range(4):
        rig.go()
    rig.pass_s(3).restart()


def broken(rig: Rig) -> None:
    rig.finish(rig.go_to("b"), "upstream_cut")


def stalled(rig: Rig) -> None:
    rig.do(c.Refuse(at_ms=rig.at_ms, request_id="q", code="log_stalled"))


@pytest.mark.parametrize(
    ("harm", "kind"), [(killed, "died"), (broken, "failure"), (stalled, "log")]
)
def test_what_did_the_harm_is_the_cause_and_not_what_was_under_way(harm: object, kind: str) -> None:
    rig = recovering()
    begin_s = (rig.at_ms - BEGIN_MS) / 1000
    rig.pass_s(0.1)
    assert callable(harm)
    harm(rig)
    cause = cause_of(rig, begin_s)
    assert cause.kind == kind
    assert cause.before[0].text.startswith("already under way when the span begins: a is PROBING")


def test_what_was_under_way_is_the_cause_where_it_did_the_harm_or_nobody_was_hit() -> None:
    rig = Rig().live("a", "b")
    flown = next(one for one in (rig.go(), rig.go()) if one.replica == "a")
    rig.probing("a")
    rig.pass_s(1)
    begin_s = (rig.at_ms - BEGIN_MS) / 1000
    rig.pass_s(0.1).use()
    assert cause_of(rig, begin_s).kind == "earlier"
    rig.finish(flown, "upstream_cut")
    assert cause_of(rig, begin_s).kind == "earlier"
    rig.pass_s(1)
    killed(rig)
    assert cause_of(rig, begin_s).kind == "earlier"
