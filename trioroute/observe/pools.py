"""Each model's pool as it is now: whether anyone serves it, and how even its load is."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice

import attrs

from trioroute.counted import plural
from trioroute.observe.rows import MODELS_SHOWN, Row
from trioroute.projections import State
from trioroute.projections.measure import ROUTABLE
from trioroute.projections.state import pool_imbalance_m


@attrs.frozen(slots=True)
class Pool:
    """The replicas that list ``model``. Loads in thousandths, ``largest_share`` 0 to 1.

    ``replicas`` is 0 for a model that was served once and that no replica of the fleet lists now.
    A replica that serves several models counts whole in the pool of each.
    """

    model: str
    replicas: int
    routable: int
    imbalance_m: int
    in_flight: int
    wlc_m: int
    largest_share: float


def pools(state: State, rows: Sequence[Row], at_ms: int) -> Iterator[Pool]:
    """What the fleet serves first, then what was served once: at most ``MODELS_SHOWN``.

    A base model and its adapters stand side by side with the same replicas: counted once.
    """
    by_name = {row.name: row for row in rows}
    traffic = state.tally.traffic(at_ms)
    named = state.fleet.pools
    gone = (model for model in state.fleet.seen_models if model not in named)
    members, made = None, None
    for model in islice(chain(named, gone), MODELS_SHOWN):
        here = state.fleet.pool(model)
        if made is None or here != members:
            members, made = here, _pool([by_name[one.name] for one in here], traffic)
        yield attrs.evolve(made, model=model)


def unserved(state: State) -> list[str]:
    """The models that nobody serves now (``State.unserved``), ``MODELS_SHOWN`` at most."""
    return list(islice(state.unserved(), MODELS_SHOWN))


def lost_by(state: State, replica: str) -> list[str]:
    """The models of ``replica`` that nobody is in traffic for, once it is not."""
    known = state.fleet.replicas.get(replica)
    return [model for model in unserved(state) if known is not None and model in known.models]


def lost_words(lost: Sequence[str]) -> str:
    return f"{lost[0]} and {plural(len(lost) - 1, 'other model')}" if lost[1:] else lost[0]


def last_note(state: State, replica: str, verb: str) -> str:
    """What somebody should know who drained or ejected (``verb``) the last replica of a model; ""
    where it was not."""
    if replica not in state.fleet.replicas or state.standing(replica) in ROUTABLE:
        return ""
    lost = lost_by(state, replica)
    if not lost:
        return ""
    note = f"it was the last replica in traffic for {lost_words(lost)}"
    if verb == "drain":
        pool = [one.name for model in lost for one in state.fleet.pool(model)]
        fallback = any(state.standing(name) == "EJECTED" for name in pool)
        then = "what is EJECTED gets its requests as a fallback" if fallback else "503 follows"
        return f"{note}: {then} until one is back (undrain brings this one back)"
    still = "requests still go there as a fallback (RULES 4 step 5)"
    return f"{note}: {still}; drain is what stops them"


def _pool(members: Sequence[Row], traffic: dict[str, int]) -> Pool:
    loads_m = {
        row.name: row.measured.effective_running_m for row in members if row.standing == "LIVE"
    }
    counts = [traffic.get(row.name, 0) for row in members]
    return Pool(
        model="",
        replicas=len(members),
        routable=sum(row.standing in ROUTABLE for row in members),
        imbalance_m=pool_imbalance_m(loads_m),
        in_flight=sum(row.load.own for row in members),
        wlc_m=sum(row.load.wlc_m for row in members),
        largest_share=max(counts) / sum(counts) if any(counts) else 0.0,
    )
