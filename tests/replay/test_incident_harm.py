"""What ``--incident`` calls help, an outage and a delay: as clients met them."""

from tests.replay.prevented import said, told_of
from tests.rig import Flown, Rig, settings
from trioroute.policy import commands as c
from trioroute.replay.incident.page import page_of

HELP = "what kept harm small"


def tried_again(rig: Rig, *, answered: bool) -> None:
    rig.fail(flown := rig.go(), cause="refused")
    again = rig.retry(flown)
    assert isinstance(again, Flown)
    if answered:
        rig.pass_s(1).finish(again)
    else:
        rig.pass_s(1).finish(again, "upstream_error", cause="refused", status=None)


def test_a_retry_is_help_only_where_its_client_got_an_answer() -> None:
    rig = Rig().live("a", "b")
    tried_again(rig, answered=False)
    told = told_of(rig)
    assert (told.total.retried, told.total.rescued, told.total.failed) == (1, 0, 1)
    assert not any(HELP in text for text in said(told))
    rig = Rig().live("a", "b")
    tried_again(rig, answered=True)
    told = told_of(rig)
    assert (told.total.retried, told.total.rescued, told.total.failed) == (1, 1, 0)
    assert any(f"{HELP}: 1 request of 1 tried again" in text for text in said(told))


def test_a_model_that_nobody_serves_is_an_outage_whoever_serves_others() -> None:
    rig = Rig().live("a", "b", models=("chat",))
    rig.live("c", models=("other",))
    rig.pass_s(1).eject("a")
    rig.pass_s(1).eject("b")
    rig.pass_s(5).same("c")
    told = told_of(rig)
    assert [one.name for one in told.phases] == ["normal", "reduced capacity", "outage"]
    assert told.phases[-1].why == "nobody serves chat: a, b EJECTED"


def test_a_drained_pool_is_an_outage_and_its_refusals_are_its_harm() -> None:
    rig = Rig().live("a")
    rig.pass_s(2).drain("a")
    rig.pass_s(3)
    rig.do(c.Refuse(at_ms=rig.at_ms, request_id="q", code="no_healthy_instances", model="m"))
    rig.pass_s(3).same("a")
    told = told_of(rig)
    assert (told.phases[-1].name, told.phases[-1].why) == ("outage", "nobody serves m: a draining")
    assert told.first_cause is not None
    assert told.first_cause.kind == "change"
    assert "3 s later outage: nobody serves m: a draining" in told.first_cause.text


def test_while_no_router_ran_nobody_listened() -> None:
    for stopped in (True, False):
        rig = Rig().live("a")
        rig.pass_s(2).use()
        if stopped:
            rig.do(c.Stop(at_ms=rig.at_ms, cause="SIGTERM"))
        last_ms = rig.at_ms
        rig.pass_s(4).restart()
        rig.pass_s(1).same()
        told = told_of(rig)
        (down,) = [one for one in told.phases if one.name == "restart"]
        how = "stopped" if stopped else "killed"
        assert f"for 4 s nobody listened ({how}): who came then is not in this log" in down.why
        gaps = [(one.from_ms, one.to_ms) for one in told.lanes if one.state == "ROUTER DOWN"]
        assert gaps == [(last_ms, last_ms + 4000)]
        assert "ROUTER DOWN" in page_of(told)


def test_the_status_that_ejected_and_the_settings_that_changed_are_named() -> None:
    rig = Rig().live("a")
    for _ in range(3):
        rig.pass_s(1).finish(rig.go(), "upstream_error")
    changed = settings(eject={"request_failures": 5})
    same = (c.Join(at_ms=rig.at_ms, replica="a", url="http://a:1", models=("m",)),)
    rig.do(c.Reconfigure(at_ms=rig.at_ms, settings=changed, replicas=same, by="signal"))
    texts = [line.text for line in told_of(rig).timeline]
    assert "a: EJECTED for at least 30 s: status 500 (a request), eject 1 in a row" in texts
    assert any(
        t.startswith("other settings in force: eject.request_failures 3 -> 5, ") for t in texts
    )
