"""What can go wrong with a log. Every message names the place, the value and the remedy.

The constructor's arguments are ``args``, so an error can be copied and raised in several tasks.
"""

import errno
from collections.abc import Mapping
from pathlib import Path

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What the system says where a disk, or a user's share of it, is full."""

REMEDIES = {
    errno.ENOSPC: "free room on its disk",
    errno.EDQUOT: "free room in this user's share of its disk",
    errno.EROFS: "nothing can be written there; remount it, or work on a copy",
    errno.EACCES: "run it as the user whose it is, or let this one in",
    errno.EPERM: "run it as the user whose it is, or let this one in",
    errno.EIO: "its disk fails: look at the kernel's log",
}
"""What helps where the system refuses a file or a disk."""


class LogError(Exception):
    """Base of every error of this package."""


class VersionConflict(LogError):
    """Another writer has written to this stream: its last version is not the expected one (E3)."""

    def __init__(self, stream: str, expected: int, actual: int) -> None:
        super().__init__(stream, expected, actual)
        self.stream = stream
        self.expected = expected
        self.actual = actual

    def __str__(self) -> str:
        return (
            f"stream {self.stream!r} is at version {self.actual}, expected {self.expected}: another"
            " writer has written to it; stop one of the two and start again from the log"
        )


class StoreClosed(LogError):
    """The store or journal was closed; nothing of this call was stored (E10)."""

    def __init__(self, what: str = "the store") -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} is closed"


class StoreFailed(LogError):
    """The store could not read or write now (disk full, I/O error, locked).

    After a failed append the entries may or may not be stored; the same append may be repeated and
    answers "already there" in the first case (E2).
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where = where
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class NoRoom(StoreFailed):
    """As StoreFailed, because the disk, or this user's share of it, is full."""

    def __str__(self) -> str:
        return f"{super().__str__()}: {REMEDIES[errno.ENOSPC]}"


def cannot_write(path: Path, error: OSError) -> StoreFailed:
    """What the system's refusal to write ``path`` is."""
    reason = f"cannot be written ({error.strerror or error})"
    if error.errno in NO_ROOM:
        return NoRoom(str(path), reason)
    remedy = REMEDIES.get(error.errno or 0, "")
    return StoreFailed(str(path), f"{reason}: {remedy}" if remedy else reason)


def _entries(count: int) -> str:
    return f"{count} {'entry' if count == 1 else 'entries'}"


class EntriesLost(StoreFailed):
    """A journal ended before the store took everything: how many entries of each kind are lost, and
    why."""

    def __init__(self, where: str, kinds: Mapping[str, int], why: str) -> None:
        count = sum(kinds.values())
        told = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
        super().__init__(where, f"{_entries(count)} lost ({told}): {why}")
        self.args = (where, kinds, why)
        self.kinds = kinds
        self.count = count
        self.why = why


class LogOwned(LogError):
    """A live process holds this log for writing. ``pid`` is 0 when it is not known."""

    def __init__(self, path: Path, pid: int) -> None:
        super().__init__(path, pid)
        self.path = path
        self.pid = pid

    def __str__(self) -> str:
        owner = f"process {self.pid}" if self.pid else "another process"
        return (
            f"the log {self.path} is being written by {owner}: stop it first, or give this one"
            " another log directory (a lock left by a dead process needs no removal)"
        )


class NewerLog(LogError):
    """The log was written by a newer version of this package; nothing was touched."""

    def __init__(self, path: Path, found: int, known: int) -> None:
        super().__init__(path, found, known)
        self.path = path
        self.found = found
        self.known = known

    def __str__(self) -> str:
        return (
            f"{self.path} has log format {self.found}, this version knows up to {self.known}:"
            " use the version that wrote it, or a newer one"
        )


class LogMissing(LogError):
    """There is no log at this path."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"no event log at {self.path}: expected a directory with log-<seq>.sqlite files, or"
            " such a file"
        )


class LogDamaged(LogError):
    """The log is not what was written: the first bad row, or the file (``seq`` 0).

    ``reason`` begins with ``gap``, ``order``, ``chain`` or ``file``.
    """

    def __init__(self, where: str, seq: int, reason: str) -> None:
        super().__init__(where, seq, reason)
        self.where = where
        self.seq = seq
        self.reason = reason

    def __str__(self) -> str:
        place = f"{self.where}, seq {self.seq}" if self.seq else self.where
        return (
            f"{place}: damaged ({self.reason}); move it aside and restore it from a copy,"
            " or start with an empty log directory"
        )


class Overtaken(LogError):
    """Retention was faster than the copy, by more than all that it held open: ``until`` is the last
    row of the copy, 0 for none, ``begins_at`` the first that the log still has."""

    def __init__(self, log: Path, target: Path, until: int, begins_at: int) -> None:
        super().__init__(log, target, until, begins_at)
        self.log = log
        self.target = target
        self.until = until
        self.begins_at = begins_at

    def __str__(self) -> str:
        has = f"{self.target} ends at row {self.until}" if self.until else "nothing was copied"
        return (
            f"{self.log} retires its segments faster than they are copied: it begins at row"
            f" {self.begins_at} by now, and {has}; copy it to another target, a faster one or while"
            " less is retired"
        )


class ChangedMeanwhile(StoreFailed):
    """A writer came while the file was read as one at rest."""

    def __init__(self, source: Path) -> None:
        super().__init__(str(source), "a router began to write it meanwhile: copy it again")
        self.args = (source,)


class JournalFull(LogError):
    """The journal's buffer is at its bound, nothing of this offer was taken.

    ``entries`` and ``size`` (bytes of bodies) are what is waiting now; the limits are the bounds
    that applied to this offer.
    """

    def __init__(self, entries: int, size: int, max_entries: int, max_bytes: int) -> None:
        super().__init__(entries, size, max_entries, max_bytes)
        self.entries = entries
        self.size = size
        self.max_entries = max_entries
        self.max_bytes = max_bytes

    def __str__(self) -> str:
        return (
            f"the log's buffer is full: {_entries(self.entries)} of {self.size} bytes wait for the"
            f" store (bounds {self.max_entries} and {self.max_bytes}); the disk is too slow or full"
        )


def gap(where: str, expected: int, found: int) -> LogDamaged:
    """What is raised where ``found`` is read and ``expected`` should come."""
    if found < expected:
        return LogDamaged(where, expected, f"order: row {found} stands in its place")
    return LogDamaged(where, expected, f"gap: {expected} to {found - 1} are missing")
