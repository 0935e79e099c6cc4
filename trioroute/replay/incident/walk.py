"""One pass over the rows of a span, and what is told of it."""

from collections.abc import Callable
from itertools import islice

import attrs

from eventlog.errors import LogDamaged
from eventlog.record import Record
from trioroute.events import Event, UnreadableEvent
from trioroute.projections import State
from trioroute.replay.ahead import Hole, Part, parts
from trioroute.replay.clock import local_iso, now_ms
from trioroute.replay.incident.began import began
from trioroute.replay.incident.beyond import look_beyond
from trioroute.replay.incident.course import Course, under_way
from trioroute.replay.incident.delays import Delays
from trioroute.replay.incident.died import tell_cut_short, tell_death
from trioroute.replay.incident.down import stopped_words
from trioroute.replay.incident.groups import hit_of
from trioroute.replay.incident.prevention import prevented
from trioroute.replay.incident.requests import Requests
from trioroute.replay.incident.router import Router
from trioroute.replay.incident.running import release_before, running_of
from trioroute.replay.incident.silence import ByRouter, with_silence
from trioroute.replay.incident.steps import STEPS
from trioroute.replay.incident.story import Story
from trioroute.replay.incident.told import Hit, Incident, RouterSeen, TimeStep
from trioroute.replay.incident.traffic import Traffic
from trioroute.replay.kept import unfound_words
from trioroute.replay.log_end import LogEnd, log_end
from trioroute.replay.plain import Run
from trioroute.replay.read import CannotRead, NotFound, Past, Source, decision_name, router_of
from trioroute.replay.silent import silent_words
from trioroute.replay.usual import NOTHING, usual_of
from trioroute.replay.words import plural

Progress = Callable[[int, int], None]
"""Told the rows done and the rows in all."""


def tell_incident(
    source: Source,
    from_ms: int,
    to_ms: int,
    progress: Progress | None = None,
    readers: int | None = None,
) -> Incident:
    """What happened in ``[from_ms, to_ms]``. Raises NotFound if no row is of that time,
    CannotRead for rows of a newer trioroute. ``readers``: see ``parts``.

    Rows that are missing are told in ``notes``: what is found is then proved for the rest only.
    """
    gone, end, asked_ms = log_end(source), source.last(), to_ms
    last_ms = end.at_ms if gone is None else gone.until_ms(now_ms())
    to_ms = min(to_ms, last_ms)
    first = source.reader.last_until(from_ms - 1)
    until = source.reader.last_until(to_ms)
    oldest = next(source.kept(0, end.seq, lambda _: None), end)
    if until <= first:
        behind = gone if from_ms > end.at_ms else None
        raise NotFound(
            f"no event is between {local_iso(from_ms)} and {local_iso(asked_ms)}: the "
            f"log holds {local_iso(oldest.at_ms)} to {local_iso(end.at_ms)}"
            + (_around(source, first, end.seq) if behind is None else f"; {behind.words(None)}")
        )
    first = max(first, oldest.seq - 1)
    retired = oldest.seq > 1 and from_ms < oldest.at_ms
    from_ms = max(from_ms, oldest.at_ms)
    step_ms, steps = _steps(from_ms, to_ms)
    delays = Delays(source, NOTHING, from_ms, step_ms)
    walk = _Walk(source, Story(), Traffic(from_ms, step_ms, steps, delays=delays), delays)
    if retired:
        place = f"seq {oldest.seq}, {local_iso(oldest.at_ms)}"
        walk.story.note(f"the log begins at {place}: what was before is not in it")

    def before() -> None:
        delays.usuals = usual_of(source, from_ms, to_ms)
        walk.begin(first, from_ms)

    for part in parts(source, first, until, readers, before):
        walk.take_part(part)
        if progress is not None:
            progress(part.until - first, until - first)
    walk.look_beyond(to_ms)
    if gone is not None and gone.last.seq == until:
        walk.end(gone, to_ms)
    elif end.seq == until:
        walk.stopped(end, asked_ms)
    return walk.told(from_ms, to_ms, until)


