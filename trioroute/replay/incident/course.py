"""The course of an incident: one phase after the other, without a hole or an overlap."""

from collections.abc import Container, Iterable

import attrs

from trioroute.projections import State
from trioroute.projections.measure import ROUTABLE
from trioroute.replay.incident.block import clock_time
from trioroute.replay.incident.told import Phase

PHASES_MAX = 500
"""A longer course is told up to here; its last phase then lasts to the end."""

WHYS_MAX = 100
WHYS_TOLD = 6
"""Reasons of one phase that are kept, and told: the first and the last ones."""

NORMAL = "normal"
STALLED = "log stalled"
STILL = "stalled"
OUTAGE = "outage"
EJECT = "eject"

_RANKED = (EJECT, "failing", "reduced capacity", STILL, "recovery", NORMAL)
"""The last phases of REPLAY.md's list, in its order."""

FLAPS = 3
"""Ejects in a row (RULES 6.7) that make a replica flap: one that died twice in ten minutes is a
replica that died again, and its ejects and recoveries are told as such."""

EJECTED = ("EJECTED", "EJECTED by hand")
"""How a replica is out: by the rules of health, or as somebody said."""
OVERLOAD = "overload"


@attrs.define
class Course:
    """The phases up to now; the last one is open, and was for each of ``whys`` since then."""

    name: str
    since_ms: int
    why: str = ""
    whys: list[tuple[int, str]] = attrs.field(factory=list)
    done: list[Phase] = attrs.field(factory=list)
    cut: bool = False

    def begin(self, name: str, why: str) -> None:
        self.name, self.why, self.whys = name, why, [(self.since_ms, why)]

    def turn(self, at_ms: int, name: str, why: str) -> bool:
        """From ``at_ms`` on it is ``name``; whether that is news. Time never runs backwards."""
        if name == self.name:
            if why != self.why:
                self.why = why
                self.whys.append((at_ms, why))
                del self.whys[1:-WHYS_MAX]
            return False
        if len(self.done) >= PHASES_MAX:
            self.cut = True
            return False
        at_ms = max(at_ms, self.since_ms)
        self._close(at_ms)
        self.name, self.since_ms, self.why, self.whys = name, at_ms, why, [(at_ms, why)]
        return True

    def _close(self, at_ms: int) -> None:
        """A phase of no length is none, but for the restart of a router, or its death."""
        if at_ms == self.since_ms and self.name not in ("restart", "died"):
            return
        last = self.done[-1] if self.done else None
        if last is not None and last.name == self.name and last.to_ms == self.since_ms:
            self.done[-1] = attrs.evolve(last, to_ms=at_ms)
            return
        why = self._told(at_ms)
        self.done.append(Phase(name=self.name, from_ms=self.since_ms, to_ms=at_ms, why=why))

    def _told(self, to_ms: int) -> str:
        """Why, and from when on for something else. What held for no time is not told."""
        words, told = self.why, list[str]()
        for place, (from_ms, why) in enumerate(self.whys):
            until_ms = self.whys[place + 1][0] if place + 1 < len(self.whys) else to_ms
            if until_ms <= from_ms:
                continue
            words = why if not told else f"from {clock_time(from_ms)[11:]} {why}"
            told.append(words)
        if len(told) > WHYS_TOLD:
            told[WHYS_TOLD - 1 : -1] = ["then more changes"]
        return "; ".join(told) or words

    def cover(self, from_ms: int, to_ms: int, name: str, why: str) -> None:
        """It was ``name`` in that time, which is over, whatever was told of it but a restart."""
        to_ms = max(to_ms, self.since_ms)
        if self.cut or len(self.done) >= PHASES_MAX:
            self.cut = True
            return
        self._close(to_ms)
        self.since_ms = to_ms
        begins = [one.to_ms if one.name == "restart" else one.from_ms for one in self.done]
        restarts = [one.to_ms for one in self.done if one.name == "restart"]
        from_ms = max(from_ms, *begins[:1], *restarts[-1:]) if begins else to_ms
        if from_ms >= to_ms:
            return
        kept = [
            attrs.evolve(one, to_ms=min(one.to_ms, from_ms))
            for one in self.done
            if one.from_ms < from_ms or one.name == "restart"
        ]
        last = kept[-1] if kept else None
        if last is not None and last.name == name and last.to_ms == from_ms:
            kept[-1] = attrs.evolve(last, to_ms=to_ms)
        else:
            kept.append(Phase(name=name, from_ms=from_ms, to_ms=to_ms, why=why))
        self.done = kept

    def was(self, from_ms: int, name: str, why: str) -> None:
        """It was ``name`` since then, as is known now, where something lesser was told."""
        lesser = below(name)
        self.done = relabelled(self.done, lesser, (from_ms, self.since_ms), name, why)
        if self.name in lesser:
            self.turn(max(from_ms, self.since_ms), name, why)
        last = self.done[-1] if self.done else None
        if last is not None and last.name == self.name and last.to_ms == self.since_ms:
            self.since_ms = last.from_ms
            self.whys.insert(0, (last.from_ms, last.why))
            self.done.pop()

    def finish(self, at_ms: int) -> tuple[Phase, ...]:
        self._close(max(at_ms, self.since_ms))
        return tuple(self.done)


def below(name: str) -> tuple[str, ...]:
    """The phases that are told only where ``name`` does not hold."""
    return _RANKED[_RANKED.index(name) + 1 :]


