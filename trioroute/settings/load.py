"""Settings out of file, environment and command line, or every problem found on the way."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs
from cattrs import Converter

from trioroute.events.sections import InForce
from trioroute.quantities import BadValue
from trioroute.settings import api_keys, key_names, sources
from trioroute.settings.api_keys import ApiKey
from trioroute.settings.checks import (
    GUARDS,
    Clash,
    check_not_empty,
    clashes,
    unreadable_files,
    weak_token,
)
from trioroute.settings.discovery import DiscoverySetting, discovery_of
from trioroute.settings.errors import Problem, SettingsError
from trioroute.settings.keys import KeyInfo
from trioroute.settings.known import KNOWN_KEYS
from trioroute.settings.replicas import (
    ReplicaSetting,
    clashing,
    from_entries,
    from_options,
    without_key,
)
from trioroute.settings.spans import spans_hindered

NO_OVERRIDES: Mapping[str, object] = MappingProxyType({})


@attrs.frozen
class GenericMetrics:
    """What replicas of the engine ``generic`` call their load; empty: they do not tell it."""

    path: str = "/metrics"
    running: str = ""
    waiting: str = ""
    kv: str = ""
    tokens: str = ""


@attrs.frozen
class Settings:
    """What the router starts with. ``source`` is the file it came from, None without one.

    ``digest`` names what the file held; ``blank``: no key at all.
    """

    in_force: InForce
    replicas: tuple[ReplicaSetting, ...]
    source: str | None
    digest: str = ""
    blank: bool = False
    api_keys: tuple[ApiKey, ...] = ()
    discovery: tuple[DiscoverySetting, ...] = ()
    generic: GenericMetrics = attrs.field(factory=GenericMetrics)

    @property
    def no_replica(self) -> bool:
        """Neither a replica nor a place to find one."""
        return not self.replicas and not self.discovery


@attrs.frozen
class Taken:
    """Where a value in force was set. ``rank`` counts what was read, in its order."""

    rank: int
    place: str
    shown: str


@attrs.define
class Draft:
    """What has been read so far. A later value of a key replaces an earlier one, but a bad value
    stays a problem even when it is replaced."""

    values: dict[str, object] = attrs.field(factory=dict)
    beside: dict[str, object] = attrs.field(factory=dict)
    taken: dict[str, Taken] = attrs.field(factory=dict)
    bad: set[str] = attrs.field(factory=set)
    problems: list[tuple[int, Problem]] = attrs.field(factory=list)
    replicas: tuple[ReplicaSetting, ...] = ()
    replicas_from: Taken = Taken(0, sources.COMMAND_LINE, "")
    api_keys: tuple[ApiKey, ...] = ()
    rank: int = 0

    def take(self, items: Iterable[sources.Given | Problem]) -> None:
        for item in items:
            self.rank += 1
            if isinstance(item, Problem):
                self.problems.append((self.rank, item))
            elif item.key in {"replica", "replicas"}:
                self._take_replicas(item)
            elif item.key == "server.api_keys":
                self.take_api_keys(api_keys.from_entries(item.place, item.value))
            else:
                self._take_value(item, KNOWN_KEYS[item.key])

    def _take_replicas(self, given: sources.Given) -> None:
        read = from_entries if given.key == "replica" else from_options
        found = tuple(read(given.place, given.value))
        self.replicas = tuple(item for item in found if isinstance(item, ReplicaSetting))
        self.replicas_from = Taken(self.rank, given.place, "")
        problems = [item for item in found if isinstance(item, Problem)]
        problems += clashing(given.place, self.replicas)
        self.problems += [(self.rank, problem) for problem in problems]

    def take_api_keys(self, found: Iterable[ApiKey | Problem]) -> None:
        for item in found:
            if isinstance(item, Problem):
                self.problems.append((self.rank, item))
            else:
                self.api_keys += (item,)

    def take_key_file(self, path: str, place: str) -> None:
        """The keys of the file, if nothing was wrong until here, and what all keys are together."""
        entries, self.api_keys = self.api_keys, ()
        if path and not self.problems:
            self.take_api_keys(api_keys.from_file(path))
        if self.problems:
            return
        lines, self.api_keys = self.api_keys, ()
        self.take_api_keys(key_names.with_limits(place, entries, lines))
        found = key_names.clashing(path or place, self.api_keys)
        self.problems += [(self.rank, one) for one in found]

    def _take_value(self, given: sources.Given, info: KeyInfo) -> None:
        value = given.value
        if given.from_outside and isinstance(value, str):
            value = info.kind.from_text(value)
        told = info.kind.show(value)
        self.taken[info.key] = Taken(self.rank, given.place, told)
        try:
            if given.from_outside and info.key in GUARDS and self.values.get(info.key):
                check_not_empty(value)
            parsed = info.kind.parse(value)
        except BadValue as bad:
            self.bad.add(info.key)
            problem = Problem(given.place, info.key, told, bad.message, bad.remedy)
            self.problems.append((self.rank, problem))
        else:
            self.bad.discard(info.key)
            kept = self.values if info.field else self.beside
            kept[info.key] = parsed

    def in_force(self, over: InForce) -> InForce:
        """The good values over ``over``, structured strictly into the sections of the log."""
        tree: dict[str, Any] = attrs.asdict(over)
        for key, value in self.values.items():
            *tables, name = KNOWN_KEYS[key].field.split(".")
            table = tree
            for part in tables:
                table = table[part]
            table[name] = value
        return _CONVERTER.structure(tree, InForce)

    def generic(self) -> GenericMetrics:
        prefix = "scrape.generic."
        given = {k.removeprefix(prefix): str(v) for k, v in self.beside.items() if prefix in k}
        return GenericMetrics(**given)

    def blame(self, found: Iterable[Clash], place: str) -> None:
        """Clashes as problems, at the key that was set last; none that a bad value may explain."""
        for clash in found:
            if self.bad.intersection(clash.keys):
                continue
            given = [key for key in clash.keys if key in self.taken]
            key = max(given, key=lambda one: self.taken[one].rank, default=clash.keys[0])
            where = self.taken.get(key, Taken(self.rank, place, ""))
            problem = Problem(where.place, key, where.shown, clash.message, clash.remedy)
            self.problems.append((where.rank, problem))

    def raise_problems(self) -> None:
        if self.problems:
            in_order = sorted(self.problems, key=lambda ranked: ranked[0])
            raise SettingsError(tuple(problem for _, problem in in_order))


def load(
    path: Path | None, *, environ: Mapping[str, str], overrides: Mapping[str, object] = NO_OVERRIDES
) -> Settings:
    """The settings in force: ``overrides`` over ``environ`` over the file over the defaults.

    ``overrides`` are what the command line gave, as dotted keys (``server.listen``) and
    ``replicas``; None means that it did not. Without ``path``, ``TRIOROUTE_CONFIG`` names the
    file. Replicas replace those of a weaker source, they are not added to them.
    Raises SettingsError with every problem, in the order of what was read.
    """
    named = path or (Path(environ[CONFIG]) if environ.get(CONFIG) else None)
    draft = Draft()
    file = sources.ReadFile({}, "") if named is None else sources.read_file(named)
    if isinstance(file, Problem):
        draft.take([file])
        file = sources.ReadFile({}, "")
    tables = file.tables
    draft.take(sources.from_tables(str(named), tables))
    secrets = sources.named_secrets(tables, environ)
    draft.take(sources.from_environment(environ, secrets))
    draft.take(sources.from_overrides(overrides))
    in_force = draft.in_force(InForce())
    apart = (*unreadable_files(in_force), *weak_token(in_force, environ))
    draft.blame((*clashes(in_force), *apart), sources.COMMAND_LINE)
    draft.take_key_file(in_force.server.api_keys_file, str(named))
    found = tuple(discovery_of(draft.beside, environ))
    draft.blame((one for one in found if isinstance(one, Clash)), str(named))
    generic = draft.generic()
    draft.blame(_without_load(draft.replicas, generic), str(named))
    source = draft.replicas_from
    draft.problems += [(draft.rank, problem) for problem in spans_hindered(environ)]
    missing = without_key(source.place, draft.replicas, environ)
    draft.problems += [(source.rank, problem) for problem in missing]
    draft.raise_problems()
    source_file = None if named is None else str(named)
    return Settings(
        in_force,
        draft.replicas,
        source_file,
        file.digest,
        not tables,
        draft.api_keys,
        tuple(one for one in found if not isinstance(one, Clash)),
        generic,
    )


def with_changes(
    in_force: InForce, changes: Mapping[str, object], *, place: str = "--what-if"
) -> InForce:
    """``in_force`` with dotted keys changed, judged as ``load`` would, but for the files that
    settings name: a log may be read on another machine. Raises SettingsError."""
    draft = Draft()
    draft.take(_without_replicas(changes, place))
    changed = draft.in_force(in_force)
    draft.blame(clashes(changed), place)
    draft.raise_problems()
    return changed


def _without_load(replicas: Iterable[ReplicaSetting], generic: GenericMetrics) -> Iterator[Clash]:
    """A replica whose load would be read from series that nobody named."""
    if not (generic.running and generic.waiting) and any(r.engine == "generic" for r in replicas):
        yield Clash(
            ("scrape.generic.running", "scrape.generic.waiting"),
            "is needed, with scrape.generic.waiting, by a replica whose engine is generic",
            'name both series, or write engine = "none" for one that tells no load',
        )


def _without_replicas(
    changes: Mapping[str, object], place: str
) -> Iterator[sources.Given | Problem]:
    for key, value in changes.items():
        if key == "replicas":
            yield sources.unknown(place, key)
        else:
            yield from sources.from_overrides({key: value}, place)


def _strict(kind: type) -> Callable[[object, object], object]:
    def structure(value: object, _: object) -> object:
        if type(value) is not kind:
            raise TypeError(f"expected {kind.__name__}, found {value!r}")
        return value

    return structure


def _converter() -> Converter:
    converter = Converter(forbid_extra_keys=True)
    for primitive in (int, str, bool):
        converter.register_structure_hook(primitive, _strict(primitive))
    return converter


CONFIG = sources.CONFIG_VARIABLE
_CONVERTER = _converter()