def _steps(from_ms: int, to_ms: int) -> tuple[int, list[TimeStep]]:
    """How long each is, and all of them, empty."""
    step_ms = max(1, -(-(to_ms - from_ms) // STEPS))
    count = max(1, -(-(to_ms - from_ms) // step_ms))
    return step_ms, [TimeStep(at_ms=from_ms + place * step_ms) for place in range(count)]


@attrs.define
class _Walk:
    source: Source
    story: Story
    traffic: Traffic
    delays: Delays
    routers: dict[str, Router] = attrs.field(factory=dict)
    beyond: int = 0

    def begin(self, first: int, from_ms: int) -> None:
        """Every router as it was just before the span, as far as the log still tells it."""
        fold = self.source.fold_before(first + 1)
        pasts = {stream: Past(stream, state) for stream, state in fold.states.items()}
        try:
            self.source.fold_rows(pasts, fold.head.seq, first)
        except (CannotRead, LogDamaged) as error:
            self.story.note(f"what was before the span cannot be told: {_briefly(error)}")
            pasts = {}
        for stream, past in pasts.items():
            router = self._router(stream, past.state)
            last = self.source.at(stream, past.state.position)
            router.before = None if last is None else self.source.event(last)
            router.release = release_before(self.source, first, stream, past.state)
            router.begin(running_of(self.source, first, stream, past.state))
        wrong, served = dict[str, str](), set[str]()
        for router in self.routers.values():
            for name, text in under_way(router.state).items():
                wrong[name] = f"{wrong[name]}; {text}" if name in wrong else text
                served.update(router.state.fleet.replicas[name].models)
        if wrong:
            self.story.causes.under_way(from_ms, wrong, frozenset(served))

    def _router(self, stream: str, state: State) -> Router:
        course = Course("normal", self.traffic.from_ms)
        requests = Requests(stream, self.story, self.traffic)
        router = Router(stream, state, self.story, self.traffic, course, requests)
        self.routers[stream] = router
        return router

    def take_part(self, part: Part) -> None:
        for row in part.rows:
            if isinstance(row, Run):
                self.delays.began(row)
                self._expected(row.stream, row.first, row.from_ms).take_run(row)
            elif isinstance(row, Record):
                self.take(row)
            else:
                self._damaged(row)

    def _damaged(self, hole: Hole) -> None:
        """One that goes on from the part before is told already."""
        if hole.damage.seq > self.beyond + 1 or not self.beyond:
            self.story.note(f"not all rows can be read: {_briefly(hole.damage)}")
        self.beyond = max(self.beyond, hole.beyond)

    def _event(self, record: Record) -> Event | None:
        """None for a row that cannot be read, which is told. Raises CannotRead for a newer one."""
        try:
            return self.source.event(record)
        except CannotRead as error:
            if not isinstance(error.__cause__, UnreadableEvent):
                raise
            self.story.note(f"what this row tells is not counted: {error}")
            return None

    def take(self, record: Record) -> None:
        event = self._event(record)
        router = self._expected(record.stream, record.version, record.at_ms)
        if event is not None:
            router.take(record, event)
        router.state.position = record.version

    def _expected(self, stream: str, version: int, at_ms: int) -> Router:
        """The router of a row; if it is not the next one of it, that is told."""
        place, router = decision_name(stream, version), self.routers.get(stream)
        if router is None:
            router = self._router(stream, State(position=version - 1))
            if version > 1:
                self.story.note(f"what {router_of(stream)} did before {place} is not told")
        elif version != router.state.position + 1:
            self.story.note(f"rows are missing before {place}: what they told is not counted")
            self.story.causes.missing(at_ms, place)
        return router

    def look_beyond(self, to_ms: int) -> None:
        """What the first rows behind the span tell of its end."""
        for router in self.routers.values():
            try:
                look_beyond(self.source, router, to_ms)
            except (CannotRead, LogDamaged) as error:
                self.story.note(f"what comes after the span cannot be read: {_briefly(error)}")

    def stopped(self, last: Record, asked_ms: int) -> None:
        """The span reaches the end of the log, and was asked for until ``asked_ms``."""
        if said := stopped_words(last, asked_ms) or silent_words(self.source):
            self.story.note(said)

    def end(self, end: LogEnd, to_ms: int) -> None:
        """The span reaches the end of a log whose router did not stop."""
        router = self.routers.get(end.last.stream)
        if end.unwritten is not None and router is not None:
            tell_cut_short(router, end, end.unwritten)
        elif not end.died:
            self.story.note(end.words(self.traffic.running()))
        elif router is not None:
            tell_death(router, end, to_ms)

    def told(self, from_ms: int, to_ms: int, until: int) -> Incident:
        self.traffic.finish()
        self.delays.finish()
        traffic, story = self.traffic, self.story
        by_router: ByRouter = {name: one.finish(to_ms) for name, one in self.routers.items()}
        hit = hit_of(traffic.groups, self.delays.usuals)
        total = _total(hit)
        tolls, lost = (traffic.hurt.toll, self.delays.toll), traffic.limbo.first()
        cause = story.causes.told(*tolls, lost=lost) or story.down
        dated = None if cause is None else began(self.source, cause)
        by_router = with_silence(by_router, cause, dated)
        phases = [phase for each in by_router.values() for phase in each]
        harms = list(story.rules.harms.by_kind.values())
        prevents = prevented(self.source, harms, cause, until, traffic)
        return Incident(
            from_ms=from_ms,
            to_ms=to_ms,
            begin=local_iso(from_ms),
            end=local_iso(to_ms),
            sentence=_sentence(total, len(phases)),
            routers=tuple(_seen(router) for router in self.routers.values()),
            phases=tuple(sorted(phases, key=lambda one: one.from_ms)),
            first_cause=dated,
            changes=tuple(story.causes.changes),
            total=total,
            hit=tuple(hit),
            harmed=traffic.hurt.told(self.source),
            endings=dict(traffic.endings),
            running=traffic.running(),
            refusals=dict(traffic.refusals),
            spills=dict(traffic.spills),
            rebinds=dict(traffic.rebinds),
            usual=self.delays.usuals.told(),
            delayed=self.delays.told(by_router),
            latest=self.delays.latest(),
            replicas=traffic.speeds.replicas(),
            slow=tuple(traffic.speeds.slow(to_ms)),
            rules=story.rules.told(),
            hints=tuple(one.text for one in prevents.items if one.setting is not None),
            prevention=prevents.items,
            unproved=prevents.unproved,
            retaken=prevents.retaken,
            timeline=tuple(story.lines),
            left_out=story.left_out,
            lanes=tuple(story.lanes),
            step_ms=traffic.step_ms,
            steps=tuple(traffic.steps),
            notes=(*story.notes, *unfound_words(self.source)),
        )


def _around(source: Source, seq: int, end: int) -> str:
    """The rows before and after a time in which nothing was written, as when no router ran."""
    if not 0 < seq < end:
        return ""
    rows = list(islice(source.kept(seq - 1, end, lambda _: None), 2))
    told = [
        f"{decision_name(row.stream, row.version)} ({row.kind}) at {local_iso(row.at_ms)}"
        for row in rows
    ]
    return f"; between {' and '.join(told)} nothing was written"


def _seen(router: Router) -> RouterSeen:
    names, name = tuple(router.state.fleet.replicas), router_of(router.stream)
    return RouterSeen(name=name, release=router.release, replicas=names)


def _briefly(error: CannotRead | LogDamaged) -> str:
    if isinstance(error, LogDamaged):
        return f"{error.reason}, at seq {error.seq} of {error.where}"
    return str(error)


def _total(rows: list[Hit]) -> Hit:
    told = [one.delayed for one in rows if one.delayed is not None]
    return Hit(
        model=None,
        key=None,
        requests=sum(one.requests for one in rows),
        failed=sum(one.failed for one in rows),
        retried=sum(one.retried for one in rows),
        delayed=sum(told) if told else None,
        refused=sum(one.refused for one in rows),
        rescued=sum(one.rescued for one in rows),
    )


def _sentence(total: Hit, phases: int) -> str:
    delayed = "" if total.delayed is None else f", {total.delayed} delayed"
    return (
        f"{plural(total.requests, 'request')} in {plural(phases, 'phase')}: {total.failed} failed, "
        f"{total.refused} refused, {total.retried} retried{delayed}"
    )
