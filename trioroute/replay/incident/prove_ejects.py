"""What would have prevented an eject: its command, decided again (RULES 6.2, 6.6)."""

from trioroute.events import Ejected, Event, Failed, Released, ScrapeFailed
from trioroute.policy.commands import Fail, Finish, ObserveFailure
from trioroute.policy.decide import decide
from trioroute.projections import State
from trioroute.replay.incident.changed import Proof, first_that, length, raised
from trioroute.replay.words import cause_words, plural

_AT_ONCE = {"refused": "it refused a connection", "reset": "it reset a connection"}


def command_of(event: Event, at_ms: int) -> ObserveFailure | Fail | Finish | None:
    """The command that a row of trouble is the first answer to."""
    match event:
        case ScrapeFailed():
            return ObserveFailure(
                at_ms=at_ms, replica=event.replica, cause=event.cause, status=event.status
            )
        case Failed():
            return Fail(
                at_ms=at_ms,
                dispatch=event.dispatch,
                cause=event.cause,
                blame=event.blame,
                status=event.status,
                retry_after_ms=event.retry_after_ms,
            )
        case Released():
            return Finish(
                at_ms=at_ms,
                dispatch=event.dispatch,
                outcome=event.outcome,
                cause=event.cause,
                blame=event.blame,
                status=event.status,
                ttfb_ms=event.ttfb_ms,
                duration_ms=event.duration_ms,
                bytes=event.bytes,
                prompt_tokens=event.prompt_tokens,
                completion_tokens=event.completion_tokens,
                response=event.response,
                retry_after_ms=event.retry_after_ms,
            )
        case _:
            return None


def eject_proof(
    place: str, at_ms: int, event: Ejected, before: Event, state: State
) -> Proof | None:
    """``state`` is that of just before ``before``, the row that led to the eject at ``place``."""
    command = command_of(before, at_ms)
    health = state.health.get(event.replica)
    if command is None or health is None or decide(state, command) != [before, event]:
        return None
    name, scrape = event.replica, isinstance(before, ScrapeFailed)
    if health.stage == "PROBING":
        why = "it was PROBING, where one failed scrape or request is enough (RULES 6.6)"
        return Proof(None, f"no setting of the router prevents that {name} was ejected: {why}")
    eject = state.settings.eject
    key = "eject.scrape_failures" if scrape else "eject.request_failures"
    now = eject.scrape_failures if scrape else eject.request_failures
    count = (health.scrape_failures if scrape else health.request_failures) + 1
    change = first_that(state, command, raised(key, now, max(now, count) + 1), _no_eject)
    if change is None:
        what = _AT_ONCE.get(event.cause, event.cause)
        why = f"{what}, and once is enough (RULES 6.2)"
        return Proof(None, f"no setting of the router prevents that {name} was ejected: {why}")
    if not scrape:
        was = cause_words(event, before)
        return Proof(
            None,
            f"ejecting {name} at {place} was right: it failed {plural(count, 'request')} in a row "
            f"({was}); a larger {key} would only have let it fail more of them",
        )
    text = (
        f"the eject of {name} at {place} came at failed scrape {count} in a row: with "
        f"{change.words} it would not have come there"
    )
    if event.cause == "timeout":
        limit = length(state.settings.scrape.timeout_ms)
        text += f"; whether a scrape.timeout above {limit} would have, the log does not tell"
    return Proof(change, text)


def _no_eject(events: list[Event]) -> bool:
    return not any(isinstance(event, Ejected) for event in events)
