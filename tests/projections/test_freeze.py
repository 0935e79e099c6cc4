"""A frozen state is the whole state: thawed, it goes on exactly as the one it was made of."""

import gzip
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import attrs
import orjson
import pytest

from tests.rig import MODEL, Flown, Rig, settings
from tests.scenario import play
from trioroute import events as e
from trioroute.policy import commands as c
from trioroute.projections import Health, State, apply, freeze
from trioroute.projections.digest import digest
from trioroute.projections.freeze import FOLD, CannotThaw, fingerprint, thaw
from trioroute.projections.prompts import BLOCK_BYTES

GOLDEN = Path(__file__).parent.parent / "golden" / "logs"


def through_bytes(state: State) -> State:
    return thaw(orjson.loads(orjson.dumps(freeze.freeze(state))))


def packed(state: State) -> bytes:
    """With the order of all tables."""
    return orjson.dumps(freeze.freeze(state))


@pytest.mark.parametrize("seed", range(6))
def test_a_thawed_state_goes_on_as_the_one_it_was_made_of(seed: int) -> None:
    entries = play(seed, 300).log.entries
    state = State()
    thawed = State()
    for version, entry in enumerate(entries, 1):
        event = e.decode(entry.kind, entry.schema, entry.body)
        apply(state, version, entry.at_ms, event)
        apply(thawed, version, entry.at_ms, event)
        if version % 7 == 0:
            thawed = through_bytes(thawed)
            assert thawed == state
    assert packed(thawed) == packed(state)
    assert digest(thawed) == digest(state)


def test_every_field_of_the_state_is_frozen() -> None:
    fields = [field for field in attrs.fields(State) if field.init]
    assert freeze.freeze(State()).keys() == {field.name for field in fields}
    assert through_bytes(State()) == State()


def test_the_record_of_prompts_is_frozen_too() -> None:
    rig = Rig(settings(policy={"name": "least-work"}))
    rig.live("a", "b")
    for number in range(40):
        blocks = tuple(range(1, 2 + number % 9))
        answer = rig.send(
            c.Arrive(
                at_ms=rig.at_ms,
                request_id=f"q{number}",
                model=MODEL,
                prompt_bytes=BLOCK_BYTES * len(blocks),
                blocks=blocks,
            )
        )
        assert isinstance(answer, Flown)
        if number % 3:
            rig.finish(answer)
    assert rig.state.prompts.parent
    assert rig.state.prompts.promises
    thawed = through_bytes(rig.state)
    assert thawed == rig.state
    assert packed(thawed) == packed(rig.state)


def test_freezing_and_thawing_share_nothing_with_the_state() -> None:
    state = play(1, 200).state
    before = packed(state)
    frozen = freeze.freeze(state)
    thawed = thaw(frozen)
    for version in range(3):
        apply(thawed, thawed.position + 1, thawed.at_ms, e.Live(replica="a"))
        for sample in play(2, 50 + version).log.entries:
            event = e.decode(sample.kind, sample.schema, sample.body)
            apply(thawed, thawed.position + 1, thawed.at_ms, event)
    assert packed(state) == before
    assert orjson.dumps(frozen) == before


def test_a_field_that_was_added_since_takes_its_default() -> None:
    frozen = orjson.loads(packed(play(1, 200).state))
    last = attrs.fields(Health)[-1]
    for row in frozen["health"].values():
        row.pop()
    assert all(getattr(one, last.name) == last.default for one in thaw(frozen).health.values())


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a part is missing": lambda frozen: frozen.pop("pins"),
    "a setting is unknown": lambda frozen: frozen["settings"]["settings"]["log"].update(new=1),
    "a row is too long": lambda frozen: frozen["fleet"][0][0].extend([1, 2]),
    "a table is a text": lambda frozen: frozen.update(health="a"),
    "a counter is missing": lambda frozen: frozen["tally"][0].pop(),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_no_frozen_state_is_refused(what: str) -> None:
    frozen = orjson.loads(packed(play(1, 200).state))
    CHANGES[what](frozen)
    with pytest.raises(CannotThaw, match="not a frozen state of this release"):
        thaw(frozen)


def test_the_fingerprint_sees_another_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint()
    assert fingerprint() == before
    with monkeypatch.context() as patch:
        patch.setattr(freeze, "FOLD", FOLD + 1)
        assert fingerprint() != before

    @attrs.define
    class Promise:
        tokens: int

    monkeypatch.setattr(freeze, "_SHAPES", (*freeze._SHAPES, Promise))
    assert fingerprint() != before


def test_the_fold_is_the_one_that_snapshots_were_made_with() -> None:
    """If this fails, the same events fold into another state: raise FOLD, then set both anew."""
    state = State()
    lines = gzip.decompress((GOLDEN / "course.jsonl.gz").read_bytes()).splitlines()
    for version, line in enumerate(lines, 1):
        kind, schema, at_ms, body = orjson.loads(line)
        apply(state, version, at_ms, e.decode(kind, schema, body.encode()))
    frozen = freeze.freeze(state)
    del frozen["settings"]
    assert (FOLD, blake2b(orjson.dumps(frozen), digest_size=8).hexdigest()) == (
        3,
        "607bd4d4b3092d6e",
    )
