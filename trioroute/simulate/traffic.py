"""Clients and their requests on the way through the router, as the proxy takes them.

arrive -> Dispatched -> submit -> first token -> done -> Finish, and the client thinks
             |            +-- refused, or cut before a byte -> Fail, and chosen again
             +-- Refused, or a place in the line
The router and the network take no time; the status of a stream is known with its first token.
"""

import random
from collections import deque
from functools import partial

import attrs

from trioroute.events import Dispatched, Refused
from trioroute.events.words import Cause, Outcome
from trioroute.policy.commands import Arrive, Fail, Finish, Refuse
from trioroute.policy.policies import asks_for_blocks
from trioroute.policy.retry_budget import RetryBudget
from trioroute.router import Decided, Router
from trioroute.simulate.baselines import Sight
from trioroute.simulate.clock import MS_NS, Clock
from trioroute.simulate.fleet import SimReplica
from trioroute.simulate.measures import Measures
from trioroute.simulate.script import BYTES_PER_TOKEN, MODEL, Request, Script
from trioroute.simulate.steps import Sequence, sequence_of


@attrs.define(eq=False, slots=True)
class Journey:
    """One request of one client, over all its attempts."""

    request: Request
    script: Script
    turn: int
    begun_ns: int
    attempt: int = 1
    tried: tuple[str, ...] = ()
    earlier: tuple[int, ...] = ()
    replica: str = ""
    dispatch: int = 0
    dispatched_ns: int = 0
    first_ns: int | None = None
    sequence: Sequence | None = None
    ticket: int = 0
    joined_ms: int = 0
    waited_ms: int = 0
    over: bool = False


