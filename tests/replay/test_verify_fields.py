"""Whatever ``decide`` put into a row is found when it says otherwise, field by field."""

from typing import Any, Literal, get_args, get_origin, get_type_hints

import orjson
import pytest

from tests.replay.rig import busy_day, changed, store_of
from tests.rig import Rig
from trioroute import events as e
from trioroute.events.flat import defaults_of
from trioroute.replay.read import Source
from trioroute.replay.verify import verify

DECIDED = {
    e.Dispatched: {"replica", "reason", "weight_m", "home", "policy", "base", "blocks", "uncached"},
    e.Bound: {*defaults_of(e.Bound)} - {"cause"},  # there is but one
    e.Spilled: {*defaults_of(e.Spilled)},
    e.Rebound: {*defaults_of(e.Rebound)},
    e.Unbound: {*defaults_of(e.Unbound)},
    e.Checked: {*defaults_of(e.Checked)},
}
"""The rest of a Dispatched is of the request, which no past tells: only the chain is over it."""


@pytest.fixture(scope="module")
def day() -> Rig:
    return busy_day(450)


def other_than(value: Any, hint: object) -> Any:
    """A value that its row could hold as well."""
    words = [hint, *get_args(hint)]
    literal = next((word for word in words if get_origin(word) is Literal), None)
    if literal is not None:
        return next(word for word in get_args(literal) if word != value)
    if isinstance(value, int):
        return value + 1
    return [*value, 7] if isinstance(value, list | tuple) else f"{value or ''}x"


@pytest.mark.parametrize(
    ("kind", "field"),
    [(kind, field) for kind, fields in DECIDED.items() for field in sorted(fields)],
)
def test_a_decided_field_that_was_changed_is_found(day: Rig, kind: type, field: str) -> None:
    entries = day.log.entries
    rows = [n for n, entry in enumerate(entries, 1) if entry.kind == kind.__name__]
    hint = get_type_hints(kind)[field]
    for version in (rows[len(rows) // 2], rows[-1]):
        body = {**defaults_of(kind), **orjson.loads(entries[version - 1].body)}
        told = changed(entries, version, **{field: other_than(body[field], hint)})
        found = verify(Source(store_of(told)))
        assert found.difference is not None
        assert found.difference.what in ("not deterministic", "digest")
