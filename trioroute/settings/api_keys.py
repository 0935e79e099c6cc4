"""API keys of clients, as they are configured: hashes only, so that no file holds a key."""

import codecs
import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs

from trioroute.quantities import BadValue
from trioroute.settings.errors import Problem
from trioroute.settings.kinds import Kind, number, text

MOST_KEYS = 10_000
_FILE_BYTES_MAX = 4 << 20
_NAME = text(
    empty=False,
    pattern=r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
    says="name of letters, digits and ._- that begins with a letter or digit, at most 64",
)
_PROJECT = text(
    empty=True, pattern=r"[A-Za-z0-9._-]{1,128}", says="project of letters, digits and ._-"
)
_LIMIT = number(0, 1_000_000)
NO_KEY = "holds no key, and an empty door would let everybody in"
NO_KEY_REMEDY = (
    "write a line that trioroute key new NAME prints, or remove server.api_keys_file if nobody is"
    " to be asked for a key"
)
_HASH = re.compile(r"[0-9a-f]{64}")


def _hash(value: object) -> str:
    if not isinstance(value, str) or not _HASH.fullmatch(value.lower()):
        raise BadValue(
            "is no SHA-256 in hexadecimal, and is not shown",
            "put the hash here, not the key: trioroute key new NAME prints both",
        )
    return value.lower()


_KINDS: Mapping[str, Kind] = {
    "name": _NAME,
    "sha256": Kind("SHA-256 in hexadecimal", _hash, show=lambda _: ""),
    "project": _PROJECT,
    "requests_per_minute": _LIMIT,
    "max_in_flight": _LIMIT,
    "weight": number(1, 1000),
}


@attrs.frozen(kw_only=True)
class ApiKey:
    """One key. ``sha256`` is that of the whole key, in hexadecimal; limits of 0 are off. Empty, the
    entry is no key: its limits are those of its name's keys in the file (``with_limits``).

    ``weight`` is its share of a line that forms, against those of other keys.
    ``project`` stands for the project header (RULES 5.2) of every request that comes with it.
    Raises BadValue for a name or a project of the wrong form.
    """

    name: str = attrs.field(validator=lambda _, __, value: _check("name", value))
    sha256: str = attrs.field(repr=False)
    project: str = attrs.field(default="", validator=lambda _, __, value: _check("project", value))
    requests_per_minute: int = 0
    max_in_flight: int = 0
    weight: int = 1
    written: str = attrs.field(default="", eq=False, repr=False)
    """Where it was found, for messages."""


def _check(field: str, value: str) -> None:
    _KINDS[field].parse(value)


def file_line(key: ApiKey) -> str:
    """Its line in a file of keys. Limits have no place there."""
    return ":".join(part for part in (key.name, key.sha256, key.project) if part)


def key_digest(key: str | bytes) -> str:
    """What a file holds of a key."""
    data = key.encode() if isinstance(key, str) else key
    return hashlib.sha256(data).hexdigest()


def new_key() -> str:
    """A fresh key of 256 random bits."""
    return "tr-" + secrets.token_urlsafe(32)


_LIMITS = ("requests_per_minute", "max_in_flight", "weight")


def from_entries(place: str, value: object) -> Iterator[ApiKey | Problem]:
    """The keys of ``[[server.api_keys]]``."""
    where = "server.api_keys"
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        yield Problem(place, where, "", "is not a list of tables", f"write [[{where}]]")
        return
    for index, entry in enumerate(value):
        yield from _entry(place, f"{where}[{index}]", entry)


def _entry(place: str, where: str, entry: Mapping[str, object]) -> Iterator[ApiKey | Problem]:
    new = "trioroute key new NAME prints it"
    problems = []
    if "name" not in entry:
        problems.append(Problem(place, f"{where}.name", "", "is missing", new))
    if "sha256" not in entry and ("project" in entry or not entry.keys() & set(_LIMITS)):
        problems.append(Problem(place, f"{where}.sha256", "", "is missing", new))
    for name, value in entry.items():
        kind = _KINDS.get(name)
        if kind is None:
            remedy = f"the known ones are {', '.join(_KINDS)}"
            problems.append(Problem(place, f"{where}.{name}", "", "is not a known key", remedy))
            continue
        try:
            kind.parse(value)
        except BadValue as bad:
            told = kind.show(value)
            problems.append(Problem(place, f"{where}.{name}", told, bad.message, bad.remedy))
    yield from problems
    if not problems:
        fields = {name: _KINDS[name].parse(value) for name, value in entry.items()}
        fields.setdefault("sha256", "")
        yield ApiKey(**fields, written=f"{place}: {where}")  # type: ignore[arg-type]  # each kind returns its field's type


def from_file(path: str) -> Iterator[ApiKey | Problem]:
    """The keys of a file of lines ``name:sha256[:project]``; no part of a bad line is shown.

    A file without any is a problem, never a router without a door: it may be half written.
    """
    try:
        with Path(path).open("rb") as stream:
            raw = stream.read(_FILE_BYTES_MAX + 1)
        # As bytes: a text also ends lines at U+2028, NEL and others, in the middle of a comment.
        lines = [line.decode() for line in raw.removeprefix(codecs.BOM_UTF8).splitlines()]
    except (OSError, UnicodeDecodeError):
        yield Problem(path, "", "", "cannot be read as text", "name a readable file")
        return
    if len(raw) > _FILE_BYTES_MAX:
        yield Problem(path, "", "", "is larger than 4 MiB", "remove comments or keys")
        return
    found = list(_from_lines(path, lines))
    yield from found or [Problem(path, "", "", NO_KEY, NO_KEY_REMEDY)]


def _from_lines(path: str, lines: Iterable[str]) -> Iterator[ApiKey | Problem]:
    for number_, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = [part.strip() for part in line.split(":")]
        entry = dict(zip(("name", "sha256", "project"), parts, strict=False))
        found = list(_entry(path, f"line {number_}", entry))
        if len(parts) not in (2, 3) or any(isinstance(one, Problem) for one in found):
            why = "is not name:sha256[:project], and is not shown"
            remedy = "trioroute key new NAME prints the line of a new key"
            yield Problem(path, f"line {number_}", "", why, remedy)
        else:
            yield from found
