"""The chain finds the first row that is not what was written."""

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import Head, LogDamaged, MemoryStore, Record
from eventlog.chain import verify_chain
from eventlog.conformance import some_entries


def log(count: int) -> list[Record]:
    store = MemoryStore()
    store.append("a", some_entries(count), 0)
    return store.read()


def test_the_first_link_of_a_known_row_never_changes() -> None:
    # The chain is a format: this value is kept for good.
    assert log(1)[0].chain.hex() == "f09a492286c9cd5bc22975dbb1149e8e"


def test_a_whole_log_verifies_to_its_head() -> None:
    records = log(9)
    head = Head(9, records[-1].chain)
    assert verify_chain(records, Head()) == head
    assert verify_chain(records[4:], Head(4, records[3].chain)) == head
    assert verify_chain(records[4:]) == head, "a retired beginning is taken on trust"
    assert verify_chain([], head) == head
    assert verify_chain([]) == Head()


@pytest.mark.parametrize(
    ("change", "seq", "reason"),
    [
        (lambda rows: rows[:3] + rows[4:], 4, "gap: 4 to 4 are missing"),
        (lambda rows: rows[3:], 1, "gap: 1 to 3 are missing"),
        (lambda rows: [*rows[:3], rows[2], *rows[3:]], 3, "order"),
        (lambda rows: [rows[0], rows[2], rows[1]], 2, "gap"),
    ],
)
def test_rows_missing_or_out_of_order_are_named(change, seq: int, reason: str) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001  # lambdas above
    with pytest.raises(LogDamaged, match=reason) as damage:
        verify_chain(change(log(6)), Head(), where="here")
    assert (damage.value.seq, damage.value.where) == (seq, "here")


@settings(max_examples=60, deadline=None)
@given(
    place=st.integers(0, 5),
    change=st.sampled_from(
        [
            {"stream": "b"},
            {"version": 77},
            {"kind": "other"},
            {"schema": 2},
            {"at_ms": 0},
            {"seen": 99},
            {"body": b"{}"},
            {"chain": bytes(16)},
            {"kind": "counte", "stream": "ad"},
        ]
    ),
)
def test_any_change_to_any_row_is_found_at_that_row(place: int, change: dict[str, object]) -> None:
    records = log(6)
    records[place] = attrs.evolve(records[place], **change)  # type: ignore[arg-type]  # one field
    with pytest.raises(LogDamaged, match="chain") as damage:
        verify_chain(records, Head())
    assert damage.value.seq == place + 1


def test_a_field_cannot_run_into_the_next() -> None:
    one, two = MemoryStore(), MemoryStore()
    entry = some_entries(1)[0]
    one.append("ab", [attrs.evolve(entry, kind="c")], 0)
    two.append("a", [attrs.evolve(entry, kind="bc")], 0)
    assert one.head() != two.head()
