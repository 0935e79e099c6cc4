"""Replicas as they are configured: ``[[replica]]`` tables and ``--replica [NAME=]URL``."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs

from trioroute.quantities import BadValue
from trioroute.settings.addresses import host_and_port, parse_replica_url, same_place, url_shown
from trioroute.settings.built import API_KEY_ENV, ENGINES, MODELS, REPLICA_NAME
from trioroute.settings.errors import Problem, shown
from trioroute.settings.keys import nearest_words
from trioroute.settings.kinds import Kind
from trioroute.settings.known import KNOWN_KEYS

MOST_REPLICAS = 1000
_FIELDS = ("name", "url", "models", "engine", "api_key_env")


def _takes(kind: Kind) -> Callable[[Any, Any, Any], None]:
    def validate(_: object, __: object, value: object) -> None:
        kind.parse(value)

    return validate


@attrs.frozen
class ReplicaSetting:
    """One replica. ``models`` empty: asked from it. ``api_key_env`` names the variable that holds
    the key to send to it; empty: none. Raises BadValue: none exists that cannot be used."""

    name: str = attrs.field(validator=_takes(REPLICA_NAME))
    url: str = attrs.field(converter=parse_replica_url)
    models: tuple[str, ...] = attrs.field(default=(), validator=_takes(MODELS))
    engine: str = attrs.field(default="vllm", validator=_takes(ENGINES))
    api_key_env: str = attrs.field(default="", validator=_takes(API_KEY_ENV))


def parse_replica_option(text: str) -> ReplicaSetting:
    """The replica of ``[NAME=]URL``; without a name it is called host:port. Raises BadValue."""
    before, equals, after = text.strip().partition("=")
    named = bool(equals) and "://" not in before
    url = parse_replica_url(after if named else text.strip())
    return ReplicaSetting(name=before if named else host_and_port(url), url=url)


def from_options(place: str, value: object) -> Iterator[ReplicaSetting | Problem]:
    """The replicas of a comma-separated text or of a list of texts and ReplicaSettings."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Iterable):
        yield Problem(place, "replicas", shown(value), "is not a list", "write [NAME=]URL,...")
        return
    for item in items:
        if isinstance(item, ReplicaSetting):
            yield item
        elif item == "":
            continue
        else:
            try:
                yield parse_replica_option(item if isinstance(item, str) else "")
            except BadValue as bad:
                remedy = f"{bad.remedy}, with or without NAME= before it"
                yield Problem(place, "replicas", url_shown(item), bad.message, remedy)


def from_entries(place: str, value: object) -> Iterator[ReplicaSetting | Problem]:
    """The replicas of the file; entries count from 0, as in ``replica[0].url``."""
    if not isinstance(value, list):
        yield Problem(place, "replica", "", "is not a list of tables", "write [[replica]]")
        return
    if len(value) > MOST_REPLICAS:
        most = f"has more than {MOST_REPLICAS} entries"
        yield Problem(place, "replica", "", most, "run several routers")
        return
    for index, entry in enumerate(value):
        if isinstance(entry, dict):
            yield from _entry(place, f"replica[{index}]", entry)
        else:
            yield Problem(place, f"replica[{index}]", "", "is not a table", "write [[replica]]")


def _entry(
    place: str, where: str, entry: Mapping[str, object]
) -> Iterator[ReplicaSetting | Problem]:
    fields: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in entry.items():
        info = KNOWN_KEYS.get(f"replica.{name}") if name in _FIELDS else None
        if info is None:
            remedy = nearest_words(f"replica.{name}", KNOWN_KEYS)
            problems.append(Problem(place, f"{where}.{name}", "", "is not a known key", remedy))
            continue
        try:
            fields[name] = info.kind.parse(value)
        except BadValue as bad:
            told = info.kind.show(value)
            problems.append(Problem(place, f"{where}.{name}", told, bad.message, bad.remedy))
    if "url" not in entry:
        problems.append(
            Problem(place, f"{where}.url", "", "is missing", 'write url = "http://HOST:PORT"')
        )
    yield from problems
    if not problems:
        fields.setdefault("name", host_and_port(fields["url"]))
        yield ReplicaSetting(**fields)


def clashing(place: str, replicas: Iterable[ReplicaSetting]) -> Iterator[Problem]:
    """Two replicas of one name, or at one place: their loads would be counted as one, or twice."""
    names: set[str] = set()
    urls: dict[tuple[str, str, str], str] = {}
    for replica in replicas:
        if replica.name in names:
            told = shown(replica.name)
            yield Problem(place, "replica.name", told, "is used twice", "give each its own name")
        names.add(replica.name)
        other = urls.setdefault(same_place(replica.url), replica.name)
        if other != replica.name:
            same = f"of {shown(replica.name)} is that of {shown(other)} too"
            yield Problem(place, "replica.url", shown(replica.url), same, "remove one of the two")


def without_key(
    place: str, replicas: Iterable[ReplicaSetting], environ: Mapping[str, str]
) -> Iterator[Problem]:
    """Replicas whose ``api_key_env`` names a variable that is not set, or holds no header value."""
    for replica in replicas:
        key = environ.get(replica.api_key_env, "")
        if not replica.api_key_env or (key and key.isascii() and key.isprintable()):
            continue
        why = "holds what no header may hold" if key else "is not set"
        yield Problem(
            place,
            "replica.api_key_env",
            API_KEY_ENV.show(replica.api_key_env),
            f"of {shown(replica.name)} names a variable that {why}",
            "export the variable, or remove api_key_env",
        )
