"""Recorded workloads: a trace in Mooncake's format, or the exported event log of a router.

Both are JSON lines, gzipped if the name ends in ``.gz``; the first line tells which of the two.

Mooncake: ``timestamp`` (ms), ``input_length``, ``output_length`` (tokens), ``hash_ids`` of the
prompt's 512-token blocks, each standing for its whole prefix; the last may be partly filled and is
not shared. A trace names no clients, so keys are found: the prefix key is the first block (the
system prompt's stand-in); a request that goes on from all full blocks of an earlier one, past that
first block, belongs to the earlier one's session. Every request comes at its time, whatever became
of the one before (open loop).

Exported log: one event a line, ``{"seq", "stream", "version", "kind", "schema", "at_ms", "body"}``.
Requests come as they came; keys are the log's digests, contents are supposed (see ``recorded``).
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trioroute.simulate.profiles import BLOCK_TOKENS
from trioroute.simulate.recorded import Recorded, one_by_one
from trioroute.simulate.script import Request, Script, Turn, key


class BadWorkload(ValueError):
    """What was asked to be simulated cannot be; the text names the place and the remedy."""


def read_trace(path: Path) -> tuple[Script, ...]:
    """The clients of a recorded file. Raises BadWorkload with file and line."""
    lines = _lines(path)
    first = next(lines, None)
    if first is None:
        raise BadWorkload(f"{path}: is empty; a trace has one JSON object a line")
    rows = _and_then(first, lines)
    if "hash_ids" in first[1]:
        scripts = _mooncake(path, rows)
    elif "kind" in first[1]:
        scripts = _exported(path, rows)
    else:
        raise BadWorkload(
            f"{path}:1: has neither hash_ids (a trace in Mooncake's format) nor kind (an event "
            "exported from a log)"
        )
    if not scripts:
        raise BadWorkload(f"{path}: holds no request (no Dispatched event)")
    return scripts


_Line = tuple[int, dict[str, Any]]


def _and_then(first: _Line, rest: Iterator[_Line]) -> Iterator[_Line]:
    yield first
    yield from rest


def _lines(path: Path) -> Iterator[_Line]:
    """Line numbers and objects, read as they are asked for."""
    opened = gzip.open if path.suffix == ".gz" else open
    number = 0
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise BadWorkload(f"{path}:{number}: is no JSON object")
                yield number, row
    except FileNotFoundError:
        raise BadWorkload(f"{path}: there is no such file") from None
    except json.JSONDecodeError as error:
        raise BadWorkload(f"{path}:{number}: is no JSON ({error.msg})") from None
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BadWorkload(f"{path}: cannot be read after line {number}: {error}") from None


def _whole(path: Path, number: int, row: dict[str, Any], name: str, least: int) -> int:
    value = row.get(name)
    if type(value) is not int or value < least:
        raise BadWorkload(f"{path}:{number}: {name} is {value!r}, not a whole number from {least}")
    return value


def _mooncake(path: Path, rows: Iterator[_Line]) -> tuple[Script, ...]:
    sessions: dict[int, str] = {}  # the last full block of a request, and whose it is
    scripts: list[Script] = []
    for number, row in rows:
        ids = row.get("hash_ids")
        if not isinstance(ids, list) or any(type(block) is not int for block in ids):
            raise BadWorkload(f"{path}:{number}: hash_ids is no list of whole numbers")
        prompt = _whole(path, number, row, "input_length", 1)
        full = tuple(ids[: prompt // BLOCK_TOKENS])
        session = _session_of(full, sessions) or f"trace-{number}"
        if len(full) > 1:
            sessions[full[-1]] = session
        request = Request(
            f"trace-{number}",
            prompt,
            max(1, _whole(path, number, row, "output_length", 0)),
            full,
            key("session", session),
            key("prefix", f"block-{full[0]}") if full else None,
        )
        scripts.append(Script(_whole(path, number, row, "timestamp", 0), (Turn(request),)))
    return tuple(scripts)


def _session_of(full: tuple[int, ...], sessions: dict[int, str]) -> str | None:
    for block in reversed(full[1:]):
        if block in sessions:
            return sessions[block]
    return None


def _exported(path: Path, rows: Iterator[_Line]) -> tuple[Script, ...]:
    seen: list[Recorded] = []
    dispatches: dict[tuple[str, int], Recorded] = {}
    firsts: dict[tuple[str, int], Recorded] = {}
    for number, row in rows:
        body = row.get("body")
        if row.get("kind") not in ("Dispatched", "Released"):
            continue
        if not isinstance(body, dict):
            raise BadWorkload(f"{path}:{number}: body is no JSON object")
        stream = str(row.get("stream"))
        if row["kind"] == "Dispatched":
            place = (stream, _whole(path, number, row, "version", 1))
            earlier = [firsts[stream, e] for e in body.get("earlier", ()) if (stream, e) in firsts]
            one = earlier[0] if earlier else _arrived(path, number, row, body, len(seen))
            if not earlier:
                seen.append(one)
            dispatches[place] = firsts[place] = one
        else:
            ended = dispatches.pop((stream, _whole(path, number, body, "dispatch", 1)), None)
            if ended is not None:
                ended.prompt_tokens = body.get("prompt_tokens")
                ended.answer_tokens = body.get("completion_tokens")
    return one_by_one(seen)


def _arrived(
    path: Path, number: int, row: dict[str, Any], body: dict[str, Any], at: int
) -> Recorded:
    return Recorded(
        f"log-{at}",
        _whole(path, number, row, "at_ms", 0),
        _whole(path, number, body, "prompt_bytes", 0),
        body.get("session"),
        body.get("prefix"),
    )
