"""A choice in words: who dropped out at which step and why, the pin, the winner (RULES 4).

Tells only what the trace of ``select`` holds, so an explanation cannot drift from the rule.
Sentences are parts without a subject ("its session pin was usable: ..."), for the caller knows the
decision's name.
"""

from collections.abc import Iterable

import attrs

from trioroute.events import InForce
from trioroute.events.words import DeadPin
from trioroute.policy.candidates import Candidate
from trioroute.policy.commands import Arrive
from trioroute.policy.select import Choice, PinLook
from trioroute.policy.work_words import because as because_of_work
from trioroute.policy.work_words import why_more, won


@attrs.frozen
class Dropped:
    """A replica that a step passed over."""

    replica: str
    why: str


@attrs.frozen
class Step:
    """One of the five steps; ``left`` are the replicas that remain after it, in pool order."""

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


def count(thousandths: int) -> str:
    """``4000`` is "4", ``1250`` is "1.25": thousandths as people read them, without a float."""
    whole, rest = divmod(thousandths, 1000)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)


def _names(candidates: Iterable[Candidate]) -> tuple[str, ...]:
    return tuple(c.name for c in candidates)


_OUT_OF_TRAFFIC = {
    "EJECTED": "EJECTED: out of traffic until its cooldown is over and scrapes are good",
    "DRAINING": "DRAINING: takes no new request",
    "JOINING": "JOINING: no good scrape yet, or its engine sleeps",
}


def _pool(choice: Choice) -> Step:
    kept = _names(choice.routable)
    dropped = tuple(
        Dropped(c.name, _OUT_OF_TRAFFIC.get(c.standing, c.standing))
        for c in choice.pool
        if c.name not in kept
    )
    if not choice.pool:
        note = "no replica serves this model"
    elif not kept:
        note = "no replica is LIVE or PROBING"
    else:
        note = ""
    return Step(1, "pool", kept, dropped, note)


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
        return "this request already tried it"
    if c.full:
        limit = settings.probing.max_in_flight if c.standing == "PROBING" else 0
        at_most = f", at most {limit} while PROBING" if limit else ""
        return f"full: {c.own} in flight{at_most}"
    if c.standing == "PROBING":
        return "PROBING: only when no LIVE replica can take it"
    return _QUEUES[c.queueing].format(waiting=count(c.effective_waiting_m))


_QUEUES = {
    "queue": "{waiting} waiting there",
    "busy": "busy: it answered 429 or 503",
    "stalled": "stalled: it runs requests but generates no token",
    "": "not a candidate",
}


def _least_loaded(choice: Choice) -> Step:
    least = choice.least
    if choice.weighed:
        return _least_work(choice)
    if least is None:
        return Step(3, "least loaded", (), (), _not_reached(choice))
    dropped = tuple(
        Dropped(c.name, _why_not_least(c, least)) for c in choice.no_wait if c.name != least.name
    )
    tied = any(c.effective_running_m == least.effective_running_m for c in _others(choice))
    note = "tied: round robin" if tied else ""
    return Step(3, "least loaded", (least.name,), dropped, note)


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
    if choice.least is None:
        return Step(4, "pin", (), (), _not_reached(choice))
    if choice.weighed:
        return Step(4, "pin", winner, (), "least-work looks at no pins")
    if sentence is not None:
        return Step(4, "pin", winner, (), sentence)
    keys = [kind for kind, key in (("session", arrive.session), ("prefix", arrive.prefix)) if key]
    note = f"no pin for its {' or '.join(keys)} key" if keys else "the request carries no key"
    return Step(4, "pin", winner, (), note)


def _fallback(choice: Choice) -> Step:
    if choice.reason == "fallback":
        assert choice.replica is not None
        ejected = [c.name for c in choice.pool if c.standing == "EJECTED" and not c.tried]
        dropped = tuple(Dropped(name, "not drawn") for name in ejected if name != choice.replica)
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

_DEAD: dict[DeadPin, str] = {
    "ejected": "is EJECTED",
    "probing": "is PROBING and takes no pin",
    "draining": "is DRAINING",
    "joining": "has not joined",
    "asleep": "is asleep",
    "gone": "is not in the pool",
}


def pin_sentence(choice: Choice, settings: InForce) -> str | None:
    """What step 4 found, None if it looked at no pin."""
    pin = choice.pin
    if pin is None:
        return None
    if pin.usable:
        return f"its {pin.kind} pin was usable: {_counted(choice, pin, settings)}"
    if pin.dead is not None:
        return f"its {pin.kind} pin was dead: {pin.replica} {_dead(choice, pin, pin.dead)}"
    said = _spilled(choice, pin, settings)
    if choice.replica == pin.replica:
        return f"its {pin.kind} pin was not usable ({said}), yet step 3 chose the same replica"
    said += f", spill {pin.spills + 1} in a row"
    if pin.force and pin.kind == "session":
        said += ", far enough above the minimum to rebind at once"
    return f"its {pin.kind} pin to {pin.replica} spilled: {said}"


def _dead(choice: Choice, pin: PinLook, cause: DeadPin) -> str:
    home = _home(choice, pin)
    if cause == "ejected" and home is not None and home.standing != "EJECTED":
        return "was ejected after the pin was made, which ends a pin for good"
    return _DEAD[cause]


def _home(choice: Choice, pin: PinLook) -> Candidate | None:
    return next((c for c in choice.pool if c.name == pin.replica), None)


def _counted(choice: Choice, pin: PinLook, settings: InForce) -> str:
    home = _home(choice, pin)
    slack = settings.policy.slack
    allowed = slack.session if pin.kind == "session" else slack.prefix
    running = count(home.running_m) if home is not None else "?"
    least = count(choice.min_running_m)
    return f"{running} running there against a minimum of {least}, slack {allowed}"


def _spilled(choice: Choice, pin: PinLook, settings: InForce) -> str:
    home = _home(choice, pin)
    if pin.spill == "running" or home is None:
        return _counted(choice, pin, settings)
    if pin.spill == "tried":
        return "this request already tried it"
    if pin.spill == "full":
        return f"full: {home.own} in flight"
    return _QUEUES[pin.spill or ""].format(waiting=count(home.effective_waiting_m))


def _because(choice: Choice, pin: str | None) -> str:
    if choice.verdict != "chosen":
        return _VERDICTS[choice.verdict]
    if choice.reason == "affinity:response":
        return "it made the response that this request continues, and only it can"
    if choice.reason == "fallback":
        return "no replica was LIVE or PROBING: the draw picked it among the EJECTED ones"
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
