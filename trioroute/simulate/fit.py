"""An engine model fitted to a log's own latencies, and how far it is off.

Every request is put on the engine of the replica it went to, at the time it went there, so no
routing comes in: what differs is the engine alone. The constants of each named profile are scaled
until the middle of the first-byte times and of the times a token agree; the best profile is kept
and brought nearer (``refine``).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from trioroute.simulate.clock import MS_NS
from trioroute.simulate.engine_model import EngineModel
from trioroute.simulate.profiles import PROFILES, EngineProfile
from trioroute.simulate.recorded import Recorded, supposed
from trioroute.simulate.refine import Pair, Scales, deviation, nearer, slowness
from trioroute.simulate.script import Request
from trioroute.simulate.steps import SPEED_M, sequence_of
from trioroute.simulate.steps import Sequence as OnEngine

FIT_MEDIAN_MAX = 0.25
"""A fit is good if half of the requests are simulated at most this far off, relatively ..."""

FIT_P90_MAX = 1.0
"""... and nine of ten at most this far (both chosen)."""

FIT_REQUESTS_MIN = 50
"""Fewer requests with known times prove no fit (chosen)."""

FLOOR_MS = 20
"""A time is not taken for shorter when errors are made relative: a log's times are milliseconds,
and the network's few are not the engine's."""

SEARCH_REQUESTS = 800
ROUNDS = 4
CLOSE = 0.02
"""Where both middles agree up to this share, scaling on changes nothing that matters."""
SCALE_MAX = 1000.0

Told = Callable[[int, int], None]
"""Told the rounds done and the rounds in all."""


@attrs.frozen(kw_only=True)
class Errors:
    """Relative errors of one sort of time; None where no request tells it."""

    requests: int
    median: float
    p90: float

    @property
    def good(self) -> bool:
        return self.median <= FIT_MEDIAN_MAX and self.p90 <= FIT_P90_MAX


@attrs.frozen(kw_only=True)
class Fit:
    """The engine found; ``like`` is the profile it was scaled from. ``slow_m``: how slow each
    replica is in thousandths of it; empty where they are alike."""

    engine: EngineProfile
    like: str
    prefill_scale: float
    decode_scale: float
    slow_m: dict[str, int]
    ttft: Errors | None
    duration: Errors | None

    @property
    def good(self) -> bool:
        """Whether what is simulated with it may be shown."""
        known = [one for one in (self.ttft, self.duration) if one is not None]
        return bool(known) and all(one.good for one in known)


@attrs.define(slots=True)
class Timed:
    """A request on an engine: when it came, what the log told, what the engine made of it."""

    was: Recorded
    request: Request
    ttft_ms: float | None = None
    duration_ms: float | None = None


def fit(seen: Sequence[Recorded], kv_tokens: int | None, told: Told | None = None) -> Fit:
    """The engine that explains the times of ``seen``, in order of time, best.

    ``kv_tokens`` is the engines' cache if they told it.
    """
    requests = supposed(seen)
    found = min(
        (
            one
            for at, profile in enumerate(PROFILES.values())
            for one in _search(profile, kv_tokens, seen[:SEARCH_REQUESTS], requests, at, told)
        ),
        key=lambda one: one.badness,
    )
    start = PROFILES[found.like]
    start = start if kv_tokens is None else attrs.evolve(start, kv_tokens=kv_tokens)
    engine, scales, slow_m = _nearer(start, found, seen[:SEARCH_REQUESTS], requests)
    timed = _settled(drive(engine, seen, requests, slow_m))
    return Fit(
        engine=engine,
        like=found.like,
        prefill_scale=scales[0],
        decode_scale=scales[1],
        slow_m=slow_m,
        ttft=_errors([_off(pair) for pair in map(_ttft, timed) if pair is not None]),
        duration=_errors([_off(pair) for pair in map(_duration, timed) if pair is not None]),
    )


@attrs.frozen
class _Tried:
    badness: float
    engine: EngineProfile
    like: str
    prefill: float
    decode: float


def _search(
    profile: EngineProfile,
    kv_tokens: int | None,
    few: Sequence[Recorded],
    requests: Sequence[Request],
    at: int,
    told: Told | None,
) -> Iterator[_Tried]:
    """The profile with its constants scaled round by round."""
    start = profile if kv_tokens is None else attrs.evolve(profile, kv_tokens=kv_tokens)
    engine, prefill, decode = start, 1.0, 1.0
    for done in range(1, ROUNDS + 1):
        timed = drive(engine, few, requests)
        yield _Tried(_badness(timed), engine, profile.name, prefill, decode)
        if told is not None:
            told(at * ROUNDS + done, len(PROFILES) * ROUNDS)
        first, later = _ratio(timed, _ttft), _ratio(timed, _per_token)
        if abs(first - 1) <= CLOSE and abs(later - 1) <= CLOSE:
            return
        prefill, decode = _scaled(prefill, first), _scaled(decode, later)
        engine = _at(start, prefill, decode)


def _nearer(
    start: EngineProfile, found: _Tried, few: Sequence[Recorded], requests: Sequence[Request]
) -> tuple[EngineProfile, Scales, dict[str, int]]:
    """Twice: how fast each replica is, and then the costs under which the errors are least."""

    def tried(scales: Scales, slow_m: Mapping[str, int]) -> float:
        timed = _settled(drive(_at(start, *scales), few, requests, slow_m))
        return sum(
            deviation([_off(pair) for pair in map(of, timed) if pair is not None])
            for of in (_ttft, _duration)
        )

    scales, slow_m = (found.prefill, found.decode), dict[str, int]()
    for _ in range(2):
        here: dict[str, list[Pair]] = {}
        for one in _settled(drive(_at(start, *scales), few, requests, slow_m)):
            pair = _per_token(one)
            if pair is not None:
                here.setdefault(one.was.replica, []).append(pair)
        slow_m = slowness(here, slow_m)
        scales = nearer(scales, slow_m, tried)
    return _at(start, *scales), scales, slow_m


def drive(
    profile: EngineProfile,
    seen: Sequence[Recorded],
    requests: Sequence[Request],
    slow_m: Mapping[str, int] | None = None,
) -> list[Timed]:
    """Run each replica's requests over an engine of its own."""
    timed = [Timed(was, request) for was, request in zip(seen, requests, strict=False)]
    replicas: dict[str, list[Timed]] = {}
    for one in timed:
        if one.was.replica:
            replicas.setdefault(one.was.replica, []).append(one)
    for name, here in replicas.items():
        engine = EngineModel(profile)
        engine.slow_m = (slow_m or {}).get(name, SPEED_M)
        _run(engine, here)
    return timed


