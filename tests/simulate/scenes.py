"""Small worlds for tests: their traffic, their rules, and the log they leave as a list."""

import random
from collections.abc import Iterable
from typing import Any

import attrs

from tests.listlog import ListLog, refold
from trioroute import events as e
from trioroute.events import InForce
from trioroute.policy.policies import Chooser
from trioroute.settings import with_changes
from trioroute.simulate.clock import BEGIN_MS
from trioroute.simulate.faults import parse_fault
from trioroute.simulate.profiles import PROFILES
from trioroute.simulate.script import Request, Script, Turn, Workload, key
from trioroute.simulate.workloads import Blocks
from trioroute.simulate.world import Setting, World


def request(name: str, prompt: int = 500, output: int = 50, session: str | None = None) -> Request:
    return Request(name, prompt, output, (), key("session", session) if session else None, None)


def at_once(count: int, prompt: int = 500, output: int = 50) -> tuple[Script, ...]:
    """``count`` clients in the same millisecond."""
    return tuple(
        Script(1000, (Turn(request(f"q{number}", prompt, output)),)) for number in range(count)
    )


def steady(
    per_s: float, seconds: int, *, prompt: int = 300, output: int = 50, sessions: int = 0
) -> tuple[Script, ...]:
    """Requests at random times from one second on, of ``sessions`` sessions or of none."""
    rng = random.Random(f"steady/{per_s}")
    scripts: list[Script] = []
    at_ms = 1000.0
    while at_ms < seconds * 1000:
        number = len(scripts)
        session = f"s{rng.randrange(sessions)}" if sessions else None
        asked = request(f"q{number}", prompt, output, session)
        scripts.append(Script(round(at_ms), (Turn(asked),)))
        at_ms += rng.expovariate(per_s) * 1000
    return tuple(scripts)


def forty_agents(think_ms: int = 30_000, turns: int = 260) -> tuple[Script, ...]:
    """Forty sessions that share one system prompt; each turn is about a thousand tokens."""
    blocks = Blocks()
    system: list[int] = []
    blocks.more(system, 600)
    scripts: list[Script] = []
    for number in range(40):
        rng = random.Random(f"forty/{number}")
        text, tokens = list(system), 600 + rng.randint(100, 600)
        made: list[Turn] = []
        for turn in range(turns):
            answer = rng.randint(60, 400)
            blocks.more(text, tokens + answer)
            asked = Request(
                f"agent-{number}:{turn}",
                tokens,
                answer,
                tuple(text),
                key("session", f"agent-{number}"),
                key("prefix", "project"),
            )
            made.append(Turn(asked, round(rng.expovariate(1 / think_ms))))
        scripts.append(Script(0, tuple(made)))
    return tuple(scripts)


@attrs.define
class Scene:
    """A world with its log in a list."""

    world: World
    log: ListLog
    _events: list[tuple[int, e.Event]] = attrs.field(factory=list)

    def events(self) -> list[tuple[int, e.Event]]:
        """Every event with its time in milliseconds of the run."""
        for entry in self.log.entries[len(self._events) :]:
            event = e.decode(entry.kind, entry.schema, entry.body)
            self._events.append((entry.at_ms - BEGIN_MS, event))
        return self._events

    def of(self, *kinds: type[Any], replica: str | None = None) -> list[tuple[int, Any]]:
        return [
            (at_ms, event)
            for at_ms, event in self.events()
            if isinstance(event, kinds)
            and (replica is None or getattr(event, "replica", None) == replica)
        ]

    def outcomes(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for _, released in self.of(e.Released):
            counts[released.outcome] = counts.get(released.outcome, 0) + 1
        return counts

    def verify(self) -> None:
        """The log folds to the live state, and every decision is taken again the same."""
        again = refold(self.log.entries, check_decisions=True)
        assert repr(again) == repr(self.world.router.state)


def scene(
    scripts: Iterable[Script],
    *faults: str,
    rules: dict[str, object] | None = None,
    engine: str = "h100",
    replicas: int = 4,
    chooser: Chooser | None = None,
) -> Scene:
    """A world that is about to begin."""
    in_force = with_changes(InForce(), rules or {}, place="test")
    setting = Setting(
        workload=Workload("test", tuple(scripts)),
        engine=PROFILES[engine],
        replicas=replicas,
        seed=1,
        in_force=in_force,
        faults=tuple(one for text in faults for one in parse_fault(text, replicas)),
        chooser=chooser,
    )
    log = ListLog()
    return Scene(World(setting, log), log)


def played(
    scripts: Iterable[Script],
    *faults: str,
    seconds: int | None = None,
    rules: dict[str, object] | None = None,
    engine: str = "h100",
) -> Scene:
    """A world that has run, to the end of its requests or for so many seconds."""
    made = scene(scripts, *faults, rules=rules, engine=engine)
    made.world.run(None if seconds is None else seconds * 1000)
    return made
