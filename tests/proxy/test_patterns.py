"""Every regular expression over bytes of strangers takes time by their number, never its square."""

import importlib
import inspect
import pkgutil
import re
from collections import deque

import attrs
import pytest

import trioroute.proxy
from tests.proxy.work import assert_linear

PIECES = [
    *(b" ", b"\t", b'"', b"\\", b"\\a", b"a", b"0", b":", b"{", b"[", b"=", b";", b"/"),
    *(b"\r", b"\n", b"\r\n", b"\r\r", b"\xff", b"\0", b"GET ", b"data", b"a:", b"a: b\r\n"),
    *(b'"usage" ', b'"finish_reason": ', b'"id":"resp_', b'boundary="', b"boundary=a"),
    *(b"http://", b"https://a", b"GET / HTTP/1.1\r\n", b'"a\\"', b"content-disposition:"),
]
ENDS = [b"", b"\0", b'"', b"\r\n\r\n"]


@attrs.frozen
class Used:
    """A pattern with the ways in which its module uses it: one that is anchored may be slower."""

    pattern: re.Pattern[bytes]
    ways: tuple[str, ...]

    def on(self, text: bytes) -> None:
        for way in self.ways:
            found = getattr(self.pattern, way)(text)
            if way == "finditer":
                deque(found, maxlen=0)


def patterns() -> dict[str, Used]:
    found: dict[str, Used] = {}
    for info in pkgutil.walk_packages(trioroute.proxy.__path__, "trioroute.proxy."):
        if info.name.endswith(".child"):  # it is a program: importing it changes signals
            continue
        module = importlib.import_module(info.name)
        source = inspect.getsource(module)
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern) and isinstance(value.pattern, bytes):
                ways = sorted(set(re.findall(rf"\b{name}\.([a-z]+)\(", source)))
                found[f"{info.name.removeprefix('trioroute.proxy.')}.{name}"] = Used(
                    value, tuple(ways)
                )
    return found


PATTERNS = patterns()
TEXTS_END = {"alias._TOKEN"}
"""It is searched for in JSON that was parsed: there is a quote behind each."""


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_time_by_the_bytes(name: str) -> None:
    used = PATTERNS[name]
    ends = [b'"'] if name in TEXTS_END else ENDS

    def read(size: int) -> None:
        for piece in PIECES:
            for end in ends:
                used.on(piece * (size // len(piece)) + end)

    assert used.ways
    assert_linear(read, 1000)


def test_the_patterns_are_found() -> None:
    assert {"tap._USAGE", "serving.parser.HEAD", "body._BOUNDARY"} <= PATTERNS.keys()
