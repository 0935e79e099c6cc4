"""A plain row is what ``decode`` makes of it, and what is in doubt is none."""

import random
from collections.abc import Iterator

import orjson
import pytest

from eventlog.bare import bare, even
from eventlog.record import Entry, Record
from tests.events.samples import SAMPLES
from tests.replay.logs import played
from trioroute.events import Dispatched, Event, Released, decode
from trioroute.events.codec import encode, kind_of
from trioroute.replay.gather import plain_runs
from trioroute.replay.pace import pace_of
from trioroute.replay.plain import Run

ENTRIES = played(300, faults="replica=1,down=20..60")[0]
LEAST_WORK = played(100, policy="least-work")[0]


def record(seq: int, entry: Entry) -> Record:
    return Record(seq, "router/r1", seq, entry.kind, entry.schema, entry.at_ms, 0, entry.body, b"")


def runs_of(entries: tuple[Entry, ...]) -> list[Run | Record]:
    return plain_runs(even(bare(record(seq, entry)) for seq, entry in enumerate(entries, 1)))


def rows_of(run: Run) -> Iterator[tuple[int, tuple[object, ...]]]:
    """By version, what a run tells of each of its rows."""
    for move in run.moves():
        yield move[0], move[1:]
    for fate, pins in run.pins.items():
        for version, at_ms in zip(pins.versions, pins.times, strict=True):
            yield version, (at_ms, fate)


def as_told(entry: Entry) -> tuple[object, ...]:
    event = decode(entry.kind, entry.schema, entry.body)
    if isinstance(event, Dispatched):
        who = (event.model, event.key)
        size = next(n for n in range(6, 40) if event.prompt_bytes < 4**n)
        return entry.at_ms, (event.replica, who, event.reason, size), event.request_id
    if isinstance(event, Released):
        times = event.ttfb_ms, event.duration_ms
        return entry.at_ms, event.dispatch, *times, pace_of(event)
    body = orjson.loads(entry.body)
    return entry.at_ms, (entry.kind, body["kind"], body["cause"])


def check_decisions_of_pins(run: Run, entries: tuple[Entry, ...]) -> None:
    for pins in run.pins.values():
        bodies = [orjson.loads(entries[version - 1].body) for version in pins.versions]
        made = [body["dispatch"] for body in bodies if body["dispatch"] is not None]
        assert (pins.made, pins.first_made) == (len(made), made[0] if made else None)


@pytest.mark.parametrize("entries", [ENTRIES, LEAST_WORK])
def test_runs_and_records_are_all_rows_and_tell_what_they_say(entries: tuple[Entry, ...]) -> None:
    version = plain = 0
    for one in runs_of(entries):
        if isinstance(one, Record):
            assert one == record(version + 1, entries[version])
            version += 1
            continue
        assert one.first == one.seq == version + 1
        assert one.from_ms == entries[one.first - 1].at_ms
        assert one.to_ms == entries[one.last - 1].at_ms
        rows = dict(rows_of(one))
        assert sorted(rows) == list(range(one.first, one.last + 1))
        for number, told in rows.items():
            assert told == as_told(entries[number - 1])
        check_decisions_of_pins(one, entries)
        plain += len(rows)
        version = one.last
    assert version == len(entries)
    assert plain > version * 3 / 4


def test_every_first_dispatch_and_good_end_of_a_log_is_plain() -> None:
    for one in runs_of(ENTRIES):
        if isinstance(one, Record) and one.kind in ("Dispatched", "Released"):
            body = orjson.loads(one.body)
            assert body.get("attempt", 1) > 1 or body.get("outcome", "ok") != "ok"


def plain(entry: Entry) -> bool:
    return isinstance(runs_of((entry,))[0], Run)


def entry_of(event: Event, body: bytes | None = None) -> Entry:
    kind = kind_of(event)
    return Entry(kind.name, kind.schema, 1, 0, encode(event) if body is None else body)


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_a_body_that_was_changed_is_plain_only_if_it_can_be_read(event: Event) -> None:
    dice, body = random.Random(1), encode(event)
    for _ in range(1500):
        at = dice.randrange(len(body))
        sign = bytes([dice.choice(b'0-"\\{}[],:ntx \x00\xc3')])
        changed = entry_of(event, body[:at] + sign + body[at + dice.randrange(2) :])
        if plain(changed):
            decode(changed.kind, changed.schema, changed.body)


def test_another_schema_is_not_plain_and_any_letters_are() -> None:
    one = next(entry for entry in ENTRIES if entry.kind == "Dispatched")
    event = decode(one.kind, one.schema, one.body)
    assert isinstance(event, Dispatched)
    assert plain(one)
    assert not plain(Entry(one.kind, one.schema + 1, one.at_ms, 0, one.body))
    for model in ("ein\\\\e", "qwän", 'a\\"b', "\\u00e4"):
        changed = entry_of(event, one.body.replace(event.model.encode(), model.encode()))
        (run,) = runs_of((changed,))
        assert isinstance(run, Run)
        assert dict(rows_of(run)) == {1: as_told(changed)}


def test_an_end_of_a_dispatch_that_comes_later_is_not_plain() -> None:
    sent = next(at for at, entry in enumerate(ENTRIES, 1) if entry.kind == "Dispatched")
    end = next(
        entry
        for entry in ENTRIES
        if entry.kind == "Released" and orjson.loads(entry.body)["dispatch"] == sent
    )
    entries = ENTRIES[: sent - 1]
    early, late = (*entries, end, ENTRIES[sent - 1]), (*entries, ENTRIES[sent - 1], end)
    assert isinstance(runs_of(late)[-1], Run)
    assert [one.kind for one in runs_of(early) if isinstance(one, Record)][-1] == "Released"
