"""A real file system of a few MiB, to be filled to its last byte."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


def mount(*arguments: str) -> None:
    """Skips the test where this user may not mount."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs the right to mount a small file system: {done.stderr.strip()}")


@contextmanager
def mounted(place: Path, size_bytes: int) -> Iterator[Path]:
    """A file system in memory at ``place``, which is made."""
    place.mkdir()
    mount("-t", "tmpfs", "-o", f"size={size_bytes}", "none", str(place))
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> Path:
    """Take all room there is, and give the file that has it."""
    ballast = place / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for step in (1 << 16, 4096, 512, 1):
            with suppress(OSError):
                while file.write(bytes(step)):
                    pass
    return ballast
