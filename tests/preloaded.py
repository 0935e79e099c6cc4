"""Small libraries that stand between a process and its disk, loaded with LD_PRELOAD."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def preloaded(source: Path, directory: Path) -> Path:
    """The library made of a C file; skips the test where none can be made."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("a preloaded library stands for the disk: needs Linux and a C compiler")
    made = directory / source.with_suffix(".so").name
    subprocess.run([compiler, "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    return made


def as_the_disk_has_it(kept: Path, directory: Path) -> Path:
    """What eventlog/plug.c kept, as a directory: the files of a log after the plug was pulled."""
    directory.mkdir()
    for line in (kept / "names").read_text().splitlines():
        name, key = line.split()
        synced = kept / key
        (directory / name).write_bytes(synced.read_bytes() if synced.exists() else b"")
    return directory
