"""One decision, told: the sentence, the steps, the pin, what followed."""

import json
from itertools import islice

import pytest

from tests.replay.rig import STREAM, busy_day, changed, source_of, store_of
from tests.rig import Flown, Rig, settings
from trioroute.policy.commands import Refuse
from trioroute.replay import explain_decision
from trioroute.replay.explain import tell, tell_all
from trioroute.replay.present import console_for, present_told
from trioroute.replay.read import NotFound, Source
from trioroute.replay.told import Told


def told_of(rig: Rig, flown: Flown) -> Told:
    return tell(source_of(rig), STREAM, flown.number)


def dropped(told: Told, step: int) -> dict[str, str]:
    return {out.replica: out.why for out in told.steps[step - 1].dropped}


def fates(told: Told) -> dict[str, list[int]]:
    """At which steps each replica of the pool dropped out."""
    return {
        seen.name: [step.number for step in told.steps if seen.name in dropped(told, step.number)]
        for seen in told.replicas
    }


def pinned() -> tuple[Rig, Flown]:
    """A session on "a" with four running there, three on each other replica."""
    rig = Rig().live("a", "b", "c", "d")
    first = rig.use("s")
    assert first.replica == "a"
    rig.scrape(a=(4, 0), b=(3, 0), c=(3, 0), d=(3, 0))
    return rig, rig.go("s")


def test_a_usable_pin_is_the_reason() -> None:
    rig, flown = pinned()
    told = told_of(rig, flown)
    assert told.sentence == (
        f"r1/{flown.number} went to a because its session pin was usable: "
        "4 running there against a minimum of 3, slack 1."
    )
    assert told.reason == "affinity:session"
    assert told.pin is not None
    assert (told.pin.kind, told.pin.replica, told.pin.usable) == ("session", "a", True)
    assert told.verified


def test_what_its_pin_chose_stays_until_then_and_the_least_loaded_drops_out() -> None:
    rig, flown = pinned()
    told = told_of(rig, flown)
    assert told.steps[2].left == ("a", "b")
    assert (
        told.steps[2].note
        == "tied: round robin; a stays for its pin (effective running 4 against 3)"
    )
    assert told.steps[3].left == ("a",)
    assert dropped(told, 4) == {"b": "least loaded, but a usable session pin goes first"}
    assert fates(told) == {"a": [], "b": [4], "c": [3], "d": [3]}


def test_a_spilled_pin_names_cause_and_count() -> None:
    rig = Rig().live("a", "b")
    rig.use("s")
    rig.scrape(a=(1, 2), b=(0, 0))
    flown = rig.go("s")
    told = told_of(rig, flown)
    assert told.sentence == (
        f"r1/{flown.number} went to b because its session pin to a spilled: 2 waiting there, "
        "spill 1 in a row; it was the only candidate (effective running 0)."
    )
    assert dropped(told, 2) == {"a": "2 waiting there"}
    spilled = told.followed.pin_events[0]
    assert (spilled["event"], spilled["count"]) == ("Spilled", 1)
    assert spilled["text"] == "session pin to a spilled to b: requests wait on a, spill 1 in a row"


def test_a_dead_pin_says_what_its_replica_is() -> None:
    rig = Rig().live("a", "b")
    rig.use("s")
    rig.eject("a")
    flown = rig.go("s")
    told = told_of(rig, flown)
    assert "its session pin was dead: a is EJECTED; it was the only candidate" in told.sentence
    assert dropped(told, 1)["a"].startswith("EJECTED")
    row = next(seen for seen in told.replicas if seen.name == "a")
    assert (row.state, row.cooldown_ms, row.eject_count) == ("EJECTED", 30_000, 1)


def test_least_loaded_tells_the_tie_and_the_distance() -> None:
    rig = Rig().live("a", "b", "c")
    rig.scrape(a=(0, 0), b=(0, 0), c=(5, 0))
    told = told_of(rig, rig.go())
    assert told.because == "it was least loaded with b (effective running 0), its turn"
    assert told.steps[2].note == "tied: round robin"
    assert dropped(told, 3) == {
        "b": "tied at effective running 0, not its turn",
        "c": "effective running 5 against 0",
    }
    told = told_of(rig, rig.go())
    assert told.because == "it was least loaded: effective running 0, the next has 1"
    assert told.steps[3].note == "the request carries no key"


def test_the_fallback_names_the_draw() -> None:
    rig = Rig().live("a", "b")
    rig.eject("a")
    rig.eject("b")
    told = told_of(rig, rig.go(draw=1))
    assert told.sentence.endswith(
        "went to b because no replica was LIVE or PROBING: "
        "the draw picked it among the EJECTED ones."
    )
    assert dropped(told, 5) == {"a": "not drawn"}
    note = "no replica is LIVE or PROBING: step 5 draws among the EJECTED ones"
    assert told.steps[0].note == note
    assert fates(told) == {"a": [5], "b": []}


