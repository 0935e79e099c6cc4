"""Other Python versions on this machine, to run the pure parts of trioroute in them too."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MINORS = range(11, 20)
"""What ``requires-python`` allows."""

FOR_BINARIES = """
import json, sys, types

def module(name, **names):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(names)

try:
    import orjson
except ImportError:  # its binary is for one version of Python only
    module(
        "orjson",
        JSONDecodeError=json.JSONDecodeError,
        JSONEncodeError=TypeError,
        loads=json.loads,
        dumps=lambda value, default=None, option=None: json.dumps(
            value, default=default, ensure_ascii=False, separators=(",", ":")
        ).encode(),
    )
try:
    import msgspec
except ImportError:  # likewise; one that takes no body leaves them all to the strict way
    class Struct:
        def __init_subclass__(cls, **_):
            pass

        def __init__(self, *placed, **fields):
            names = list(type(self).__annotations__)
            fields |= zip(names, placed)
            for name in names:
                value = fields[name] if name in fields else getattr(type(self), name)
                setattr(self, name, value)

        def __eq__(self, other):
            return type(self) is type(other) and vars(self) == vars(other)

    def plain(one):
        told = vars(type(one))
        return {name: it for name, it in vars(one).items() if name not in told or it != told[name]}

    class Encoder:
        def encode(self, one):
            return orjson.dumps(plain(one))

    class Decoder:
        def __init__(self, cls):
            pass

        def decode(self, body):
            raise ValueError

    def fields(cls):
        return [
            types.SimpleNamespace(name=name, default=vars(cls).get(name, Struct))
            for name in cls.__annotations__
        ]

    import orjson

    module(
        "msgspec",
        Meta=lambda **_: "64 bits",
        MsgspecError=ValueError,
        NODEFAULT=Struct,
        Struct=Struct,
        to_builtins=plain,
    )
    module("msgspec.json", Decoder=Decoder, Encoder=Encoder)
    module(
        "msgspec.structs",
        astuple=lambda one: (*vars(one).values(),),
        fields=fields,
        replace=lambda one, **changed: type(one)(**{**vars(one), **changed}),
    )
"""


def _candidates() -> Iterator[Path]:
    for minor in MINORS:
        found = shutil.which(f"python3.{minor}")
        if found is not None:
            yield Path(found)
    # Versions that are kept side by side, as pyenv does.
    yield from sorted(Path(sys.base_prefix).parent.glob("*/bin/python3"))


@cache
def other_pythons() -> tuple[Path, ...]:
    """One interpreter of each other supported version that runs here."""
    found: dict[str, Path] = {}
    ours = f"3.{sys.version_info.minor}"
    for path in _candidates():
        version = _version(path)
        if version is not None and version != ours:
            found.setdefault(version, path)
    return tuple(found.values())


def _version(path: Path) -> str | None:
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [path, "-c", program], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = done.stdout.strip()
    return version if version in {f"3.{minor}" for minor in MINORS} else None


def others_or_skip() -> tuple[Path, ...]:
    found = other_pythons()
    if not found:
        pytest.skip("no other Python from 3.11 on is on this machine: nothing to compare with")
    return found


def run_in(python: Path, program: str, *, hash_seed: str = "0") -> bytes:
    """What ``program`` prints there, with the pure Python packages of this environment; what the
    logic needs of binaries for another version is stood in for."""
    path = os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")])
    done = subprocess.run(
        [python, "-c", FOR_BINARIES + program],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
