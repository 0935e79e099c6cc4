"""One writer per log directory: a kernel lock that dies with its process."""

import fcntl
import os
from pathlib import Path

from eventlog.errors import LogOwned, cannot_write

LOCK_NAME = "owner.lock"


class Ownership:
    """The right to write to a log directory, held until :meth:`release` or the process's end.

    ``flock`` on ``LOG/owner.lock``: the kernel drops it with the process, so a lock left by a
    crash needs no hand work. The file holds the owner's pid for people. A pid file alone lost
    because pids are reused; the file is never unlinked because a second opener could then lock
    another inode.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, directory: Path) -> "Ownership":
        """Take ``directory`` at once or raise LogOwned naming the process that holds it.

        Raises StoreFailed where the file cannot be made or written (disk full, read-only).
        """
        path = directory / LOCK_NAME
        descriptor = -1
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
            owned, descriptor = cls(descriptor), -1
            return owned
        except BlockingIOError as exc:
            raise LogOwned(directory, _pid_in(descriptor)) from exc
        except OSError as exc:
            raise cannot_write(path, exc) from exc
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def release(self) -> None:
        """Give the directory up. May be called again."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1


def _pid_in(descriptor: int) -> int:
    text = os.pread(descriptor, 20, 0).strip()
    return int(text) if text.isdigit() else 0
