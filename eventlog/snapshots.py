"""Snapshots: what a program folded a log into, kept so that it need not fold all of it again.

They are disposable. A snapshot says after which row it was taken and with which fold; one that is
damaged, of another fold, or of another log is passed over, and the log alone is the truth.
"""

import json
import os
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import attrs

from eventlog.chain import verify_chain
from eventlog.errors import LogDamaged
from eventlog.record import Head
from eventlog.store import LogReader
from eventlog.whole_file import left_drafts, write_whole

DIRECTORY = "snapshots"
FORMAT = 1

_NAME = re.compile(r"after-([0-9]+)\.snapshot\Z")
_DIGEST_BYTES = 16

_T = TypeVar("_T")

Warn = Callable[[str], None]
"""Told of a snapshot that was passed over, and why."""


@attrs.frozen
class Snapshot:
    """What was folded up to and with the row ``head.seq``; ``fold`` names how it was folded."""

    head: Head
    fold: str
    payload: bytes

    def digest(self) -> bytes:
        """Another one for another row or another payload."""
        told = str(self.head).encode() + self.payload
        return blake2b(told, digest_size=_DIGEST_BYTES).digest()


class BadSnapshot(ValueError):
    """A snapshot file that is not what was written, or not for this log."""


class Snapshots:
    """The snapshots of a log directory, in ``LOG/snapshots/after-<seq>.snapshot``.

    A file is a line of JSON, a line with a blake2b digest of that line and the payload, and the
    payload. It appears whole or not at all.
    """

    def __init__(self, log: Path) -> None:
        self._directory = log / DIRECTORY

    @property
    def directory(self) -> Path:
        """Where they lie; made with the first."""
        return self._directory

    def path(self, seq: int) -> Path:
        """The file of the snapshot after row ``seq``."""
        return self._directory / f"after-{seq}.snapshot"

    def seqs(self) -> list[int]:
        """After which rows there are snapshots, the newest first; nothing is read."""
        try:
            names = os.listdir(self._directory)  # noqa: PTH208  # names only
        except OSError:
            return []
        return sorted((int(m[1]) for name in names if (m := _NAME.match(name))), reverse=True)

    def write(self, snapshot: Snapshot) -> Path:
        """Keep it, in place of one after the same row. Raises OSError; then nothing has changed."""
        told = {
            "format": FORMAT,
            "seq": snapshot.head.seq,
            "chain": snapshot.head.chain.hex(),
            "fold": snapshot.fold,
        }
        head = json.dumps(told).encode() + b"\n"
        path = self.path(snapshot.head.seq)
        write_whole(path, head + _digest(head, snapshot.payload) + b"\n" + snapshot.payload)
        return path

    def read(self, seq: int) -> Snapshot:
        """The snapshot after row ``seq``. Raises BadSnapshot."""
        try:
            head, digest, payload = self.path(seq).read_bytes().split(b"\n", 2)
        except (OSError, ValueError) as exc:
            raise BadSnapshot(f"cannot be read: {exc}") from exc
        if digest != _digest(head + b"\n", payload):
            raise BadSnapshot("damaged: its digest is another one")
        told: dict[str, Any] = json.loads(head)
        if told["format"] != FORMAT:
            raise BadSnapshot(f"format {told['format']}, this version knows {FORMAT}")
        if told["seq"] != seq:
            raise BadSnapshot(f"its name is that of another row: it was taken after {told['seq']}")
        return Snapshot(Head(told["seq"], bytes.fromhex(told["chain"])), told["fold"], payload)

    def fold_of(self, seq: int) -> str | None:
        """How the one after row ``seq`` was folded, as its first line says; None if that cannot be
        read. Nothing else of it is read."""
        try:
            with self.path(seq).open("rb") as file:
                fold = json.loads(file.readline())["fold"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return fold if isinstance(fold, str) else None

    def newest(
        self,
        reader: LogReader,
        fold: str,
        parse: Callable[[bytes], _T],
        *,
        until: int | None = None,
        warn: Warn | None = None,
    ) -> tuple[Head, _T] | None:
        """The newest usable one after a row that is at most ``until``: its row, and its payload as
        ``parse`` reads it; None where the log must be folded from its first row.

        Usable is what is whole, was folded with ``fold``, was taken from this very log, and is not
        refused by ``parse`` with BadSnapshot.
        """
        foreign: list[int] = []
        found = None
        for seq in self.seqs():
            if until is not None and seq > until:
                continue
            if self.fold_of(seq) not in (fold, None):
                foreign.append(seq)
                continue
            try:
                snapshot = self.read(seq)
                if snapshot.fold != fold:
                    raise BadSnapshot("it was made by a release whose state has another shape")
                check_belongs(reader, snapshot.head)
                found = snapshot.head, parse(snapshot.payload)
                break
            except BadSnapshot as bad:
                if warn is not None:
                    warn(f"the snapshot {self.path(seq)} is not used: {bad}")
        if foreign and warn is not None:
            warn(self._of_another_fold(foreign))
        return found

    def _of_another_fold(self, seqs: list[int]) -> str:
        """One line however many they are: after an upgrade it may be all."""
        which = f"the snapshot {self.path(seqs[0])} is not used: it was"
        if len(seqs) > 1:
            which = f"snapshots in {self._directory} are not used, {len(seqs)} in all: they were"
        return f"{which} made by a release whose state has another shape"

    def keep_only(self, seqs: Collection[int]) -> int:
        """Remove all others, and drafts that a crash left behind; how many. Raises OSError."""
        kept = {self.path(seq) for seq in seqs}
        there = {self.path(seq) for seq in self.seqs()}
        going = [*(there - kept), *left_drafts(self._directory)]
        for path in going:
            path.unlink(missing_ok=True)
        return len(going)


def copy_snapshots(log: Path, target: Path, firsts: Collection[int], head: int) -> tuple[int, ...]:
    """Copy the snapshots that a copy of a log needs: at the beginning of each of its segments,
    which begin at ``firsts``, and the newest after a row at most ``head``.

    Others that an earlier copy left are removed, and one that is damaged is not copied. The answer
    is after which rows there are such now. Raises OSError; each appears whole.
    """
    source, copies = Snapshots(log), Snapshots(target)
    borders = {first - 1 for first in firsts if first > 1}
    wanted = borders | set([seq for seq in source.seqs() if seq <= head][:1])
    for seq in wanted:
        copy_snapshot(log, target, seq)
    copies.keep_only(wanted)
    return tuple(sorted(copies.seqs()))


def copy_snapshot(log: Path, target: Path, seq: int) -> None:
    """Copy the one after row ``seq``, if there is a whole one. Raises OSError."""
    source, copies = Snapshots(log), Snapshots(target)
    if _beginning(source.path(seq)) != _beginning(copies.path(seq)):
        with suppress(BadSnapshot):  # or another process thinned it out just now
            copies.write(source.read(seq))


def _beginning(path: Path) -> bytes:
    """The two lines before the payload, which tell one from another; empty if it is not there."""
    try:
        with path.open("rb") as file:
            return file.readline() + file.readline()
    except FileNotFoundError:
        return b""


def check_belongs(reader: LogReader, head: Head) -> None:
    """Raise BadSnapshot unless the log has that row with that chain, or goes on right after it."""
    try:
        rows = reader.read(max(0, head.seq - 1), 1)
        if rows and rows[0].seq == head.seq:
            if rows[0].chain != head.chain:
                raise BadSnapshot("the log has another row there: it belongs to another log")
        elif rows:
            verify_chain(rows, head)
        elif head.seq:
            raise BadSnapshot(f"the log ends before row {head.seq}: it belongs to another log")
    except LogDamaged as damage:
        raise BadSnapshot(f"the log does not go on after it ({damage.reason})") from damage


def _digest(head: bytes, payload: bytes) -> bytes:
    return blake2b(head + payload, digest_size=_DIGEST_BYTES).hexdigest().encode()
