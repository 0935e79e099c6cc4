"""The story of a replica: its health, and the dispatches it got."""

from collections import Counter, deque
from collections.abc import Callable

import attrs

from eventlog.record import Record
from trioroute.events import (
    Dispatched,
    Ejected,
    Event,
    Failed,
    Orphaned,
    Released,
    ReplicaJoined,
    StoodStill,
)
from trioroute.nearest import hint
from trioroute.replay.ahead import rows_within
from trioroute.replay.end_words import end_words
from trioroute.replay.incident.evidence import Evidence
from trioroute.replay.incident.times import Times
from trioroute.replay.names import known_for_sure, listed, replicas_ever, replicas_now
from trioroute.replay.plain import UNKNOWN, Run, Send
from trioroute.replay.read import ENDINGS, NotFound, Source, decision_name
from trioroute.replay.stalled import StalledOf, states_before
from trioroute.replay.stood import stood_of
from trioroute.replay.told import Line, ReplicaTold
from trioroute.replay.way_back import WayBack
from trioroute.replay.within import ALL, Within
from trioroute.replay.words import BusySpells, health_words

LINES_MAX = 1000

_HEALTH = (
    "ReplicaJoined",
    "ReplicaLeft",
    "Draining",
    "Live",
    "Probing",
    "Ejected",
    "ScrapeFailed",
)


@attrs.define
class _Story:
    name: str
    lines: deque[Line] = attrs.field(factory=deque)
    left_out: int = 0
    dispatches: dict[str, int] = attrs.field(factory=dict)
    endings: dict[str, int] = attrs.field(factory=dict)
    open: set[tuple[str, int]] = attrs.field(factory=set)
    evidence: Evidence = attrs.field(factory=Evidence)
    others: dict[str, None] = attrs.field(factory=dict)
    sends: list[Send] = attrs.field(factory=list)
    times: Times = attrs.field(factory=Times)
    busy: BusySpells = attrs.field(factory=BusySpells)
    before: Event | None = None
    way: WayBack = attrs.field(init=False)
    stood: deque[Line] = attrs.field(factory=lambda: deque(maxlen=LINES_MAX))

    def __attrs_post_init__(self) -> None:
        self.way = WayBack(self.name)

    def health(self, record: Record, event: Event) -> None:
        name = getattr(event, "replica", "")
        text = health_words(event, record.at_ms, self.before)
        if name != self.name or text is None:
            self.others[name] = None
            return
        if isinstance(event, ReplicaJoined):
            self.way = WayBack(self.name)
        text = self.way.take(record, event) or text
        last = self.lines[-1] if self.lines else None
        if last is not None and last.text == text:
            self.lines[-1] = attrs.evolve(last, times=last.times + 1)
            return
        place = decision_name(record.stream, record.version)
        if isinstance(event, Ejected):
            self._before_eject()
        self.add(Line(at_ms=record.at_ms, place=place, event=record.kind, text=text))

    def _before_eject(self) -> None:
        """Requests held against it stand before the eject; its failed scrapes do so already."""
        for line in self.evidence.of(self.name):
            if line.event != "ScrapeFailed":
                self.add(line)
        self.evidence.against.pop(self.name, None)  # a second eject has evidence of its own

    def add(self, line: Line) -> None:
        self.lines.append(line)
        if len(self.lines) > LINES_MAX:
            self.lines.popleft()
            self.left_out += 1

    def run(self, run: Run) -> None:
        if run.sends is not self.sends:
            self.sends = run.sends
            self.others.update(dict.fromkeys(replica for replica, *_ in run.sends))
        mine = {
            code: reason
            for code, (replica, _, reason, _) in enumerate(run.sends)
            if replica == self.name
        }
        begun, ended, stream = run.begun, run.ended, run.stream
        for code, times in Counter(begun.codes).items():
            if code in mine:
                self.dispatches[mine[code]] = self.dispatches.get(mine[code], 0) + times
        sent = zip(begun.codes, begun.numbers, strict=True)
        self.open.update((stream, number) for code, number in sent if code in mine)
        for dispatch, ttfb_ms, took_ms in zip(*ended.columns()[2:5], strict=True):
            if (stream, dispatch) in self.open:
                self.open.remove((stream, dispatch))
                self.evidence.fine(self.name)
                self.endings["ok"] = self.endings.get("ok", 0) + 1
                self.times.take(None if ttfb_ms == UNKNOWN else ttfb_ms, took_ms)

    def take(self, record: Record, event: Event) -> None:
        if record.kind in _HEALTH:
            self.health(record, event)
        elif isinstance(event, StoodStill):
            self.stood.append(stood_of(record.stream, record.version, record.at_ms, event).line())
        else:
            self.request(record, event)
        self.before = event

    def request(self, record: Record, event: Event) -> None:
        if isinstance(event, Dispatched):
            self.others.setdefault(event.replica)
            if event.replica == self.name:
                self.dispatches[event.reason] = self.dispatches.get(event.reason, 0) + 1
                self.open.add((record.stream, record.version))
        elif isinstance(event, Released | Failed):
            outcome = _ending(event)
            if (record.stream, event.dispatch) in self.open:
                place = decision_name(record.stream, record.version)
                self.evidence.ended(record.at_ms, place, self.name, event)
                if (text := self.busy.begins(self.name, record.at_ms, event)) is not None:
                    self.add(Line(at_ms=record.at_ms, place=place, event="busy", text=text))
                if isinstance(event, Released) and event.outcome == "ok":
                    self.times.take(event.ttfb_ms, event.duration_ms)
            self._end(record, event.dispatch, outcome)
        elif isinstance(event, Orphaned):
            for number in event.dispatches:
                self._end(record, number, "unknown")

    def _end(self, record: Record, number: int, outcome: str) -> None:
        if (record.stream, number) in self.open:
            self.open.remove((record.stream, number))
            self.endings[outcome] = self.endings.get(outcome, 0) + 1


