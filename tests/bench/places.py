"""Where the bench keeps what it built and installed, and which CPUs it uses."""

import os
from pathlib import Path

import attrs


def cache_dir() -> Path:
    """``~/.cache/trioroute-bench``, or under ``$XDG_CACHE_HOME``. Logs stand there meanwhile."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = root / "trioroute-bench"
    path.mkdir(parents=True, exist_ok=True)
    return path


def filesystem_of(path: Path, mounts: str | None = None) -> str:
    """The type of the filesystem that holds ``path``: ``ext4``, ``tmpfs``; ``?`` if unknown."""
    text = mounts if mounts is not None else Path("/proc/mounts").read_text()
    best, kind = "", "?"
    for line in text.splitlines():
        _, where, found, *_ = line.split()
        inside = path.as_posix() == where or path.as_posix().startswith(where.rstrip("/") + "/")
        if inside and len(where) >= len(best):
            best, kind = where, found
    return kind


@attrs.frozen
class Cpus:
    """Which CPU the proxy under test runs on, and which the load generator and the upstream share.

    ``None``: nothing is pinned, because there is one CPU only.
    """

    proxy: int | None
    load: int | None


def cpus() -> Cpus:
    mine = sorted(os.sched_getaffinity(0))
    return Cpus(mine[0], mine[1]) if len(mine) > 1 else Cpus(None, None)
