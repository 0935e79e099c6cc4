"""One writer per log directory: a kernel lock that dies with its process."""

import fcntl
import os
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal

from eventlog.errors import LogOwned, cannot_write
from eventlog.unwritten import Unwritten, left_in, unwritten_in

LOCK_NAME = "owner.lock"

TOLD_BYTES = 400

LOOK_AGAIN_S = 0.02
"""Who looks whether the lock is held has it for some microseconds: it is asked for twice."""

TRIES = 20
"""Each one fails only where somebody else removed the file in the microseconds before."""

Writer = Literal["writing", "closed", "cut short", "gone", "unknown"]
"""What is known of who writes a log: it does so, closed it in order, is gone without, or nothing.

``cut short``: it ended in order, but could not write its last events (:func:`cut_short`).

``unknown``: no lock file, or one that was copied, or was written by another boot or machine, or by
a release that left no mark in it.
"""


def writer_of(directory: Path) -> Writer:
    """Who writes the log in ``directory``, as the kernel and the lock file tell it.

    ``gone`` is proved: the file is the very one that its owner marked, under this boot, and the
    kernel has taken the lock back. A copy has another inode, so it never says so.
    """
    with suppress(OSError):
        descriptor = os.open(directory / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            told = os.pread(descriptor, TOLD_BYTES, 0)
            if not told:
                return "closed"
            if unwritten_in(told) is not None:
                return "cut short"
            return (
                "gone"
                if told.partition(b"\n")[0].partition(b" ")[2] == _mark(descriptor)
                else "unknown"
            )
        except BlockingIOError:
            return "writing"
        finally:
            os.close(descriptor)
    return "unknown"


def cut_short(directory: Path) -> Unwritten | None:
    """What the last run could not write at its end; None where it could, or one writes."""
    with suppress(OSError):
        return unwritten_in((directory / LOCK_NAME).read_bytes()[:TOLD_BYTES])
    return None


def _mark(descriptor: int) -> bytes:
    """Which file it is, and of which boot of the machine: a copy has another one."""
    stat, boot = os.fstat(descriptor), ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{stat.st_dev}:{stat.st_ino} {boot}".strip().encode()


class Ownership:
    """The right to write to a log directory, held until :meth:`release` or the process's end.

    ``flock`` on ``LOG/owner.lock``: the kernel drops it with the process, so a lock left by a
    crash needs no hand work. The file holds the owner's pid for people, and a mark by which a
    copy of it is told from the file itself (:func:`writer_of`). A pid file alone lost because pids
    are reused. The file stays in a log; where it goes with its directory (``passing``), only who
    holds it removes it, and who was waiting for it then sees that it has the lock of no file.
    """

    def __init__(self, descriptor: int, passing: Path | None = None) -> None:
        self._descriptor = descriptor
        self._passing = passing
        self.word = left_in(os.pread(descriptor, TOLD_BYTES, 0))
        """What the run before could not write. It stays in the file behind the owner's line, and
        whatever stands here is left by ``release``."""

    @classmethod
    def take(cls, directory: Path, *, passing: bool = False) -> "Ownership":
        """Take ``directory`` at once or raise LogOwned naming the process that holds it.

        Raises StoreFailed where the file cannot be made or written (disk full, read-only). With
        ``passing`` the file is gone after this or :meth:`release`.
        """
        path = directory / LOCK_NAME
        try:
            owned = cls(_open_locked(path), path if passing else None)
            try:
                owned._sign()
            except BaseException:
                owned.release()
                raise
        except OSError as exc:
            raise cannot_write(path, exc) from exc
        return owned

    def _sign(self) -> None:
        word = b"" if self.word is None else self.word.line()
        self._say(b"%d %s\n%b" % (os.getpid(), _mark(self._descriptor), word))

    def _say(self, text: bytes) -> None:
        """Over what is there: where the disk is full, the file has this block all the same."""
        os.pwrite(self._descriptor, text, 0)
        os.ftruncate(self._descriptor, len(text))

    def release(self) -> None:
        """Give the directory up. May be called again."""
        if self._descriptor >= 0:
            if self._passing is not None:
                with suppress(OSError):  # then it stays, and nobody holds it
                    self._passing.unlink()
            with suppress(OSError):  # then its mark stays, and it is told as one that died
                self._say(b"" if self.word is None else self.word.line())
            os.close(self._descriptor)
            self._descriptor = -1


def _open_locked(path: Path) -> int:
    """The descriptor of the file that is at ``path``, locked.

    Who had it may have removed it between the opening and the lock, which is one of no file then.
    After TRIES it is taken as it is: there are file systems that number a file anew when asked.
    Raises LogOwned, OSError.
    """
    for left in reversed(range(TRIES)):
        with ExitStack() as unless_kept:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            unless_kept.callback(os.close, descriptor)
            try:
                _lock(descriptor)
            except BlockingIOError as exc:
                raise LogOwned(path.parent, _pid_in(descriptor)) from exc
            if not left or _is_at(path, descriptor):
                unless_kept.pop_all()
                break
    return descriptor


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _lock(descriptor: int) -> None:
    """Raises BlockingIOError where another process owns it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(LOOK_AGAIN_S)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _pid_in(descriptor: int) -> int:
    text = os.pread(descriptor, 20, 0).strip().partition(b" ")[0]
    return int(text) if text.isdigit() else 0
