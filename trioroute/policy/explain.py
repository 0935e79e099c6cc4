"""A choice in words: who dropped out at which step and why, the pin, the winner (RULES 4).

Tells only what the trace of ``select`` holds, so an explanation cannot drift from the rule.
Sentences are parts without a subject ("its session pin was usable: ..."), for the caller knows the
decision's name.
"""

from collections.abc import Iterable

import attrs

from trioroute.events import InForce
from trioroute.policy.candidates import Candidate
from trioroute.policy.commands import Arrive
from trioroute.policy.pin_words import QUEUES, TRIED, pin_sentence
from trioroute.policy.select import Choice
from trioroute.policy.work_words import because as because_of_work
from trioroute.policy.work_words import count as count
from trioroute.policy.work_words import why_more, won


@attrs.frozen
class Dropped:
    """A replica that a step passed over."""

    replica: str
    why: str


@attrs.frozen
class Step:
    """One of the five steps; ``left`` are the replicas that remain after it, in pool order.

    The winner is never among ``dropped``, every other replica of the pool once: what a later step
    may still take stays, with a note. A step that was not reached has neither.
    """

    number: int
    name: str
    left: tuple[str, ...]
    dropped: tuple[Dropped, ...]
    note: str


@attrs.frozen
class Explanation:
    """``because`` says why the winner won; ``pin`` says what became of the pin, None without."""

    steps: tuple[Step, ...]
    pin: str | None
    because: str


def explain(choice: Choice, arrive: Arrive, settings: InForce) -> Explanation:
    """The five steps of ``choice`` in words, given what it was made of."""
    pin = pin_sentence(choice, settings)
    return Explanation(
        steps=(
            _pool(choice),
            _no_wait(choice, settings),
            _least_loaded(choice),
            _pin(choice, arrive, pin),
            _fallback(choice),
        ),
        pin=pin,
        because=_because(choice, pin),
    )


def _names(candidates: Iterable[Candidate]) -> tuple[str, ...]:
    return tuple(c.name for c in candidates)


_OUT_OF_TRAFFIC = {
    "EJECTED": "EJECTED: out of traffic until its cooldown is over and scrapes are good",
    "DRAINING": "DRAINING: takes no new request",
    "JOINING": "JOINING: no good scrape yet, or its engine sleeps",
}


def _pool(choice: Choice) -> Step:
    drawn = _drawn_among(choice)
    kept = _names(choice.routable) or drawn
    dropped = tuple(Dropped(c.name, _why_not_in(c)) for c in choice.pool if c.name not in kept)
    if not choice.pool:
        note = "no replica serves this model"
    elif choice.routable:
        note = ""
    else:
        note = _nobody(choice) + (": step 5 draws among the EJECTED ones" if drawn else "")
    return Step(1, "pool", kept, dropped, note)


def _why_not_in(c: Candidate) -> str:
    if c.tried and c.standing not in _OUT_OF_TRAFFIC:
        return TRIED
    return _OUT_OF_TRAFFIC.get(c.standing, c.standing)


def _nobody(choice: Choice) -> str:
    """Of the candidates a retry is not sent to those that it tried (RULES 4.6)."""
    other = "other " if any(c.tried for c in choice.pool) else ""
    return f"no {other}replica is LIVE or PROBING"


def _drawn_among(choice: Choice) -> tuple[str, ...]:
    """Whom step 5 drew among; none where it was not needed."""
    if choice.reason != "fallback":
        return ()
    return tuple(c.name for c in choice.pool if c.standing == "EJECTED" and not c.tried)


def _no_wait(choice: Choice, settings: InForce) -> Step:
    if not choice.no_wait:
        return Step(2, "no-wait", (), (), _not_reached(choice))
    kept = _names(choice.no_wait)
    dropped = tuple(
        Dropped(c.name, _why_waits(c, settings)) for c in choice.routable if c.name not in kept
    )
    if all(c.standing == "PROBING" for c in choice.no_wait):
        note = "no LIVE replica can take it: PROBING ones may"
    elif choice.weighed:
        passed_over = all(c.queueing in ("busy", "stalled") for c in choice.no_wait)
        note = "every LIVE replica is busy or stalled: all of them stay" if passed_over else ""
    elif all(c.queueing for c in choice.no_wait):
        note = "every LIVE replica has a queue: all of them stay"
    else:
        note = ""
    return Step(2, "no-wait", kept, dropped, note)


def _not_reached(choice: Choice) -> str:
    if choice.reason == "affinity:response":
        return "not asked: the request continues a response"
    if choice.verdict == "wait":
        return "only full replicas: the request waits in line"
    return "not reached"


def _why_waits(c: Candidate, settings: InForce) -> str:
    if c.tried:
        return TRIED
    if c.full:
        limit = settings.probing.max_in_flight if c.standing == "PROBING" else 0
        at_most = f", at most {limit} while PROBING" if limit else ""
        return f"full: {c.own} in flight{at_most}"
    if c.standing == "PROBING":
        return "PROBING: only when no LIVE replica can take it"
    return QUEUES[c.queueing].format(waiting=count(c.effective_waiting_m))


