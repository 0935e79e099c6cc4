"""What goes into a log and what comes out: plain frozen facts, cheap to build."""

from collections.abc import Sequence
from typing import Self

import attrs

GENESIS = bytes(16)
"""The chain value before the first row of a log."""


@attrs.define
class Entry:
    """One fact to append. Nobody changes one; it is not frozen because that would double what
    making it costs, and each event of a request is one.

    ``kind`` and the integer ``schema`` say how to read ``body``, which is compact JSON in UTF-8;
    ``at_ms`` is the writer's clock in milliseconds; ``seen`` is the highest foreign ``seq`` the
    writer had folded before it (0 with one writer). Integers are signed 64 bits.
    """

    kind: str
    schema: int
    at_ms: int
    seen: int
    body: bytes


@attrs.define
class Record:
    """One stored row: an entry with its place in the log. Not frozen either.

    ``seq`` is the place in the whole log, ``version`` the place in its stream, both from 1 and
    without gaps; ``chain`` is the 16-byte hash over this row and all rows before it (chain.py).
    """

    seq: int
    stream: str
    version: int
    kind: str
    schema: int
    at_ms: int
    seen: int
    body: bytes
    chain: bytes


@attrs.frozen
class Head:
    """The last row of a log: its ``seq`` and chain. ``Head()`` is the head of an empty log."""

    seq: int = 0
    chain: bytes = GENESIS

    def __str__(self) -> str:
        """``SEQ:CHAIN`` in hexadecimal: how a head is kept elsewhere."""
        return f"{self.seq}:{self.chain.hex()}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The reverse of ``str``, of a head with a row. Raises ValueError."""
        seq, _, chain = text.partition(":")
        head = cls(int(seq), bytes.fromhex(chain))
        if head.seq < 1 or len(head.chain) != len(GENESIS):
            raise ValueError(f"{text!r} is not SEQ:CHAIN")
        return head


@attrs.frozen
class Appended:
    """Where the rows of one append are: ``first`` and ``last`` are seqs.

    ``already`` is true when the same entries were there before the call (clause E2).
    """

    first: int
    last: int
    already: bool = False


def same_entries(records: Sequence[Record], entries: Sequence[Entry]) -> bool:
    """Whether ``records`` hold exactly ``entries`` (clause E2)."""
    return len(records) == len(entries) and all(
        (r.kind, r.schema, r.at_ms, r.seen, r.body) == (e.kind, e.schema, e.at_ms, e.seen, e.body)
        for r, e in zip(records, entries, strict=True)
    )