def test_a_retry_that_tried_every_live_replica_says_so_before_it_is_drawn() -> None:
    rig = Rig().live("a", "b")
    rig.eject("b")
    first = rig.go()
    rig.fail(first, status=502)
    second = rig.retry(first)
    assert isinstance(second, Flown)
    told = told_of(rig, second)
    assert told.reason == "fallback"
    assert "because no other replica was LIVE or PROBING: the draw picked it" in told.sentence
    assert dropped(told, 1) == {"a": "this request already tried it"}
    assert fates(told) == {"a": [1], "b": []}


def test_a_response_goes_where_it_was_made() -> None:
    rig = Rig().live("a", "b")
    rig.finish(rig.go(), response="made")
    told = told_of(rig, rig.go(response="made"))
    assert told.reason == "affinity:response"
    assert "it made the response that this request continues" in told.sentence
    assert told.steps[1].note == "not asked: the request continues a response"
    assert dropped(told, 4) == {"b": "it did not make the response that goes on"}
    assert fates(told) == {"a": [], "b": [4]}


def test_a_probing_replica_drops_out_while_another_is_live() -> None:
    rig = Rig().live("a", "b")
    rig.probing("b")
    told = told_of(rig, rig.go())
    assert dropped(told, 2) == {"b": "PROBING: only when no LIVE replica can take it"}


def test_full_busy_and_stale_replicas_are_flagged() -> None:
    rig = Rig(settings(admission={"max_in_flight": 1})).live("a", "b", "c")
    rig.go()
    busy = rig.go()
    rig.fail(busy, status=429, retry_after_ms=60_000)
    rig.pass_s(10)
    told = told_of(rig, rig.go())
    assert told.replica == "c"
    assert dropped(told, 2) == {
        "a": "full: 1 in flight",
        "b": "busy: it answered 429 or 503",
    }
    flags = {seen.name: set(seen.flags) for seen in told.replicas}
    assert flags == {"a": {"stale", "full"}, "b": {"stale", "busy"}, "c": {"stale"}}


def test_attempts_are_chained_in_both_directions() -> None:
    rig = Rig().live("a", "b", "c")
    first = rig.go("s")
    rig.pass_s(0.25)
    rig.fail(first, status=502)
    second = rig.retry(first)
    assert isinstance(second, Flown)
    rig.finish(second)
    one, two = tell_all(source_of(rig), STREAM, [first.number, second.number])
    assert one.followed.end is not None
    assert (one.followed.end.what, one.followed.end.after_ms) == ("Failed", 250)
    assert one.followed.next_attempt == two.decision
    assert [(a.decision, a.replica) for a in two.earlier] == [(one.decision, first.replica)]
    assert two.earlier[0].end == one.followed.end
    assert dropped(two, 2) == {first.replica: "this request already tried it"}
    assert two.followed.end is not None
    assert two.followed.end.outcome == "ok"


def test_a_request_that_gave_up_is_followed_to_its_refusal() -> None:
    rig = Rig().live("a")
    flown = rig.go()
    rig.fail(flown, status=502)
    assert rig.retry(flown) is None
    rig.do(Refuse(at_ms=rig.at_ms, request_id=flown.event.request_id, code="overloaded"))
    told = told_of(rig, flown)
    assert (told.followed.next_attempt, told.followed.refused) == (None, "overloaded")


def test_an_orphan_and_one_in_flight_are_told_apart() -> None:
    rig = Rig().live("a", "b")
    orphan = rig.go()
    rig.restart()
    flying = rig.go()
    ends = [told_of(rig, flown).followed.end for flown in (orphan, flying)]
    assert ends[0] is not None
    assert (ends[0].what, ends[0].outcome) == ("Orphaned", "unknown")
    assert ends[1] is None


def test_a_decision_that_comes_out_differently_shows_both() -> None:
    rig, flown = pinned()
    source = Source(store_of(changed(rig.log.entries, flown.number, replica="d")))
    told = tell(source, STREAM, flown.number)
    assert not told.verified
    assert told.difference == "not deterministic"
    assert (
        "went to d (affinity:session); today's code chooses a (affinity:session)" in told.sentence
    )
    assert (told.recorded[0]["replica"], told.recomputed[0]["replica"]) == ("d", "a")


