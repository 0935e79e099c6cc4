"""One setting changed by one step: what a proof tries, and how it is said."""

from collections.abc import Callable, Iterable

import attrs

from trioroute.events import Event
from trioroute.events.sections import InForce
from trioroute.policy.commands import Command
from trioroute.policy.decide import decide
from trioroute.projections import State
from trioroute.replay.incident.told import Prevention
from trioroute.settings import with_changes

STEPS_MAX = 64
"""How far a number is raised to find the least that prevents a row."""


@attrs.frozen
class Change:
    """``key`` is ``instead`` and not ``now``; both as ``--what-if`` takes them."""

    key: str
    now: str
    instead: str

    @property
    def words(self) -> str:
        return f"{self.key}={self.instead}"

    def fits(self, settings: InForce) -> bool:
        """Whether it changes what is in force there. Raises SettingsError."""
        return with_changes(settings, {self.key: self.now}) == settings

    def of(self, settings: InForce) -> InForce:
        """Raises SettingsError where the two do not go together with another setting."""
        return with_changes(settings, {self.key: self.instead})


@attrs.frozen
class Proof:
    """What was found of one row; ``change`` None: no setting prevents it. ``lessens``: it does not
    prevent it either, but keeps harm smaller."""

    change: Change | None
    text: str
    lessens: bool = False

    def told(self, harm: str, row: str, times: int) -> Prevention:
        more = f" (the first of {times} of its kind)" if times > 1 and not self.lessens else ""
        return Prevention(
            harm=harm,
            setting=None if self.change is None else self.change.key,
            now=None if self.change is None else self.change.now,
            instead=None if self.change is None else self.change.instead,
            row=row,
            times=times,
            text=self.text + more,
            lessens=self.lessens,
        )


def length(ms: int) -> str:
    """As a setting takes it."""
    return f"{ms}ms" if ms % 1000 else f"{ms // 1000}s"


def longer(key: str, now_ms: int, than_ms: int) -> Change:
    """A limit of whole seconds above a length of time."""
    return Change(key, length(now_ms), length((than_ms // 1000 + 1) * 1000))


def raised(key: str, now: int, least: int | None = None) -> Iterable[Change]:
    """A number one by one higher."""
    begin = now + 1 if least is None else least
    return (Change(key, str(now), str(value)) for value in range(begin, begin + STEPS_MAX))


def again(state: State, command: Command, change: Change) -> list[Event]:
    """The decision taken again from its own past with the one setting changed."""
    return decide(attrs.evolve(state, settings=change.of(state.settings)), command)


def first_that(
    state: State, command: Command, changes: Iterable[Change], good: Callable[[list[Event]], bool]
) -> Change | None:
    """The first change under which the decision is as wanted, None if none is."""
    return next((one for one in changes if good(again(state, command, one))), None)