class Traffic:
    """All clients of a run. ``pending`` counts requests that are not over yet."""

    def __init__(
        self,
        clock: Clock,
        router: Router,
        fleet: dict[str, SimReplica],
        measures: Measures,
        rng: random.Random,
        *,
        with_keys: bool,
        sight: Sight,
    ) -> None:
        """``with_keys``: arrivals carry session and prefix. ``sight`` is kept for baselines."""
        self.pending = 0
        self._clock = clock
        self._router = router
        self._fleet = fleet
        self._measures = measures
        self._rng = rng
        self._with_keys = with_keys
        self._sight = sight
        self._budget = RetryBudget()
        self._line: deque[Journey] = deque()
        self._journeys: dict[int, Journey] = {}
        self._tickets = 0
        self._called = False
        router.listeners.append(self._after)

    def journeys_on(self, replica: str) -> list[Journey]:
        """What is on its way there now, in order of dispatch."""
        return [one for one in self._journeys.values() if one.replica == replica]

    def begin(self, scripts: tuple[Script, ...]) -> None:
        """Let every client come at its time."""
        for script in scripts:
            self.pending += len(script.turns)
            self._clock.after(
                script.start_ms + script.turns[0].think_ms, partial(self._turn, script, 0)
            )

    def _turn(self, script: Script, turn: int) -> None:
        journey = Journey(script.turns[turn].request, script, turn, self._clock.now_ns)
        self._budget.request(self._clock.at_ms)
        if self._line:
            self._stand_in_line(journey)
        else:
            self._decide(journey)

    def _arrive(self, journey: Journey) -> Arrive:
        request, keys = journey.request, self._with_keys
        return Arrive(
            at_ms=self._clock.at_ms,
            request_id=request.name,
            model=MODEL,
            prompt_bytes=request.prompt_tokens * BYTES_PER_TOKEN,
            session=request.session if keys else None,
            prefix=request.prefix if keys else None,
            draw=self._rng.getrandbits(63),
            attempt=journey.attempt,
            tried=journey.tried,
            earlier=journey.earlier,
            blocks=request.named_blocks if asks_for_blocks(self._router.state.settings) else (),
            waited_ms=journey.waited_ms,
        )

    def _decide(self, journey: Journey) -> None:
        """Send it, let it wait where only full replicas were found, or end it."""
        arrive = self._arrive(journey)
        self._sight.request = journey.request
        decided = self._router.handle(arrive)
        first = decided.events[0] if decided.events else None
        if isinstance(first, Dispatched):
            self._dispatched(journey, decided.first, first)
        elif isinstance(first, Refused):
            self._end(journey, error=True)
        elif self._router.look(arrive).verdict == "wait":
            self._stand_in_line(journey)
        else:
            self._end(journey, error=True)

    def _dispatched(self, journey: Journey, number: int, event: Dispatched) -> None:
        request, clock = journey.request, self._clock
        journey.dispatch = number
        journey.dispatched_ns = clock.now_ns
        journey.replica = event.replica
        replica = self._fleet[event.replica]
        self._measures.dispatched(clock.at_ms, event.replica)
        self._sight.dispatched(event.replica)
        if replica.down:
            clock.after(0, partial(self._lost, journey, "refused", sent=False))
            return
        if not replica.engine.fits(request.prompt_tokens, request.output_tokens):
            self._finish(journey, "client_error", "status", status=400)
            return
        sequence = sequence_of(request)
        journey.sequence = sequence
        self._journeys[id(sequence)] = journey
        limit_ms = self._router.state.settings.timeouts.first_byte_ms
        if limit_ms:
            clock.after(limit_ms, partial(self._first_byte_limit, journey, number))
        replica.submit(sequence)

    # What the replicas tell

    def first_token(self, sequence: Sequence) -> None:
        journey = self._journeys[id(sequence)]
        if journey.first_ns is None:
            journey.first_ns = self._clock.now_ns

    def done(self, sequence: Sequence) -> None:
        self._finish(self._journeys[id(sequence)], "ok", "none", status=200)

    def cut(self, sequence: Sequence) -> None:
        """Its replica's process died."""
        journey = self._journeys[id(sequence)]
        if journey.first_ns is None:
            self._lost(journey, "reset", sent=True)
        else:
            self._finish(journey, "upstream_cut", "reset", status=200)

    def idle_limit(self, sequence: Sequence) -> None:
        """A stream that has not moved for the whole limit."""
        journey = self._journeys.get(id(sequence))
        if journey is not None and journey.first_ns is not None:
            self._fleet[journey.replica].abort(sequence)
            self._finish(journey, "idle_timeout", "timeout", status=200)

    def _first_byte_limit(self, journey: Journey, number: int) -> None:
        same_attempt = journey.dispatch == number and not journey.over
        if same_attempt and journey.first_ns is None and journey.sequence is not None:
            self._fleet[journey.replica].abort(journey.sequence)
            self._finish(journey, "first_byte_timeout", "timeout", status=None)

    # How attempts end

    def _lost(self, journey: Journey, cause: Cause, *, sent: bool) -> None:
        """No byte of an answer: try elsewhere if that is allowed and possible, else say so."""
        self._forget(journey)
        before = (journey.tried, journey.earlier)
        journey.tried += (journey.replica,)
        journey.earlier += (journey.dispatch,)
        journey.attempt += 1
        if not self._may_move(journey, sent):
            journey.tried, journey.earlier = before
            self._finish(journey, "upstream_error", cause, status=None)
            return
        self._router.handle(
            Fail(at_ms=self._clock.at_ms, dispatch=journey.dispatch, cause=cause, blame="replica")
        )
        self._decide(journey)

    def _may_move(self, journey: Journey, sent: bool) -> bool:
        retries = self._router.state.settings.retries
        if journey.attempt > retries.max + 1:
            return False
        self._sight.request = journey.request
        if self._router.look(self._arrive(journey)).verdict not in ("chosen", "wait"):
            return False
        return not sent or self._budget.try_again(self._clock.at_ms, retries.budget_m)

    def _finish(
        self, journey: Journey, outcome: Outcome, cause: Cause, *, status: int | None
    ) -> None:
        self._forget(journey)
        request, now_ns, first_ns = journey.request, self._clock.now_ns, journey.first_ns
        well = outcome == "ok"
        self._router.handle(
            Finish(
                at_ms=self._clock.at_ms,
                dispatch=journey.dispatch,
                outcome=outcome,
                cause=cause,
                blame="none" if well else "client" if outcome == "client_error" else "replica",
                status=status,
                ttfb_ms=None if first_ns is None else (first_ns - journey.dispatched_ns) // MS_NS,
                duration_ms=(now_ns - journey.dispatched_ns) // MS_NS,
                bytes=request.output_tokens * BYTES_PER_TOKEN if well else 0,
                prompt_tokens=request.prompt_tokens if well else None,
                completion_tokens=request.output_tokens if well else None,
            )
        )
        self._end(journey, error=not well)

    def _forget(self, journey: Journey) -> None:
        if journey.sequence is not None:
            self._journeys.pop(id(journey.sequence), None)
            journey.sequence = None

    def _end(self, journey: Journey, *, error: bool) -> None:
        """The request is over; its client goes on with its next turn, whatever came of this."""
        journey.over = True
        self.pending -= 1
        self._measures.ended(journey.begun_ns, journey.first_ns, self._clock.now_ns, error=error)
        following = journey.turn + 1
        if following < len(journey.script.turns):
            think_ms = journey.script.turns[following].think_ms
            self._clock.after(think_ms, partial(self._turn, journey.script, following))

    # The line of those who found only full replicas (RULES 4.7)

    def _stand_in_line(self, journey: Journey) -> None:
        limits = self._router.state.settings.admission
        if len(self._line) >= limits.max_waiting:
            self._turn_away(journey)
            return
        self._tickets += 1
        journey.ticket, journey.joined_ms = self._tickets, self._clock.at_ms
        self._line.append(journey)
        self._clock.after(limits.max_wait_ms, partial(self._waited, journey, journey.ticket))

    def _waited(self, journey: Journey, ticket: int) -> None:
        if journey.ticket == ticket:
            self._leave_line(journey)
            self._turn_away(journey)

    def _leave_line(self, journey: Journey) -> None:
        self._line.remove(journey)
        journey.ticket, journey.waited_ms = 0, self._clock.at_ms - journey.joined_ms

    def _turn_away(self, journey: Journey) -> None:
        refuse = Refuse(
            at_ms=self._clock.at_ms,
            request_id=journey.request.name,
            code="overloaded",
            model=MODEL,
            waited_ms=journey.waited_ms,
        )
        self._router.handle(refuse)
        self._end(journey, error=True)

    def _after(self, decided: Decided) -> None:
        """Whatever was decided may have made room, but not by somebody's getting a place."""
        if self._line and not self._called and not isinstance(decided.events[0], Dispatched):
            self._called = True
            self._clock.after(0, self._call_line)

    def _call_line(self) -> None:
        self._called = False
        for journey in tuple(self._line):
            self._sight.request = journey.request
            if self._router.look(self._arrive(journey)).verdict != "wait":
                self._leave_line(journey)
                self._decide(journey)
            elif not journey.tried:
                return  # the room there may be is at a replica that only the tried cannot use