def test_every_decision_of_a_busy_day_is_explained_and_verified() -> None:
    rig = busy_day(150)
    source = source_of(rig)
    numbers = [i for i, e in enumerate(rig.log.entries, 1) if e.kind == "Dispatched"]
    for told in tell_all(source, STREAM, numbers):
        assert told.verified
        assert told.sentence.startswith(f"{told.decision} went to {told.replica} because ")
        names = [seen.name for seen in told.replicas]
        left = names
        for step in told.steps[:3]:
            assert sorted([*step.left, *dropped(told, step.number)]) == sorted(left)
            left = list(step.left)
        assert told.steps[3].left == (told.replica,)
        outs = {name: len(steps) for name, steps in fates(told).items()}
        assert outs == {name: int(name != told.replica) for name in names}, told.decision


def test_the_admin_port_gets_json_or_what_is_there() -> None:
    rig, flown = pinned()
    store = store_of(rig.log.entries)
    data = explain_decision(store, "r1", flown.number)
    assert data is not None
    again = json.loads(json.dumps(data))
    assert again == data
    assert data["decision"] == f"r1/{flown.number}"
    assert [step["name"] for step in data["steps"]] == [
        "pool",
        "no-wait",
        "least loaded",
        "pin",
        "fallback",
    ]
    with pytest.raises(NotFound, match="the nearest decision is"):
        explain_decision(store, "r1", flown.number + 1)
    with pytest.raises(NotFound, match="no router 'r9'"):
        explain_decision(store, "r9", 1)


GOLDEN = """\
r1/11 went to a because its session pin was usable: 4 running there against a minimum of 3, slack 1.
request   q2, model m, weight 1 (4000 prompt bytes), attempt 1
keys      session s
time      <time>

  replica state scraped  age in flight wlc running eff. run eff. wait cooldown flags
> a       LIVE  4+0     0 ms         0   0       4        4         0
  b       LIVE  3+0     0 ms         0   0       3        3         0
  c       LIVE  3+0     0 ms         0   0       3        3         0
  d       LIVE  3+0     0 ms         0   0       3        3         0

1 pool          a, b, c, d remain
2 no-wait       a, b, c, d remain
3 least loaded  a, b remain; out: c (tied at effective running 3, not its turn), d (tied at \
effective running 3, not its turn); tied: round robin; a stays for its pin (effective running 4 \
against 3)
4 pin           a remains; out: b (least loaded, but a usable session pin goes first); its session \
pin was usable: 4 running there against a minimum of 3, slack 1
5 fallback      not needed

pin       session s to a, 0 spills in a row before
winner    a, reason affinity:session
followed  ok, first byte after 5 ms, took 10 ms, 100 bytes
verified  today's code decides the same from the same past
"""


def test_the_page_of_a_decision(capsys: pytest.CaptureFixture[str]) -> None:
    rig, flown = pinned()
    rig.finish(flown)
    present_told(console_for(), told_of(rig, flown), rig.at_ms)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    page = "\n".join("time      <time>" if line.startswith("time ") else line for line in lines)
    assert page + "\n" == GOLDEN.replace("r1/11", f"r1/{flown.number}")


def test_what_is_no_decision_is_answered_with_what_is_near() -> None:
    rig = Rig().live("a", "b")
    first = rig.go("s")
    rig.finish(first)
    second = rig.go("s")
    source = source_of(rig)
    last = len(rig.log.entries)
    near = f"the nearest decisions are r1/{first.number} and r1/{second.number}"
    with pytest.raises(NotFound) as found:
        tell(source, STREAM, second.number - 1)
    assert str(found.value) == (
        f"the log holds r1/1 to r1/{last}; r1/{second.number - 1} is a Released of "
        f"r1/{first.number}, not a decision; {near}"
    )
    with pytest.raises(NotFound, match=f"the nearest decision is r1/{second.number}$"):
        tell(source, STREAM, 9999)
    with pytest.raises(
        NotFound,
        match=f"r1/1 is a Started, not a decision; the nearest decision is r1/{first.number}$",
    ):
        tell(source, STREAM, 1)
    with pytest.raises(NotFound, match="no router 'r7'; its routers are r1"):
        tell(source, "router/r7", 1)


def test_pages_end_nowhere_in_particular() -> None:
    """A store that gives few rows at a time tells the same story."""
    rig = busy_day(60)
    store = store_of(rig.log.entries)

    class Slow:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def read_stream(self, stream: str, after: int = 0, limit: int = 1000) -> list[object]:
            return list(islice(store.read_stream(stream, after, limit), 3))

    number = max(i for i, e in enumerate(rig.log.entries, 1) if e.kind == "Dispatched")
    slow = Source(Slow())  # type: ignore[arg-type]  # the reading half is passed through
    assert tell(slow, STREAM, number) == tell(Source(store), STREAM, number)
