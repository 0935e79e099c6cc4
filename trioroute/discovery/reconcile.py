"""From lists to joins, leaves and drains: pure, so that every case can be tested without a wire."""

from collections.abc import Iterator, Mapping

import attrs

from trioroute.discovery.found import Found
from trioroute.policy import commands as c
from trioroute.projections import State
from trioroute.projections.fleet import Replica
from trioroute.settings import same_place

FLEET_MAX = 1000


@attrs.frozen(kw_only=True)
class Picture:
    """What all sources see together. ``whose`` names the source of each found replica.

    ``gone`` were in a list of this run and are in none now, with the source that dropped them.
    ``complete``: every source has told a list since the start, so whoever is in none is gone too.
    """

    found: Mapping[str, Found]
    whose: Mapping[str, str]
    gone: Mapping[str, str] = attrs.field(factory=dict)
    complete: bool = False


def reconcile(state: State, picture: Picture, at_ms: int) -> list[c.Command]:
    """What makes the fleet agree with the picture; nothing if it does.

    Replicas of the configuration and of the admin port are never touched, and win over a found one
    of the same name or place. Before the first lists nobody leaves: the log's replicas stand.
    """
    fleet = state.fleet.replicas
    ours = {name: one for name, one in fleet.items() if one.source == "discovery"}
    parting: list[c.Command] = []
    for name, replica in ours.items():
        if name not in picture.found and (picture.complete or name in picture.gone):
            parting += _parting(state, replica, picture.gone.get(name, "discovery"), at_ms)
    left = {one.replica for one in parting if isinstance(one, c.Leave)}
    staying = {name: one for name, one in fleet.items() if name not in left}
    return [*parting, *_present(staying, ours, picture, at_ms)]


def _parting(state: State, replica: Replica, by: str, at_ms: int) -> Iterator[c.Command]:
    name, why = replica.name, f"{by}: not listed any more"
    if not state.load.of(name).own:
        yield c.Leave(at_ms=at_ms, replica=name, by="discovery", why=why)
    elif replica.leaves_by is None:
        yield _drain(at_ms, name, why)


def _drain(at_ms: int, name: str, why: str, *, on: bool = True) -> c.Drain:
    return c.Drain(at_ms=at_ms, replica=name, on=on, leaves=on, by="discovery", why=why)


def _present(
    fleet: Mapping[str, Replica], ours: Mapping[str, Replica], picture: Picture, at_ms: int
) -> Iterator[c.Command]:
    places = {same_place(replica.url): name for name, replica in fleet.items()}
    count = len(fleet)
    for name, found in picture.found.items():
        source, place, known = picture.whose[name], same_place(found.url), ours.get(name)
        if name in fleet and known is None:
            continue
        if known is not None and found.draining:
            if known.leaves_by is None:
                yield _drain(at_ms, name, f"{source}: draining")
            continue
        if known is not None and known.leaves_by == "discovery":
            yield _drain(at_ms, name, f"{source}: listed again", on=False)
        if found.draining or _same(known, found) or places.get(place, name) != name:
            continue
        if known is None and count >= FLEET_MAX:
            continue
        count += known is None
        places[place] = name
        yield _join(at_ms, found, f"{source}: listed")


def _same(known: Replica | None, found: Found) -> bool:
    return known is not None and (known.url, known.told_models, known.engine) == (
        found.url,
        found.models,
        found.engine,
    )


def _join(at_ms: int, found: Found, why: str) -> c.Join:
    return c.Join(
        at_ms=at_ms,
        replica=found.name,
        url=found.url,
        models=found.models,
        engine=found.engine,
        source="discovery",
        by="discovery",
        why=why,
    )
