"""Where settings come from: the file, the environment, the command line. Nothing is judged here
but names; values are passed on as they were given."""

import difflib
import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from trioroute.settings.errors import Problem, shown
from trioroute.settings.keys import keys_in, nearest_section, nearest_words, sections_of
from trioroute.settings.known import BY_VARIABLE, KNOWN_KEYS

COMMAND_LINE = "command line"
CONFIG_VARIABLE = "TRIOROUTE_CONFIG"
REPLICAS_VARIABLE = "TRIOROUTE_REPLICAS"
DIGEST_DIGITS = 16
ADMIN_TOKEN_VARIABLE = "TRIOROUTE_ADMIN_TOKEN"
"""Where ``trioroute replica`` finds the token of the admin port; no key of the settings."""
_PREFIX = "TRIOROUTE_"
_MOST_BYTES = 1 << 20
_SECTIONS = sections_of(KNOWN_KEYS)
_A_SECTION = "is a section, not a key"

# Kubernetes puts the address of every service into every pod, so a service called "trioroute" or
# "trioroute-admin" brings these. Only "PORT" could be meant by a person; theirs is no tcp:// URL.
_SERVICE_LINK = re.compile(
    r"TRIOROUTE_([A-Z0-9_]+_)?"
    r"(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_PORT = re.compile(r"TRIOROUTE_([A-Z0-9_]+_)?PORT")


@attrs.frozen
class Given:
    """One value that somebody set. ``from_outside``: it is text, not a TOML value."""

    place: str
    key: str
    value: object
    from_outside: bool = False


@attrs.frozen
class ReadFile:
    """``digest`` is the first 16 digits of the file's SHA-256: ``sha256sum`` tells the same."""

    tables: dict[str, object]
    digest: str


def read_file(path: Path) -> ReadFile | Problem:
    """The tables of a TOML file, or the one thing that keeps it from being read."""
    place = str(path)
    try:
        with path.open("rb") as stream:
            raw = stream.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return Problem(place, "", "", f"cannot be read: {why}", "name a readable TOML file")
    if len(raw) > _MOST_BYTES:
        return Problem(place, "", "", "is larger than 1 MiB", "name a configuration file")
    try:
        tables = tomllib.loads(raw.decode("utf-8-sig"))
        return ReadFile(tables, hashlib.sha256(raw).hexdigest()[:DIGEST_DIGITS])
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return Problem(place, "", "", f"is not UTF-8 (line {line})", "save it as UTF-8")
    except (ValueError, RecursionError) as error:
        return Problem(place, "", "", f"is not TOML: {error}", "correct the line")


def from_tables(place: str, tables: Mapping[str, object]) -> Iterator[Given | Problem]:
    """Every known key of the file in its order, ``replica`` with all its tables as one."""
    yield from _walk(place, "", tables)


def _walk(place: str, above: str, tables: Mapping[str, object]) -> Iterator[Given | Problem]:
    for name, value in tables.items():
        key = f"{above}.{name}" if above else name
        if "." in name:
            why = "is not a known key: it is quoted, so its dots open no table"
            yield Problem(place, shown(name), "", why, nearest_words(key, KNOWN_KEYS))
        elif key in KNOWN_KEYS or key == "replica":
            yield Given(place, key, value)
        elif key in _SECTIONS and isinstance(value, dict):
            yield from _walk(place, key, value)
        elif isinstance(value, dict) and (near := nearest_section(key, KNOWN_KEYS)) is not None:
            yield Problem(place, key, "", "is not a known section", f"the nearest is [{near}]")
        elif key in _SECTIONS:
            yield Problem(place, key, "", _A_SECTION, f"write [{key}]: {keys_in(key, KNOWN_KEYS)}")
        else:
            yield unknown(place, key)


def unknown(place: str, key: str) -> Problem:
    """The value is not shown: it may be a secret under a misspelt key."""
    if key in _SECTIONS and key != "replica":  # whose keys belong to one of them
        return Problem(place, key, "", _A_SECTION, keys_in(key, KNOWN_KEYS))
    return Problem(place, key, "", "is not a known key", nearest_words(key, KNOWN_KEYS))


def from_environment(
    environ: Mapping[str, str], secrets: frozenset[str]
) -> Iterator[Given | Problem]:
    """Every ``TRIOROUTE_`` variable. ``secrets`` are variables that hold the key of a replica."""
    for variable in sorted(environ):
        text = environ[variable]
        if not variable.startswith(_PREFIX) or variable in secrets | {CONFIG_VARIABLE}:
            continue
        if variable == REPLICAS_VARIABLE:
            yield Given(variable, "replicas", text, from_outside=True)
        elif (key := _key_of(variable)) is not None:
            yield Given(variable, key, text, from_outside=True)
        elif not _is_service_link(variable, text):
            yield _unknown_variable(variable)


def _key_of(variable: str) -> str | None:
    """The key of a variable; what lies in a table that is one key (``server.api_keys``) is its."""
    info = BY_VARIABLE.get(variable)
    if info is not None:
        return info.key
    inside = (
        info.key
        for name, info in BY_VARIABLE.items()
        if info.kind.name == "table" and variable.startswith(f"{name}_")
    )
    return next(inside, None)


def _is_service_link(variable: str, text: str) -> bool:
    if _SERVICE_LINK.fullmatch(variable):
        return True
    a_url = text.startswith(("tcp://", "udp://", "sctp://"))
    return a_url and _SERVICE_PORT.fullmatch(variable) is not None


def _unknown_variable(variable: str) -> Problem:
    name = variable.removeprefix(_PREFIX)
    for section_name in _SECTIONS - {"replica"}:
        if name == section_name.upper().replace(".", "_"):
            inside = keys_in(section_name, KNOWN_KEYS)
            why = f"is the section {section_name}, not a key"
            return Problem(variable, "", "", why, f"{inside}; the variable of a.b is {_PREFIX}A_B")
    known = [word.removeprefix(_PREFIX) for word in (*BY_VARIABLE, REPLICAS_VARIABLE)]
    known.append(CONFIG_VARIABLE.removeprefix(_PREFIX))
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    remedy = f"the nearest is {_PREFIX}{close[0]}" if close else _NOTHING_NEAR
    return Problem(variable, "", "", "is not a known variable", remedy)


_NOTHING_NEAR = (
    f"no key is near to it: unset it, or name it otherwise; {_PREFIX}SCRAPE_INTERVAL is that of "
    "scrape.interval"
)


def from_overrides(
    overrides: Mapping[str, object], place: str = COMMAND_LINE
) -> Iterator[Given | Problem]:
    """Dotted keys with a TOML value or its text; None and no replicas at all mean "not given"."""
    for key, value in overrides.items():
        if value is None or (key == "replicas" and not value):
            continue
        if key == "replicas" or (key in KNOWN_KEYS and not key.startswith("replica.")):
            yield Given(place, key, value, from_outside=isinstance(value, str))
        else:
            yield unknown(place, key)


def named_secrets(tables: Mapping[str, object], environ: Mapping[str, str]) -> frozenset[str]:
    """The variables that hold secrets by what the file says, whatever else is wrong there."""
    replicas, server = tables.get("replica"), tables.get("server")
    entries = replicas if isinstance(replicas, list) else []
    names = [entry.get("api_key_env") for entry in entries if isinstance(entry, dict)]
    if isinstance(server, dict):
        names.append(server.get("admin_token_env"))
    names += [environ.get("TRIOROUTE_SERVER_ADMIN_TOKEN_ENV"), ADMIN_TOKEN_VARIABLE]
    return frozenset(name for name in names if isinstance(name, str))
