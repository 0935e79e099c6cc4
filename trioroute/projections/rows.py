"""Rows of a log straight into a state: for whoever folds many of them and judges none."""

from collections.abc import Iterable

from trioroute.events import decode
from trioroute.projections.folds import apply
from trioroute.projections.state import State

Row = tuple[str, int, int, bytes]
"""A row's kind, schema, at_ms and body."""


def fold_rows(state: State, rows: Iterable[Row]) -> None:
    """Fold the rows that come next in the state's stream.

    Raises UnreadableEvent at the first one that this release cannot read; those before it are
    folded then.
    """
    version = state.position
    for kind, schema, at_ms, body in rows:
        version += 1
        apply(state, version, at_ms, decode(kind, schema, body))
