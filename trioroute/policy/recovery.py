"""Out of traffic and back: eject, cooldown, probing, live (RULES 6).

Only scrapes bring a replica back (6.3): a user's request is never the first check of a revived one.
"""

from trioroute.events import Ejected, Event, Live, Probing, Reading, Scraped, ScrapeFailed
from trioroute.events.words import Cause, ChangedBy
from trioroute.policy.commands import Fail, Finish, Observe, ObserveFailure
from trioroute.projections import Flight, Health, State
from trioroute.projections.health import BUSY_STATUSES, FAULT_STATUSES

AT_ONCE: tuple[Cause, ...] = ("refused", "reset")
"""Nothing listens there: one is enough (RULES 6.2)."""


def observe(state: State, command: Observe) -> list[Event]:
    """Log a round's readings and what follows from them."""
    changed: dict[str, Reading] = {}
    same: list[str] = []
    for name, reading in command.readings.items():
        if name not in state.health:
            continue  # it left while it was being scraped
        known = state.load.replicas.get(name)
        if known is not None and known.last == reading:
            same.append(name)
        else:
            changed[name] = reading
    if not changed and not same:
        return []
    events: list[Event] = [Scraped(readings=changed, same=tuple(same))]
    for name, reading in command.readings.items():
        health = state.health.get(name)
        if health is None:
            continue
        if health.stage == "JOINING":
            if state.fleet.replicas[name].models or reading.models:
                events.append(Live(replica=name))
        else:
            events += progress(state, name, health, command.at_ms, health.good_scrapes + 1)
    return events


def progress(state: State, name: str, health: Health, at_ms: int, good_scrapes: int) -> list[Event]:
    """The steps back into traffic that time and good scrapes allow (RULES 6.4, 6.5)."""
    rules = state.settings.probing
    if health.stage == "EJECTED":
        if at_ms >= health.until_ms and good_scrapes >= rules.good_scrapes:
            return [Probing(replica=name)]
    elif health.stage == "PROBING" and at_ms - health.since_ms >= rules.window_ms:
        return [Live(replica=name)]
    return []


def observe_failure(state: State, command: ObserveFailure) -> list[Event]:
    health = state.health.get(command.replica)
    if health is None:
        return []
    events: list[Event] = [
        ScrapeFailed(replica=command.replica, cause=command.cause, status=command.status)
    ]
    enough = health.scrape_failures + 1 >= state.settings.eject.scrape_failures
    live_out = health.stage == "LIVE" and (command.cause in AT_ONCE or enough)
    if live_out or health.stage == "PROBING":  # RULES 6.2, 6.6
        events.append(eject(state, command.replica, health, command.at_ms, command.cause))
    return events


def busy_ms(state: State, ending: Fail | Finish) -> int | None:
    """How long an answer keeps its replica busy (RULES 6.2), None if it does not.

    429 and 503 do, with or without ``Retry-After``; 500, 502 and 504 never do.
    """
    if ending.status in FAULT_STATUSES:
        return None
    if ending.status in BUSY_STATUSES and ending.retry_after_ms is None:
        return state.settings.eject.busy_default_ms
    return ending.retry_after_ms


def judge_ending(
    state: State, flight: Flight, ending: Fail | Finish, *, before_first_byte: bool
) -> list[Event]:
    """Eject after an ending that speaks against the replica (RULES 6.2, 6.6), or nothing."""
    name = flight.replica
    health = state.health.get(name)
    if health is None or not health.concerns(flight.at_ms):
        return []
    blamed = ending.blame == "replica" and busy_ms(state, ending) is None
    if health.stage == "PROBING":
        out = blamed or (ending.status is not None and ending.status >= 500)
    elif health.stage == "LIVE" and blamed:
        at_once = before_first_byte and ending.cause in AT_ONCE
        out = at_once or health.request_failures + 1 >= state.settings.eject.request_failures
    else:
        out = False
    return [eject(state, name, health, ending.at_ms, ending.cause)] if out else []


def eject(
    state: State,
    name: str,
    health: Health,
    at_ms: int,
    cause: Cause,
    by: ChangedBy | None = None,
    why: str = "",
) -> Ejected:
    """RULES 6.7: the n-th eject in a row costs 30 s * 2^(n-1), at most 300 s."""
    rules = state.settings.eject
    again = health.stage == "PROBING" or at_ms - health.live_since_ms <= rules.streak_window_ms
    n = health.streak(at_ms, state.settings) + 1 if again else 1
    cooldown_ms = min(rules.cooldown_max_ms, rules.cooldown_ms << min(n - 1, 32))
    until_ms = at_ms + cooldown_ms
    return Ejected(replica=name, cause=cause, n=n, until_ms=until_ms, by=by, why=why)