def relabelled(
    phases: Iterable[Phase], lesser: Container[str], span_ms: tuple[int, int], name: str, why: str
) -> list[Phase]:
    """With ``name`` instead of the ``lesser`` ones in that time, joined where it goes on."""
    made = list[Phase]()
    for one in phases:
        begin_ms, end_ms = max(one.from_ms, span_ms[0]), min(one.to_ms, span_ms[1])
        if one.name not in lesser or begin_ms >= end_ms:
            made.append(one)
            continue
        if one.from_ms < begin_ms:
            made.append(attrs.evolve(one, to_ms=begin_ms))
        last = made[-1] if made else None
        if last is not None and (last.name, last.why, last.to_ms) == (name, why, begin_ms):
            made[-1] = attrs.evolve(last, to_ms=end_ms)
        else:
            made.append(Phase(name=name, from_ms=begin_ms, to_ms=end_ms, why=why))
        if end_ms < one.to_ms:
            made.append(attrs.evolve(one, from_ms=end_ms))
    return made


def under_way(state: State) -> dict[str, str]:
    """What is wrong with replicas when a span begins. An eject by hand has no cause."""
    found = dict[str, str]()
    for name in state.fleet.replicas:
        health, standing = state.health[name], state.standing(name)
        if standing in ("EJECTED", "PROBING") and health.eject_cause != "none":
            cause = f" ({health.eject_cause})" if standing == "EJECTED" else ""
            found[name] = f"{name} is {standing}{cause} since {clock_time(health.since_ms)}"
    for name in stalled_in(state):
        since = f"no token since {clock_time(state.health[name].moved_ms)}"
        found[name] = f"{found[name]}, stalled" if name in found else f"{name} is stalled, {since}"
    return found


def models_of(state: State, name: str) -> frozenset[str] | None:
    """What a replica serves; None where that is not known."""
    known = state.fleet.replicas.get(name)
    return frozenset(known.models) or None if known is not None else None


def standing_of(state: State, name: str) -> str:
    """Empty for a replica whose joining is not in the rows that are kept."""
    return state.standing(name) if name in state.fleet.replicas else ""


def asleep_in(state: State) -> tuple[str, ...]:
    """The replicas whose engines say that they were put to sleep."""
    return tuple(name for name, health in state.health.items() if health.asleep)


def stalled_in(state: State) -> list[str]:
    """The replicas in traffic that run requests and generate nothing (RULES 6.10)."""
    return [
        name
        for name in state.fleet.replicas
        if state.standing(name) in ROUTABLE
        and state.health[name].stalled(state.at_ms, state.settings)
    ]


def overloaded(state: State) -> str | None:
    """Why all LIVE replicas are overloaded: each said at its last scrape that requests wait."""
    waits = []
    for name in state.fleet.replicas:
        if state.standing(name) != "LIVE":
            continue
        last = state.load.of(name).last
        if last is None or not last.waiting:
            return None
        waits.append(f"{name} {last.waiting}")
    return f"requests wait at every LIVE replica: {', '.join(waits)}" if waits else None


def outage_of(state: State) -> str | None:
    """Which models nobody may be sent to, as replicas that serve them are out of traffic, and why
    each is; None: there are none. A replica that has only joined does not make an outage."""
    away = dict[str, str]()
    for name in state.fleet.replicas:
        standing = state.standing(name)
        if standing == "EJECTED":
            away[name] = _ejected(state, name)
        elif standing == "DRAINING":
            away[name] = "draining"
        elif standing == "JOINING" and state.health[name].asleep:
            away[name] = "asleep"
    if not away:
        return None
    models, out = list[str](), dict[str, None]()
    for model in state.unserved():
        gone = [one.name for one in state.fleet.pool(model) if one.name in away]
        if gone:
            models.append(model)
            out.update(dict.fromkeys(gone))
    if not models:
        return None
    whys = {
        why: [name for name in out if away[name] == why] for why in (*EJECTED, "draining", "asleep")
    }
    words = [f"{_names(names)} {why}" for why, names in whys.items() if names]
    return f"nobody serves {_names(models)}: {', '.join(words)}"


def phase_of(state: State, struck: Iterable[str]) -> tuple[str, str]:
    """Name and reason of the phase that the replicas alone make, but for an outage.

    ``struck`` are ejected replicas on which requests of before the eject still run.
    """
    out, probing, draining, asleep = [], [], [], []
    for name in state.fleet.replicas:
        standing = state.standing(name)
        if standing == "EJECTED":
            out.append(name)
        elif standing == "PROBING":
            probing.append(name)
        elif standing == "DRAINING":
            draining.append(name)
        elif standing == "JOINING" and state.health[name].asleep:
            asleep.append(name)
    ruled = [name for name in (*out, *probing) if state.health[name].eject_cause != "none"]
    again = [name for name in ruled if state.health[name].n >= FLAPS]
    if again:
        n = max(state.health[name].n for name in again)
        told = [f"{name} {state.standing(name)}" for name in again]
        return "flapping", f"{_names(told)} again: eject {n} in a row"
    caught = [name for name in struck if name in out]
    if caught:
        return EJECT, f"{_names(caught)} ejected, its requests are still running or given up"
    ejected = [([name for name in out if _ejected(state, name) == how], how) for how in EJECTED]
    away = (*ejected, (draining, "draining"), (asleep, "asleep"))
    words = [f"{_names(names)} {word}" for names, word in away if names]
    if words:
        return "reduced capacity", ", ".join(words)
    still = stalled_in(state)
    if still:
        return STILL, still_words(still)
    if probing:
        return "recovery", f"{_names(probing)} PROBING"
    return NORMAL, ""


def still_words(names: list[str]) -> str:
    return f"{_names(names)}: requests run there and no token comes (RULES 6.10)"


def _ejected(state: State, name: str) -> str:
    return EJECTED[state.health[name].eject_cause == "none"]


def _names(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
