"""A router over a log in a list, in virtual time: what the tests of the rules drive.

Everything goes through ``Router.handle``, so everything is logged. ``verify`` folds the whole log
again from its bytes and must find the same state, every checkpoint and every decision.
"""

from collections.abc import Callable
from typing import Any, Literal

import attrs

from tests.listlog import ListLog, check_sums, refold
from trioroute import events as e
from trioroute.events.words import Blame, Cause, Outcome
from trioroute.policy import choose
from trioroute.policy import commands as c
from trioroute.policy.select import Choice
from trioroute.projections import State
from trioroute.projections.digest import digest
from trioroute.router import Decided, Router

MODEL = "m"
BEGIN_MS = 1_700_000_000_000
FOUR = ("a", "b", "c", "d")


def settings(**sections: dict[str, Any]) -> e.InForce:
    """Settings in force, the defaults changed section by section."""
    base = e.InForce()
    changed = {name: attrs.evolve(getattr(base, name), **keys) for name, keys in sections.items()}
    return attrs.evolve(base, **changed)


@attrs.frozen
class Flown:
    """A dispatch: its number, its event, and the pin events that came with it."""

    number: int
    event: e.Dispatched
    pins: tuple[e.Event, ...] = ()

    @property
    def replica(self) -> str:
        return self.event.replica

    @property
    def reason(self) -> str:
        return self.event.reason


Answer = Flown | e.Refused | None

_ENDINGS: dict[Outcome, tuple[Cause, Blame, int | None]] = {
    "ok": ("none", "none", 200),
    "client_error": ("status", "client", 400),
    "upstream_error": ("status", "replica", 500),
    "upstream_cut": ("fin", "replica", 200),
    "upstream_empty": ("fin", "replica", 200),
    "client_gone": ("cancelled", "client", 200),
    "first_byte_timeout": ("timeout", "replica", None),
    "idle_timeout": ("timeout", "replica", 200),
    "client_stall": ("timeout", "client", 200),
    "shutdown": ("shutdown", "router", None),
    "unknown": ("none", "none", None),
}


