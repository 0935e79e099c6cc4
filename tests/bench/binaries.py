"""The C programs of the bench, compiled once per source text into the cache."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.bench.places import cache_dir

HERE = Path(__file__).parent
FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra")
NO_COMPILER = "no C compiler: install one (Debian, Ubuntu: apt install gcc libc6-dev)"


class NotBuiltError(Exception):
    """A C program could not be built; the text says why and what to do."""


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def binary(name: str) -> Path:
    """The program made from ``NAME.c`` here. Raises ``NotBuiltError``."""
    source = HERE / f"{name}.c"
    digest = hashlib.sha256(source.read_bytes() + " ".join(FLAGS).encode()).hexdigest()[:16]
    made = cache_dir() / f"{name}-{digest}"
    if made.exists():
        return made
    found = compiler()
    if found is None:
        raise NotBuiltError(NO_COMPILER)
    fresh = made.with_suffix(".new")
    built = subprocess.run(
        [found, *FLAGS, "-o", str(fresh), str(source)], capture_output=True, text=True, check=False
    )
    if built.returncode:
        raise NotBuiltError(f"{found} cannot build {source}:\n{built.stderr.strip()}")
    fresh.rename(made)
    return made