def _least_loaded(choice: Choice) -> Step:
    least = choice.least
    if choice.weighed:
        return _least_work(choice)
    if least is None:
        return Step(3, "least loaded", (), (), _not_reached(choice))
    left = tuple(c.name for c in choice.no_wait if c.name in (least.name, choice.replica))
    reasons = {c.name: _why_not_least(c, least) for c in _others(choice)}
    dropped = tuple(Dropped(name, why) for name, why in reasons.items() if name not in left)
    tied = any(c.effective_running_m == least.effective_running_m for c in _others(choice))
    notes = ["tied: round robin"] if tied else []
    notes += [f"{name} stays for its pin ({reasons[name]})" for name in left if name in reasons]
    return Step(3, "least loaded", left, dropped, "; ".join(notes))


def _least_work(choice: Choice) -> Step:
    least = won(choice)
    more = [one for one in choice.weighed if one is not least]
    dropped = tuple(Dropped(one.name, why_more(one, least)) for one in more)
    return Step(3, "least work", (least.name,), dropped, "")


def _others(choice: Choice) -> list[Candidate]:
    return [c for c in choice.no_wait if c != choice.least]


def _why_not_least(c: Candidate, least: Candidate) -> str:
    if c.effective_running_m == least.effective_running_m:
        return f"tied at effective running {count(c.effective_running_m)}, not its turn"
    mine, theirs = count(c.effective_running_m), count(least.effective_running_m)
    return f"effective running {mine} against {theirs}"


def _pin(choice: Choice, arrive: Arrive, sentence: str | None) -> Step:
    winner = (choice.replica,) if choice.replica is not None else ()
    if choice.reason == "affinity:response":
        return Step(4, "pin", winner, _not_the_maker(choice), "only it can continue the response")
    if choice.least is None:
        return Step(4, "pin", (), (), _not_reached(choice))
    if choice.weighed:
        return Step(4, "pin", winner, (), "least-work looks at no pins")
    if sentence is not None:
        return Step(4, "pin", winner, _passed_over(choice, choice.least), sentence)
    keys = [kind for kind, key in (("session", arrive.session), ("prefix", arrive.prefix)) if key]
    note = f"no pin for its {' or '.join(keys)} key" if keys else "the request carries no key"
    return Step(4, "pin", winner, (), note)


def _not_the_maker(choice: Choice) -> tuple[Dropped, ...]:
    return tuple(
        Dropped(c.name, TRIED if c.tried else "it did not make the response that goes on")
        for c in choice.routable
        if c.name != choice.replica
    )


def _passed_over(choice: Choice, least: Candidate) -> tuple[Dropped, ...]:
    """The least loaded, where a usable pin goes before it (RULES 4, step 4)."""
    if least.name == choice.replica or choice.pin is None:
        return ()
    return (Dropped(least.name, f"least loaded, but a usable {choice.pin.kind} pin goes first"),)


def _fallback(choice: Choice) -> Step:
    if choice.reason == "fallback":
        assert choice.replica is not None
        drawn = _drawn_among(choice)
        dropped = tuple(Dropped(name, "not drawn") for name in drawn if name != choice.replica)
        return Step(5, "fallback", (choice.replica,), dropped, "drawn among the EJECTED ones")
    if choice.verdict == "chosen":
        return Step(5, "fallback", (), (), "not needed")
    return Step(5, "fallback", (), (), _VERDICTS[choice.verdict])


_VERDICTS = {
    "wait": "only full replicas were found: the request waits in line (RULES 4.7)",
    "unhealthy": "no replica is routable and none may be tried: no_healthy_instances",
    "unknown_model": "no replica ever served this model: model_not_found",
    "exhausted": "every replica was already tried by this request",
}


def _because(choice: Choice, pin: str | None) -> str:
    if choice.verdict != "chosen":
        return _VERDICTS[choice.verdict]
    if choice.reason == "affinity:response":
        return "it made the response that this request continues, and only it can"
    if choice.reason == "fallback":
        nobody = _nobody(choice).replace(" is ", " was ")
        return f"{nobody}: the draw picked it among the EJECTED ones"
    if choice.weighed:
        return because_of_work(choice)
    assert choice.least is not None
    if choice.reason != "load":
        assert pin is not None
        return pin
    least = _least_words(choice, choice.least)
    return f"{pin}; {least}" if pin is not None else least


def _least_words(choice: Choice, least: Candidate) -> str:
    load = count(least.effective_running_m)
    others = _others(choice)
    if not others:
        return f"it was the only candidate (effective running {load})"
    tied = [c.name for c in others if c.effective_running_m == least.effective_running_m]
    if tied:
        return f"it was least loaded with {', '.join(tied)} (effective running {load}), its turn"
    next_m = min(c.effective_running_m for c in others)
    return f"it was least loaded: effective running {load}, the next has {count(next_m)}"