class Rig:
    def __init__(self, in_force: e.InForce | None = None, begin_ms: int = BEGIN_MS) -> None:
        self.log = ListLog()
        self.at_ms = begin_ms
        self.requests = 0
        self.asked: dict[int, c.Arrive] = {}
        self.router = Router(State(), self.log)
        self.start()
        self.configure(in_force or e.InForce())

    @property
    def state(self) -> State:
        return self.router.state

    def handle(self, command: c.Command) -> Decided:
        return self.router.handle(command)

    def do(self, command: c.Command) -> tuple[e.Event, ...]:
        return self.handle(command).events

    # Time

    def pass_s(self, seconds: float) -> "Rig":
        self.at_ms += round(seconds * 1000)
        return self

    def tick(self) -> tuple[e.Event, ...]:
        """A second tick follows: a due ``Checked`` comes alone."""
        first = self.do(c.Tick(at_ms=self.at_ms))
        again = self.do(c.Tick(at_ms=self.at_ms)) if _only_checked(first) else ()
        return (*first, *again)

    def calm(self, seconds: int, *names: str, step_s: int = 3) -> None:
        """Time passes in good scrapes of the same load as before (idle if there was none)."""
        end_ms = self.at_ms + seconds * 1000
        while self.at_ms < end_ms:
            self.pass_s(min(step_s, (end_ms - self.at_ms) / 1000))
            self.same(*names)
            self.tick()

    # The router's life

    def start(self) -> tuple[e.Event, ...]:
        return self.do(c.Start(at_ms=self.at_ms, router="r1", release="0", rules=1))

    def configure(self, in_force: e.InForce) -> None:
        self.do(c.Configure(at_ms=self.at_ms, settings=in_force))

    def restart(self) -> tuple[e.Event, ...]:
        """The router dies here and another one folds its log."""
        self.router = Router(refold(self.log.entries), self.log)
        return self.start()

    # The fleet

    def join(self, *names: str, models: tuple[str, ...] = (MODEL,)) -> None:
        for name in names:
            self.do(c.Join(at_ms=self.at_ms, replica=name, url=f"http://{name}:1", models=models))

    def live(self, *names: str, models: tuple[str, ...] = (MODEL,)) -> "Rig":
        """Join and be found idle: LIVE."""
        self.join(*names, models=models)
        self.scrape(**dict.fromkeys(names, (0, 0)))
        return self

    def leave(self, name: str) -> None:
        self.do(c.Leave(at_ms=self.at_ms, replica=name))

    def drain(self, name: str, on: bool = True) -> None:
        self.do(c.Drain(at_ms=self.at_ms, replica=name, on=on))

    def standing(self, name: str) -> str:
        return self.state.standing(name)

    # Scrapes

    def reading(
        self,
        name: str,
        running: int | None = 0,
        waiting: int | None = 0,
        *,
        tokens: int | None = None,
        asleep: bool = False,
        models: tuple[str, ...] | None = None,
    ) -> e.Reading:
        known = self.state.load.replicas.get(name)
        own = known.own if known is not None else 0
        return e.Reading(
            running=running,
            waiting=waiting,
            kv_m=None,
            tokens=tokens,
            asleep=asleep,
            own=own,
            models=models,
        )

    def scrape(self, **readings: tuple[int | None, int | None] | e.Reading) -> tuple[e.Event, ...]:
        full = {
            name: told if isinstance(told, e.Reading) else self.reading(name, *told)
            for name, told in readings.items()
        }
        return self.do(c.Observe(at_ms=self.at_ms, readings=full))

    def same(self, *names: str) -> tuple[e.Event, ...]:
        """The named replicas (or all) answer with the load they told last; idle if none."""
        readings: dict[str, e.Reading] = {}
        for name in names or tuple(self.state.fleet.replicas):
            last = self.state.load.of(name).last
            own = self.state.load.of(name).own
            readings[name] = attrs.evolve(last, own=own) if last is not None else self.reading(name)
        return self.do(c.Observe(at_ms=self.at_ms, readings=readings))

    def fail_scrape(self, name: str, cause: Cause = "timeout") -> tuple[e.Event, ...]:
        return self.do(c.ObserveFailure(at_ms=self.at_ms, replica=name, cause=cause))

    # Requests

    def arrive(
        self,
        session: str | None = None,
        prefix: str | None = None,
        *,
        tokens: int = 1000,
        response: str | None = None,
        model: str = MODEL,
        draw: int = 0,
        waited_ms: int = 0,
    ) -> Answer:
        self.requests += 1
        return self.send(
            c.Arrive(
                at_ms=self.at_ms,
                request_id=f"q{self.requests}",
                model=model,
                prompt_bytes=tokens * 4,
                session=session,
                prefix=prefix,
                response=response,
                draw=draw,
                waited_ms=waited_ms,
            )
        )

    def go(self, *args: Any, **kwargs: Any) -> Flown:
        """Arrive and be dispatched."""
        answer = self.arrive(*args, **kwargs)
        assert isinstance(answer, Flown), answer
        return answer

    def go_to(self, replica: str) -> Flown:
        """Arrive until one is dispatched there; those that go elsewhere end at once."""
        while (flown := self.go()).replica != replica:
            self.finish(flown)
        return flown

    def use(self, *args: Any, **kwargs: Any) -> Flown:
        """Arrive, be dispatched, and end at once."""
        flown = self.go(*args, **kwargs)
        self.finish(flown)
        return flown

    def send(self, arrive: c.Arrive) -> Answer:
        answer = answer_of(self.handle(arrive))
        if isinstance(answer, Flown):
            self.asked[answer.number] = arrive
        return answer

    def retry(self, flown: Flown) -> Answer:
        """The request of a failed attempt asks again (RULES 4.6)."""
        before = attrs.evolve(self.asked[flown.number], at_ms=self.at_ms, waited_ms=0)
        return self.send(
            attrs.evolve(
                before,
                attempt=before.attempt + 1,
                tried=(*before.tried, flown.replica),
                earlier=(*before.earlier, flown.number),
            )
        )

    def fail(
        self,
        flown: Flown,
        cause: Cause = "status",
        blame: Blame = "replica",
        status: int | None = None,
        retry_after_ms: int | None = None,
    ) -> tuple[e.Event, ...]:
        return self.do(
            c.Fail(
                at_ms=self.at_ms,
                dispatch=flown.number,
                cause=cause,
                blame=blame,
                status=status,
                retry_after_ms=retry_after_ms,
            )
        )

    def finish(self, flown: Flown, outcome: Outcome = "ok", **changes: Any) -> tuple[e.Event, ...]:
        cause, blame, status = _ENDINGS[outcome]
        early = outcome == "first_byte_timeout"
        end = c.Finish(
            at_ms=self.at_ms,
            dispatch=flown.number,
            outcome=outcome,
            cause=cause,
            blame=blame,
            status=status,
            ttfb_ms=None if early else 5,
            duration_ms=10,
            bytes=100,
        )
        return self.do(attrs.evolve(end, **changes))

    # What is to be seen

    def session_pin(self, key: str) -> str | None:
        return self._pin("session", key)

    def prefix_pin(self, key: str) -> str | None:
        return self._pin("prefix", key)

    def _pin(self, kind: Literal["session", "prefix"], key: str) -> str | None:
        pin = self.state.pins.table(kind).get(key)
        return pin.replica if pin is not None else None

    def look(self, session: str | None = None, prefix: str | None = None) -> Choice:
        arrive = c.Arrive(
            at_ms=self.at_ms,
            request_id="look",
            model=MODEL,
            prompt_bytes=4,
            session=session,
            prefix=prefix,
        )
        return choose(self.state, arrive)

    def logged(self, kind: type[Any]) -> list[Any]:
        events = [e.decode(entry.kind, entry.schema, entry.body) for entry in self.log.entries]
        return [event for event in events if isinstance(event, kind)]

    def eject(self, name: str) -> tuple[e.Event, ...]:
        """By a refused scrape."""
        return self.fail_scrape(name, "refused")

    def probing(self, name: str) -> None:
        """Eject it and bring it back as far as PROBING."""
        self.eject(name)
        others = [other for other in self.state.fleet.replicas if other != name]
        self.calm(30, *others) if others else self.pass_s(30)
        self.same()
        self.same()
        assert self.standing(name) == "PROBING"

    def verify(self) -> None:
        again = refold(self.log.entries, check_decisions=True)
        assert digest(again) == digest(self.state)
        assert repr(again) == repr(self.state)
        check_sums(self.state)


def answer_of(decided: Decided) -> Answer:
    if not decided.events:
        return None
    first, *pins = decided.events
    if isinstance(first, e.Refused):
        return first
    assert isinstance(first, e.Dispatched)
    return Flown(decided.first, first, tuple(pins))


def _only_checked(events: tuple[e.Event, ...]) -> bool:
    return len(events) == 1 and isinstance(events[0], e.Checked)


MakeRig = Callable[..., Rig]
