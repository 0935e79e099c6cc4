"""What the admin port of a running router is given: its state, its log, its decisions."""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

import trioroute
from eventlog import Record, StoreFailed
from eventlog.journal import Journal
from eventlog.snapshots import Snapshots
from eventlog.sqlite import SqliteReader, SqliteStore
from trioroute.assembly import Parts
from trioroute.changes import RunningChanges
from trioroute.events import Configured, UnreadableEvent, decode
from trioroute.events.sections import InForce
from trioroute.observe import AdminDesk, Feed, Seen
from trioroute.proxy.serving.asgi import BrokenEnding
from trioroute.replay import NotFound, Source, explain_decision
from trioroute.replay.in_force import settings_before
from trioroute.replay.lookup import look_up
from trioroute.replay.read import STREAM_PREFIX
from trioroute.replay.session import read_secret
from trioroute.row_index import index_of

EXPLAIN_AT_ONCE = 1
"""Folding or searching a log takes the interpreter's lock from the traffic: one at a time."""


def readiness(parts: Parts) -> tuple[bool, str]:
    """HTTP.md: not while draining, while the log stalls, or while nobody is routable."""
    if parts.ending:
        return False, "draining: this router is shutting down"
    since_ms = parts.journal.stalled_since_ms
    if since_ms is not None and parts.router.state.settings.log.on_failure != "serve":
        return False, f"log stalled: {parts.journal.failing}"
    state = parts.router.state
    if not state.anyone_routable():
        return False, f"no routable replica: {', '.join(state.standings()) or 'none known'}"
    return True, "ready"


@attrs.frozen
class JournalView:
    """The log as metrics show it."""

    journal: Journal
    directory: Path
    store: SqliteStore

    @property
    def position(self) -> int:
        return self.journal.position

    @property
    def durable_position(self) -> int:
        return self.journal.durable_position

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self.directory.glob("log-*.sqlite*"))

    @property
    def head(self) -> str:
        return str(self.store.last_head)

    @property
    def closed_head(self) -> str | None:
        return None if self.store.closed_head is None else str(self.store.closed_head)

    @property
    def failing(self) -> str:
        return str(self.journal.failing or "")


def admin_desk(parts: Parts, changes: RunningChanges) -> AdminDesk:
    explaining = trio.CapacityLimiter(EXPLAIN_AT_ONCE)

    async def explain(router: str, number: int) -> dict[str, Any] | str | None:
        if router != parts.router.state.router or number > parts.journal.position:
            return None
        gate_s = parts.settings.in_force.log.gate_wait_ms / 1000
        with trio.move_on_after(gate_s) as waited:
            await parts.journal.durable(number)
        if waited.cancelled_caught:
            raise StoreFailed(str(parts.directory), "this decision is not on disk yet")
        return await trio.to_thread.run_sync(
            _explain, parts.directory, router, number, limiter=explaining
        )

    async def find(text: str) -> dict[str, Any] | str:
        models = tuple(parts.router.state.fleet.seen_models)
        return await trio.to_thread.run_sync(
            _find, parts.directory, text, models, limiter=explaining
        )

    return AdminDesk(
        broken=BrokenEnding,
        state=lambda: parts.router.state,
        now_ms=parts.now_ms,
        log=JournalView(parts.journal, parts.directory, parts.store),
        feed=event_feed(parts),
        timings=parts.timings,
        ready=lambda: readiness(parts),
        explain=explain,
        find=find,
        changes=changes,
        token=changes.environ.get(parts.settings.in_force.server.admin_token_env, ""),
        version=trioroute.__version__,
    )


def event_feed(parts: Parts) -> Feed:
    """What ``/events`` streams; listens to the router from here on."""
    router = parts.router
    log = JournalView(parts.journal, parts.directory, parts.store)
    past = partial(_past, parts.directory, f"{STREAM_PREFIX}{router.state.router}")
    before = partial(_in_force_before, parts.directory, f"{STREAM_PREFIX}{router.state.router}")
    feed = Feed(log, lambda: router.state.at_ms, past, router.state.settings, before)
    router.listeners.append(lambda decided: feed.note(decided.first, decided.events))
    return feed


def _past(directory: Path, stream: str, after: int, limit: int) -> list[Seen]:
    """Committed events after ``after``, or the oldest kept if those behind it were deleted."""
    with SqliteReader.open(directory) as reader:
        records = reader.read_stream(stream, after, limit)
    return [_seen(one) for one in records]


def _seen(record: Record) -> Seen:
    settings = None
    if record.kind == "Configured":
        with suppress(UnreadableEvent):  # of a newer release
            event = decode(record.kind, record.schema, record.body)
            settings = event.settings if isinstance(event, Configured) else None
    return Seen(record.version, record.at_ms, record.kind, record.body, settings)


def _in_force_before(directory: Path, stream: str, version: int) -> InForce | None:
    with SqliteReader.open(directory) as reader:
        rows = reader.read_stream(stream, version - 1, 1)
        return settings_before(reader, stream, rows[0].seq) if rows else None


def _explain(directory: Path, router: str, number: int) -> dict[str, Any] | str:
    with SqliteReader.open(directory) as reader:
        try:
            return explain_decision(reader, router, number, Snapshots(directory))
        except NotFound as none:
            return str(none)


def _find(directory: Path, text: str, models: tuple[str, ...]) -> dict[str, Any] | str:
    with SqliteReader.open(directory) as reader:
        source = Source(reader, index=index_of(directory))
        try:
            return look_up(source, text, models, read_secret(directory))
        except NotFound as none:
            return str(none)
