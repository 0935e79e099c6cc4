"""A fixed mixed course of commands from a seed: for determinism, properties and the benchmark."""

import random
from collections.abc import Callable, Iterable

import attrs

from tests.rig import FOUR, Answer, Flown, Rig
from trioroute.events.words import Cause, Outcome

OUTCOMES: tuple[Outcome, ...] = (
    "ok",
    "ok",
    "ok",
    "ok",
    "client_error",
    "upstream_error",
    "upstream_cut",
    "client_gone",
    "idle_timeout",
)
CAUSES: tuple[Cause, ...] = ("refused", "reset", "timeout", "status", "fin", "protocol")


@attrs.define
class Course:
    """Takes single steps, each chosen by numbers that the caller draws."""

    rig: Rig
    flying: list[Flown] = attrs.field(factory=list)
    ended: list[Flown] = attrs.field(factory=list)

    def keep(self, answer: Answer) -> None:
        if isinstance(answer, Flown):
            self.flying.append(answer)

    def take(self, draw: int) -> Flown | None:
        if not self.flying:
            return None
        flown = self.flying.pop(draw % len(self.flying))
        self.ended.append(flown)
        return flown

    def arrive(self, draw: int) -> None:
        session = f"s{draw % 7}" if draw % 3 else None
        prefix = f"p{draw % 5}" if draw % 4 else None
        response = f"r{draw % 9}" if draw % 11 == 0 else None
        model = "other" if draw % 29 == 0 else "m"
        self.keep(
            self.rig.arrive(
                session, prefix, tokens=draw % 9000, response=response, model=model, draw=draw
            )
        )

    def finish(self, draw: int) -> None:
        flown = self.take(draw)
        if flown is not None:
            response = f"r{draw % 9}" if draw % 2 else None
            self.rig.finish(flown, OUTCOMES[draw % 9], response=response, prompt_tokens=draw % 5000)

    def fail(self, draw: int) -> None:
        flown = self.take(draw)
        if flown is not None:
            status = (None, 500, 429, 503, 502)[draw % 5]
            self.rig.fail(flown, CAUSES[draw % 6] if status is None else "status", status=status)
            if draw % 3:
                self.keep(self.rig.retry(flown))

    def end_again(self, draw: int) -> None:
        """An end that came already must change nothing."""
        if self.ended:
            flown = self.ended[draw % len(self.ended)]
            assert self.rig.finish(flown) == self.rig.fail(flown) == ()

    def scrape(self, draw: int) -> None:
        names = list(self.rig.state.fleet.replicas)
        self.rig.scrape(
            **{
                name: self.rig.reading(
                    name,
                    None if draw % 13 == 0 else (draw >> at) % 6,
                    max(0, (draw >> at) % 7 - 4),
                    tokens=draw % 3,
                    asleep=draw % 17 == at,
                )
                for at, name in enumerate(names)
            }
        )

    def same(self, draw: int) -> None:
        self.rig.same()

    def fail_scrape(self, draw: int) -> None:
        self.rig.fail_scrape(FOUR[draw % 4], CAUSES[draw % 6])

    def pass_time(self, draw: int) -> None:
        self.rig.pass_s((0.05, 1, 3, 15, 31, 290, 700, 3700)[draw % 8])
        self.rig.tick()

    def drain(self, draw: int) -> None:
        self.rig.drain(FOUR[draw % 4], on=bool(draw & 4))

    def leave(self, draw: int) -> None:
        self.rig.leave(FOUR[draw % 4])

    def join(self, draw: int) -> None:
        self.rig.join(FOUR[draw % 4], models=("m", "other") if draw & 4 else ("m",))

    def restart(self, draw: int) -> None:
        self.rig.at_ms -= (0, 0, 5000, 3_600_000)[draw % 4]
        self.rig.restart()
        self.ended += self.flying
        self.flying.clear()

    def crash(self, draw: int) -> None:
        """Unlike a restart it loses what was not durable: up to five offers."""
        self.rig.log.lose(draw % 6)
        kept = len(self.rig.log.entries)
        self.rig.restart()
        self.ended = [one for one in (*self.ended, *self.flying) if one.number <= kept]
        self.flying.clear()


STEPS: tuple[Callable[[Course, int], None], ...] = (
    *[Course.arrive] * 8,
    *[Course.finish] * 4,
    *[Course.fail] * 2,
    *[Course.scrape] * 2,
    *[Course.same] * 3,
    *[Course.pass_time] * 3,
    Course.fail_scrape,
    Course.drain,
    Course.leave,
    *[Course.join] * 2,
    Course.restart,
    Course.crash,
    Course.end_again,
)


def run_course(rig: Rig, course: Iterable[tuple[int, int]]) -> None:
    """Take each step by its number and draw, then let everything end that is still in flight."""
    world = Course(rig)
    for step, draw in course:
        STEPS[step](world, draw)
    while world.flying:
        world.finish(0)


def play(seed: int, steps: int) -> Rig:
    """The rig after ``steps`` random steps; the same for the same seed."""
    chance = random.Random(seed)
    course = Course(rig := Rig())
    rig.live(*FOUR)
    for _ in range(steps):
        STEPS[chance.randrange(len(STEPS))](course, chance.getrandbits(40))
    return rig