def _run(engine: EngineModel, here: Sequence[Timed]) -> None:
    """One replica, from its first request to its last answer."""
    by_sequence: dict[int, Timed] = {}
    kept: list[OnEngine] = []  # an id is good while its object lives
    at = 0
    while True:
        next_ns = engine.next_ns
        came_ns = here[at].was.at_ms * MS_NS if at < len(here) else None
        if came_ns is not None and (next_ns is None or came_ns < next_ns):
            one = here[at]
            at += 1
            request = one.request
            if engine.fits(request.prompt_tokens, request.output_tokens):
                made = sequence_of(request)
                kept.append(made)
                by_sequence[id(made)] = one
                engine.submit(made, came_ns)
            continue
        if next_ns is None:
            return
        progress = engine.complete(next_ns)
        for sequence in progress.first:
            one = by_sequence[id(sequence)]
            one.ttft_ms = next_ns / MS_NS - one.was.at_ms
        for sequence in progress.done:
            one = by_sequence[id(sequence)]
            one.duration_ms = next_ns / MS_NS - one.was.at_ms


def _ttft(one: Timed) -> Pair | None:
    was = one.was
    if was.retried or not was.streamed or was.ttfb_ms is None or one.ttft_ms is None:
        return None
    return was.ttfb_ms, one.ttft_ms


def _duration(one: Timed) -> Pair | None:
    was = one.was
    if was.retried or was.duration_ms is None or one.duration_ms is None:
        return None
    return was.duration_ms, one.duration_ms


def _per_token(one: Timed) -> Pair | None:
    """After the first byte; of an answer that came at once, the whole time."""
    ttft, duration = _ttft(one), _duration(one)
    if duration is None:
        return None
    if ttft is None:
        return duration
    tokens = max(1, one.request.output_tokens - 1)
    return (duration[0] - ttft[0]) / tokens, (duration[1] - ttft[1]) / tokens


def _ratio(timed: Sequence[Timed], of: Callable[[Timed], Pair | None]) -> float:
    """How many times longer than simulated it was, in the middle."""
    pairs = [pair for pair in map(of, timed) if pair is not None]
    if not pairs:
        return 1.0
    was = _middle([one for one, _ in pairs], 0.5)
    made = _middle([other for _, other in pairs], 0.5)
    return was / made if was > 0 and made > 0 else 1.0


def _scaled(scale: float, ratio: float) -> float:
    return min(SCALE_MAX, max(1 / SCALE_MAX, scale * ratio))


def _at(start: EngineProfile, prefill: float, decode: float) -> EngineProfile:
    return attrs.evolve(
        start,
        name="fitted",
        prefill_token_ns=max(1, round(start.prefill_token_ns * prefill)),
        base_ns=max(1, round(start.base_ns * decode)),
        sequence_ns=round(start.sequence_ns * decode),
        context_token_ns=round(start.context_token_ns * decode),
    )


def _settled(timed: list[Timed]) -> list[Timed]:
    """Without the first tenth: there the simulated caches are empty and the real ones were not."""
    return timed[len(timed) // 10 :]


def _badness(timed: list[Timed]) -> float:
    """Both medians together."""
    total = 0.0
    for of in (_ttft, _duration):
        offs = [_off(pair) for pair in map(of, _settled(timed)) if pair is not None]
        total += _middle(offs, 0.5) if offs else 0.0
    return total


def _off(pair: Pair) -> float:
    was, made = pair
    return abs(made - was) / max(was, FLOOR_MS)


def _errors(offs: Sequence[float]) -> Errors | None:
    if len(offs) < FIT_REQUESTS_MIN:
        return None
    return Errors(requests=len(offs), median=_middle(offs, 0.5), p90=_middle(offs, 0.9))


def _middle(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
