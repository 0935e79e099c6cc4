"""What step 4 found, in words: the pin it looked at and why it was usable or not (RULES 4, 5)."""

from trioroute.events import InForce
from trioroute.events.words import DeadPin
from trioroute.policy.candidates import Candidate
from trioroute.policy.select import Choice, PinLook
from trioroute.policy.work_words import count

TRIED = "this request already tried it"
QUEUES = {
    "queue": "{waiting} waiting there",
    "busy": "busy: it answered 429 or 503",
    "stalled": "stalled: it runs requests but generates no token",
    "": "not a candidate",
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
        return TRIED
    if pin.spill == "full":
        return f"full: {home.own} in flight"
    return QUEUES[pin.spill or ""].format(waiting=count(home.effective_waiting_m))
