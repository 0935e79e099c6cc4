"""What a change would have led to: the rest of the log, simulated on engines fitted to it.

Three accounts of the same requests: as the log has them, simulated with the recorded settings, and
simulated with the changed ones. The second against the first tells what the simulation is worth;
the third against the second what the change would have done.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median

import attrs

from trioroute.counted import plural
from trioroute.events import InForce
from trioroute.policy import commands as c
from trioroute.replay.window import Window
from trioroute.settings import with_changes
from trioroute.simulate.clock import BEGIN_MS, MS_NS
from trioroute.simulate.faults import FOREVER_MS, Fault
from trioroute.simulate.fit import FIT_MEDIAN_MAX, FIT_P90_MAX, FIT_REQUESTS_MIN, Errors, Fit, fit
from trioroute.simulate.measures import Measures, times_s
from trioroute.simulate.recorded import Recorded, one_after_another
from trioroute.simulate.script import Workload
from trioroute.simulate.world import Setting, World

SEEDS = (1, 2, 3)
"""Scrapes fall differently in each; every figure is the median of these runs."""

MEAN_MAX = 0.35
"""Simulated as recorded, the mean times may be off by this share at most (chosen)."""

Told = Callable[[str, int, int], None]
"""Told what is done, how much of it, and of how much."""


@attrs.frozen(kw_only=True)
class Felt:
    """What clients felt, in seconds, and how the requests were spread."""

    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    e2e_mean_s: float
    e2e_p99_s: float
    max_share_5m: float
    spills: float
    rebinds: float


@attrs.frozen(kw_only=True)
class Rest:
    """The simulated part. ``refused`` says why there are no results, and then there are none.

    ``fit`` is there whenever there was enough to fit; ``means_off`` are the mean TTFT and duration
    simulated as recorded, relative to what was recorded, less one.
    """

    begin: str | None = None
    end: str | None = None
    requests: int = 0
    warm_up: int = 0
    replicas: int = 0
    fit: Fit | None = None
    means_off: tuple[float, float] | None = None
    refused: str | None = None
    recorded: Felt | None = None
    as_recorded: Felt | None = None
    changed: Felt | None = None


def simulate_rest(window: Window, changes: Mapping[str, object], told: Told) -> Rest:
    """Fit, judge the fit, and only then simulate."""
    begun = window.begun
    if begun is None:
        return Rest(refused="no decision would have been another one: there is nothing to simulate")
    rest = Rest(
        begin=begun.decision,
        end=window.ended,
        requests=sum(one.model == begun.model for one in window.after),
        warm_up=sum(one.model == begun.model for one in window.before),
        replicas=len(begun.replicas),
    )
    reason = _too_little(window)
    if reason is not None:
        return attrs.evolve(rest, refused=reason)
    seen = window.requests
    found = fit(seen, begun.cache_tokens, lambda done, of: told("fitting engines", done, of))
    rest = attrs.evolve(rest, fit=found)
    if not found.good:
        return attrs.evolve(rest, refused=_bad_fit(found))
    runs = _Runs(seen, begun.at_ms, begun.settings, found, begun.replicas, told)
    recorded = _as_it_was(window, begun.at_ms)
    as_recorded = runs.felt(begun.settings, 0)
    off = (
        as_recorded.ttft_mean_s / max(recorded.ttft_mean_s, 1e-3) - 1,
        as_recorded.e2e_mean_s / max(recorded.e2e_mean_s, 1e-3) - 1,
    )
    rest = attrs.evolve(rest, means_off=off)
    if max(abs(one) for one in off) > MEAN_MAX:
        return attrs.evolve(rest, refused=_bad_means(off))
    changed = runs.felt(with_changes(begun.settings, changes), len(SEEDS))
    return attrs.evolve(rest, recorded=recorded, as_recorded=as_recorded, changed=changed)


def _too_little(window: Window) -> str | None:
    if len(window.streams) > 1:
        return (
            f"the log is of {plural(len(window.streams), 'router')}, and what they do to each "
            "other is not simulated"
        )
    timed = sum(one.duration_ms is not None for one in window.requests)
    if timed < FIT_REQUESTS_MIN or not window.after:
        return (
            f"only {plural(timed, 'request')} around the first difference ended well while the "
            f"fleet stayed the same: an engine is fitted to {FIT_REQUESTS_MIN} or more"
        )
    if window.begun is not None and not window.begun.replicas:
        return "no replica was LIVE at the first difference"
    return None


def _bad_fit(found: Fit) -> str:
    def said(name: str, errors: Errors | None) -> str:
        if errors is None:
            return f"{name} unknown"
        return f"{name} off by {errors.median:.1%} in the middle and {errors.p90:.1%} at p90"

    return (
        "no engine model explains the log's latencies: "
        f"{said('first byte', found.ttft)}, {said('duration', found.duration)}; at most "
        f"{FIT_MEDIAN_MAX:.0%} and {FIT_P90_MAX:.0%} are let pass"
    )


def _bad_means(off: tuple[float, float]) -> str:
    return (
        "simulated with the recorded settings, the mean first byte is off by "
        f"{off[0]:+.1%} and the mean duration by {off[1]:+.1%}; at most {MEAN_MAX:.0%} is let pass"
    )


@attrs.frozen
class _Runs:
    seen: Sequence[Recorded]
    switch_ms: int
    settings: InForce
    fitted: Fit
    replicas: tuple[str, ...]
    told: Told

    def felt(self, changed: InForce, done: int) -> Felt:
        """The median of the seeds."""
        runs = [self._run(seed, changed, done + at) for at, seed in enumerate(SEEDS)]
        names = [field.name for field in attrs.fields(Felt)]
        return Felt(**{name: median(getattr(run, name) for run in runs) for name in names})

    def _run(self, seed: int, changed: InForce, done: int) -> Felt:
        """The recorded settings up to the first difference, ``changed`` from there on."""
        workload = Workload("log", one_after_another(self.seen))
        world = World(
            Setting(
                workload=workload,
                engine=self.fitted.engine,
                replicas=len(self.replicas),
                seed=seed,
                in_force=self.settings,
                faults=_slow(self.fitted, self.replicas),
            )
        )
        total = workload.requests

        def on_ended(ended: int) -> None:
            self.told("simulating", done * total + ended, 2 * len(SEEDS) * total)

        switch_ms = self.switch_ms - self.seen[0].at_ms
        world.run(switch_ms, on_ended)
        world.measures.from_ns = switch_ms * MS_NS
        if changed != self.settings:
            world.router.handle(c.Configure(at_ms=world.clock.at_ms, settings=changed))
        world.run(on_ended=on_ended)
        return _felt(world.measures)


def _slow(fitted: Fit, replicas: Sequence[str]) -> tuple[Fault, ...]:
    """The replicas that are not as fast as the others, for the whole of a run."""
    return tuple(
        Fault(at, "slow", ((0, FOREVER_MS),), fitted.slow_m[name])
        for at, name in enumerate(replicas, 1)
        if name in fitted.slow_m
    )


def _as_it_was(window: Window, begin_ms: int) -> Felt:
    """The same figures from the log itself."""
    measures = Measures(spills=window.spills, rebinds=window.rebinds)
    for one in window.requests:
        if one.at_ms < begin_ms:
            continue
        measures.dispatched(one.at_ms - begin_ms + BEGIN_MS, one.replica)
        if one.streamed and one.ttfb_ms is not None:
            measures.ttft_ns.append(one.ttfb_ms * MS_NS)
        if one.duration_ms is not None:
            measures.e2e_ns.append(one.duration_ms * MS_NS)
    return _felt(measures)


def _felt(measures: Measures) -> Felt:
    return Felt(
        **times_s(measures),
        max_share_5m=measures.largest_share(measures.from_ns // MS_NS),
        spills=measures.spills,
        rebinds=measures.rebinds,
    )
