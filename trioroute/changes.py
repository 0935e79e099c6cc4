"""Changes of a running router, by file, signal and admin port: each is an event with its author.

A reload makes true what the file says, as one command: the log takes all of it or nothing, and
nothing suspends between the decision and the parts that follow it. What is in flight goes on.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import trio

from eventlog import LogError
from trioroute.assembly import (
    Parts,
    authorizations,
    certificate_of,
    connect_timeout_s,
    reconfigure,
    segment_limits,
)
from trioroute.discovery import Discovery, source_of
from trioroute.events.words import ChangedBy
from trioroute.observe import BadReplica, NoSuchReplica, Reloaded, ReplicaExists
from trioroute.policy import commands as c
from trioroute.scrape import Rounds
from trioroute.settings import (
    BadCertificate,
    BadValue,
    Problem,
    ReplicaSetting,
    ServerCertificate,
    Settings,
    SettingsError,
    changed_names,
    host_and_port,
    parse_replica_url,
    running,
    same_place,
)
from trioroute.settings.changed import reload_words

logger = logging.getLogger("trioroute.changes")

FLEET_MAX = 1000
NO_FILE = "there is no configuration file to read again; what was given on the command line stands"


@attrs.define
class RunningChanges:
    """``reread`` reads file, environment and command line as at the start; it may block."""

    parts: Parts
    rounds: Rounds
    reread: Callable[[], Settings]
    environ: Mapping[str, str] = attrs.field(repr=False)
    restart_needed: tuple[str, ...] = ()
    discovery: Discovery = attrs.field(init=False)
    _reading: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        router = self.parts.router
        self.discovery = Discovery(
            state=lambda: router.state,
            now_ms=self.parts.now_ms,
            handle=self.discovered,
            make=lambda setting: source_of(setting, self.environ),
        )
        self.discovery.renew(self.parts.settings.discovery)
        self.parts.timings.discovery = self.discovery.standings

    def drain(self, name: str, on: bool, why: str) -> None:
        self._check_known(name)
        self.parts.router.handle(c.Drain(at_ms=self._now_ms(), replica=name, on=on, why=why))

    def eject(self, name: str, why: str) -> None:
        self._check_known(name)
        self.parts.router.handle(c.Eject(at_ms=self._now_ms(), replica=name, why=why))

    def add(self, told: Mapping[str, Any], why: str) -> str:
        wanted = _replica_of(told)
        configured = {replica.name: replica for replica in self.parts.settings.replicas}
        ours = configured.get(wanted.name)
        if ours is not None and ours.url != wanted.url:
            raise ReplicaExists(
                f"{wanted.name} is {ours.url} in the configuration; take another name"
            )
        self._check_free(wanted)
        self.parts.router.handle(
            c.Join(
                at_ms=self._now_ms(),
                replica=wanted.name,
                url=wanted.url,
                models=wanted.models,
                engine=wanted.engine,
                source="admin" if ours is None else "config",
                by="admin",
                why=why,
            )
        )
        return wanted.name

    def remove(self, name: str, why: str, *, now: bool) -> bool:
        self._check_known(name)
        parts, at_ms = self.parts, self._now_ms()
        if now or not parts.router.state.load.of(name).own:
            parts.router.handle(c.Leave(at_ms=at_ms, replica=name, by="admin", why=why))
            self._renew_scrapes()
        else:
            parts.router.handle(c.Drain(at_ms=at_ms, replica=name, on=True, leaves=True, why=why))
        return any(replica.name == name for replica in parts.settings.replicas)

    def discovered(self, commands: Sequence[c.Command]) -> None:
        """What discovery found changes the fleet; a full log drops it, and it is told again."""
        for command in commands:
            self.parts.tell(command)
        self._renew_scrapes()

    async def reload(self, why: str) -> Reloaded:
        return await self.read_again("admin", why)

    async def read_again(self, by: ChangedBy, why: str = "") -> Reloaded:
        """Raises LogError when the log takes nothing: nothing is changed then, either."""
        async with self._reading:
            try:
                settings, certificate = await trio.to_thread.run_sync(self._read_files)
                problems = tuple(_unfit(settings, self.parts.settings))
            except SettingsError as error:
                problems = error.problems
            if problems:
                return self._rejected(problems)
            return self._apply(settings, certificate, by, why)

    def _read_files(self) -> tuple[Settings, ServerCertificate | None]:
        settings = self.reread()
        try:
            return settings, certificate_of(settings)
        except BadCertificate as bad:  # it was good a moment ago, when the settings were judged
            place = settings.source or ""
            raise SettingsError((Problem(place, bad.key, "", bad.message, bad.remedy),)) from None

    def _apply(
        self,
        settings: Settings,
        certificate: ServerCertificate | None,
        by: ChangedBy,
        why: str,
    ) -> Reloaded:
        parts = self.parts
        in_force, waiting = running(parts.settings.in_force, settings.in_force)
        settings = attrs.evolve(settings, in_force=in_force)
        try:
            decided = parts.router.handle(reconfigure(settings, self._now_ms(), by=by, why=why))
        except LogError as error:
            logger.error("reload: nothing changed, the event log takes no entry: %s", error)
            parts.timings.reloaded("rejected")
            raise
        keys = authorizations(settings, self.environ)
        changed = (
            self._renew_certificate(certificate)
            or bool(decided.events)
            or keys != parts.desk.upstreams.authorizations
            or settings.api_keys != parts.settings.api_keys
            or settings.discovery != parts.settings.discovery
            or settings.generic != parts.settings.generic
        )
        names = changed_names(parts.settings.api_keys, settings.api_keys)
        told = reload_words(parts.settings, settings, decided.events)
        parts.settings = settings
        parts.store.limits = segment_limits(in_force)
        parts.desk.upstreams.renew(connect_timeout_s(in_force), keys)
        parts.desk.keys.renew(settings.api_keys)
        self.discovery.renew(settings.discovery)
        self._renew_scrapes()
        self.restart_needed = waiting
        result: Reloaded = Reloaded(
            "applied" if changed else "unchanged",
            settings.digest,
            self.restart_needed,
            changed=told,
        )
        parts.timings.reloaded(result.result)
        file = settings.source or NO_FILE
        what = f": {', '.join(told)}" if told else ""
        logger.info("reload: %s (%s %s)%s", result.result, file, settings.digest, what)
        if names:
            logger.info("reload: API keys: %s", names)
        if waiting:
            logger.warning("reload: changed, but need a restart: %s", ", ".join(waiting))
        return result

    def _renew_certificate(self, read: ServerCertificate | None) -> bool:
        """Handshakes from now on get it. Whether it is another one."""
        parts = self.parts
        if read is None or parts.tls is None or parts.certificate is None:
            return False  # TLS is off now, or at the next start
        renewed = read.chain != parts.certificate.chain
        parts.certificate, parts.tls.context = read, read.context
        if renewed:
            logger.info("reload: the TLS certificate is another one, SHA-256 %s", read.fingerprint)
        return renewed

    def _rejected(self, problems: tuple[Problem, ...]) -> Reloaded:
        for problem in problems:
            logger.error("reload: nothing changed: %s", problem)
        self.parts.timings.reloaded("rejected")
        told = tuple(attrs.asdict(problem) for problem in problems)
        digest = self.parts.router.state.file_digest
        return Reloaded("rejected", digest, self.restart_needed, told)

    def _renew_scrapes(self) -> None:
        scrape = self.parts.settings.in_force.scrape
        self.rounds.renew(scrape.interval_ms, scrape.timeout_ms)

    def _now_ms(self) -> int:
        return self.parts.now_ms()

    def _check_known(self, name: str) -> None:
        if name not in self.parts.router.state.fleet.replicas:
            raise NoSuchReplica(name)

    def _check_free(self, wanted: ReplicaSetting) -> None:
        fleet = self.parts.router.state.fleet.replicas
        known = fleet.get(wanted.name)
        if known is not None and (known.url, known.told_models, known.engine) != (
            wanted.url,
            wanted.models,
            wanted.engine,
        ):
            raise ReplicaExists(f"{wanted.name} is {known.url} already; remove it first")
        if known is None and len(fleet) >= FLEET_MAX:
            raise ReplicaExists(f"the fleet has {FLEET_MAX} replicas, which is the most")
        for name, other in fleet.items():
            if name != wanted.name and same_place(other.url) == same_place(wanted.url):
                raise ReplicaExists(f"{name} is at {other.url} already; remove it first")


def _unfit(settings: Settings, before: Settings) -> list[Problem]:
    """What is wrong with a file that reads well: an empty one is taken for half written, and so is
    one that would open a router to which a key is needed."""
    place = settings.source or ""
    if settings.source and settings.blank:
        return [Problem(place, "", "", "holds no key", "write the whole file, then reload")]
    if settings.no_replica:
        return [Problem(place, "replica", "", "there is no replica in it", "name at least one")]
    if before.api_keys and not settings.api_keys:
        why = "asks for no API key any more, and a reload opens no router to everybody"
        return [Problem(place, "server.api_keys", "", why, "restart it if that is meant")]
    return []


def _replica_of(told: Mapping[str, Any]) -> ReplicaSetting:
    unknown = [key for key in told if key not in ("name", "url", "models", "engine")]
    if "api_key_env" in unknown:
        raise BadReplica(
            "api_key_env can be given in the configuration file only: what is sent to whom is not"
            " for the admin port to say; add the replica there and reload"
        )
    if unknown:
        raise BadReplica(f"{unknown[0]!a} is not known; give name, url, models, engine")
    key = "url"
    try:
        url = parse_replica_url(told.get("url"))
        key = "name"
        models = told.get("models", [])
        if not isinstance(models, list):
            raise BadReplica("models is not a list")
        return ReplicaSetting(
            name=told.get("name", host_and_port(url)),
            url=url,
            models=tuple(models),
            engine=told.get("engine", "vllm"),
        )
    except BadValue as bad:
        what = key if key == "url" else "name, models or engine"
        raise BadReplica(f"{what} {bad}") from None