def tell_replica(
    source: Source,
    name: str,
    progress: Callable[[int, int], None] | None = None,
    within: Within = ALL,
) -> ReplicaTold:
    """All of a replica's history, or that of some time, with the dispatches that came in it and how
    they ended there. Raises NotFound (naming the replicas there are), CannotRead."""
    if within == ALL:
        check_known(source, name)
    story = _Story(name)
    name_bytes = name.encode()
    stalled = StalledOf(name, states_before(source, within.rows(source)[0]))
    for row in rows_within(source, within, progress):
        if isinstance(row, Run):
            story.run(row)
            continue
        said, asked = _concerns(row, name_bytes, story), stalled.concerns(row)
        back = story.way.concerns(row, name_bytes)
        event = source.event(row) if said or asked or back else None
        if event is not None and back:
            story.way.take(row, event)
        if event is not None and said:
            story.take(row, event)
        if event is not None and asked and (line := stalled.take(row, event)) is not None:
            story.add(line)
    if not story.lines and not story.dispatches and within != ALL:
        near = hint(name, story.others) or ": ask without --since and --until"
        raise NotFound(f"nothing is told of {name!r} {within.words()}{near}")
    if not story.lines and not story.dispatches:
        raise NotFound(_not_found(name, list(story.others)))
    return ReplicaTold(
        name=name,
        since_ms=within.since_ms or None,
        until_ms=within.until_ms,
        history=tuple(sorted((*story.lines, *story.stood), key=lambda line: line.at_ms)),
        left_out=story.left_out,
        dispatches=story.dispatches,
        endings=story.endings,
        in_flight=len(story.open),
        times=story.times.told(name),
    )


def _concerns(record: Record, name: bytes, story: _Story) -> bool:
    if record.kind == "Dispatched":
        return name in record.body
    return record.kind in (*_HEALTH, "StoodStill") or (record.kind in ENDINGS and bool(story.open))


def _ending(event: Released | Failed) -> str:
    """The outcome; with what was behind it where that alone tells nothing."""
    if isinstance(event, Released) and event.outcome != "unknown":
        return event.outcome
    outcome = event.outcome if isinstance(event, Released) else "failed"
    return end_words(outcome, event.cause, event.blame, event.status, judged=False)


def check_known(source: Source, name: str) -> None:
    """Raises NotFound, naming the replicas there are, where none of the log has this name for sure;
    CannotRead."""
    if name not in replicas_now(source) and known_for_sure(source):
        ever = list(replicas_ever(source))
        if name not in ever:
            raise NotFound(_not_found(name, ever))


def _not_found(name: str, others: list[str]) -> str:
    if not others:
        return f"no replica {name!r} is in the log, nor any other"
    return f"no replica {name!r} is in the log; {listed('it knows', others, name)}"
