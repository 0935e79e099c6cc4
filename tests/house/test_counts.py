"""Counts in texts have the number of their noun: "1 replica", not "1 replicas"."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.source import Source, none_found, parsed, within

NOUNS = (
    "attempts|bytes|connections|decisions|digests|entries|errors|events|files|headers|keys|lines"
    "|models|phases|pins|problems|replicas|requests|responses|retries|routers|rows|segments"
    "|sessions|snapshots|spills|streams|times|tokens|watchers"
)
_COUNTED = re.compile(rf" (?:{NOUNS})\b")
_LOGGED = re.compile(rf"%d (?:{NOUNS})\b")
_BOUND = re.compile(r"(?:more than|less than|larger than|over|at most|the last|within|of|after) $")
AS_VLLM = "trioroute/engine/errors.py"


def uncounted(source: Source) -> Iterator[str]:
    """A number before a noun that stays plural when it is one. Bounds are never one."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.JoinedStr):
            yield from _of_text(source, node)
        elif isinstance(node, ast.Constant) and _LOGGED.search(str(node.value)):
            yield source.found(node, f"a plural after %d: {node.value!r}")


def _of_text(source: Source, text: ast.JoinedStr) -> Iterator[str]:
    before = ""
    for value, behind in zip(text.values, text.values[1:], strict=False):
        if isinstance(value, ast.Constant):
            before = str(value.value)
        elif isinstance(value, ast.FormattedValue) and isinstance(behind, ast.Constant):
            name = ast.unparse(value.value).rpartition(".")[2]
            bound = name.isupper() or _BOUND.search(before)
            if _COUNTED.match(str(behind.value)) and not bound:
                yield source.found(text, f"a plural after {{{ast.unparse(value.value)}}}")


def test_a_number_before_a_noun_goes_through_plural() -> None:
    none_found(
        uncounted, [one for one in within("trioroute/", "eventlog/") if one.where != AS_VLLM]
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('f"{count} replicas"', 1),
        ("f\"{plural(count, 'replica')}, {MOST} replicas\"", 0),
        ('f"more than {limit} bytes"', 0),
        ('log.info("%d requests ran", count)', 1),
    ],
)
def test_the_rule_finds_what_it_is_for(text: str, found: int) -> None:
    assert len(list(uncounted(parsed("trioroute/x.py", text)))) == found
