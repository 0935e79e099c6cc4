"""The same workload under several policies, one run each."""

from collections.abc import Callable, Sequence
from statistics import median_low

import attrs

from trioroute.events import InForce
from trioroute.nearest import hint
from trioroute.policy.policies import POLICIES
from trioroute.router import Log
from trioroute.settings import with_changes
from trioroute.simulate.baselines import BASELINES, Sight
from trioroute.simulate.faults import Fault
from trioroute.simulate.measures import times_s
from trioroute.simulate.profiles import EngineProfile
from trioroute.simulate.script import Workload
from trioroute.simulate.world import Setting, World

SET_PLACE = "--set"


class BadPolicy(ValueError):
    """A policy that nobody knows; the text lists those there are."""


@attrs.frozen
class Contender:
    """A policy under its name in the table: of trioroute with its settings, or a baseline."""

    name: str
    policy: str
    in_force: InForce

    @property
    def is_baseline(self) -> bool:
        return self.policy in BASELINES


@attrs.frozen
class Outcome:
    """One row of the result; seconds and shares, rounded when shown."""

    policy: str
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    e2e_mean_s: float
    e2e_p99_s: float
    prefix_hit_ratio: float
    max_share_5m: float
    imbalance_index: float
    spills: int
    rebinds: int
    errors: int


def contenders(texts: Sequence[str], changes: dict[str, object]) -> tuple[Contender, ...]:
    """The policies that ``texts`` name: a name, ``all``, or a name with settings of its own such as
    ``soft-sticky,policy.load=literal``. ``changes`` hold for all. Raises BadPolicy, SettingsError.
    """
    found: dict[str, Contender] = {}
    for text in texts:
        for each in (*POLICIES, *BASELINES) if text == "all" else (text,):
            found.setdefault(each, _contender(each, changes))
    return tuple(found.values())


def _contender(text: str, changes: dict[str, object]) -> Contender:
    name, *own = text.split(",")
    if name not in POLICIES and name not in BASELINES:
        names = (*POLICIES, *BASELINES)
        known = ", ".join(names)
        raise BadPolicy(f"policy {name!r} is unknown: use {known} or all{hint(name, names)}")
    wanted = dict(changes)
    for part in own:
        key, equals, value = part.partition("=")
        if not equals:
            raise BadPolicy(f"policy {text!r}: {part!r} is not KEY=VALUE, e.g. policy.load=literal")
        wanted[key] = value
    if name in POLICIES:
        wanted["policy.name"] = name
    return Contender(text, name, with_changes(InForce(), wanted, place=SET_PLACE))


@attrs.frozen(kw_only=True)
class Comparison:
    """What all contenders have in common."""

    workload: Workload
    engine: EngineProfile
    replicas: int
    seed: int
    faults: tuple[Fault, ...] = ()

    def world(self, contender: Contender, log: Log | None = None) -> World:
        """The contender's run, about to begin."""
        sight = Sight(seed=self.seed)
        baseline = BASELINES.get(contender.policy)
        setting = Setting(
            workload=self.workload,
            engine=self.engine,
            replicas=self.replicas,
            seed=self.seed,
            in_force=contender.in_force,
            faults=self.faults,
            chooser=baseline(sight) if baseline is not None else None,
            sight=sight,
            with_keys=baseline is None,
        )
        return World(setting, log)

    def run(
        self,
        contender: Contender,
        log: Log | None = None,
        on_ended: Callable[[int], None] | None = None,
    ) -> Outcome:
        """Run the contender to the end of the workload."""
        world = self.world(contender, log)
        world.run(on_ended=on_ended)
        world.close()
        return outcome_of(contender.name, world)


def median_of(runs: Sequence[Outcome]) -> Outcome:
    """Each column's median of a policy's runs, the lower of two in the middle."""
    columns = [field.name for field in attrs.fields(Outcome) if field.name != "policy"]
    medians = {name: median_low([getattr(run, name) for run in runs]) for name in columns}
    return attrs.evolve(runs[0], **medians)


def outcome_of(policy: str, world: World) -> Outcome:
    """The row of a run."""
    measures = world.measures
    engines = [replica.engine for replica in world.fleet.values()]
    queried = sum(engine.queried_tokens for engine in engines)
    cached = sum(engine.cached_tokens for engine in engines)
    return Outcome(
        policy=policy,
        **times_s(measures),
        prefix_hit_ratio=cached / queried if queried else 0.0,
        max_share_5m=measures.largest_share(),
        imbalance_index=measures.mean_imbalance(),
        spills=measures.spills,
        rebinds=measures.rebinds,
        errors=measures.errors,
    )
