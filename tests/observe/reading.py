"""/metrics as a reader sees it: written by the exporter, parsed by prometheus_client."""

from collections.abc import Callable, Iterable

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as from_openmetrics
from prometheus_client.parser import text_string_to_metric_families as from_text

from tests.observe.rig import MODEL, T0_MS, Rig, reading
from trioroute.discovery import Standing
from trioroute.policy.commands import Drain, Refuse
from trioroute.upkeep import Deeds

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def busy_rig() -> Rig:
    """Two replicas: a has traffic and a pin, b was ejected; one retry, one refusal."""
    rig = Rig()
    rig.live("a", "b")
    rig.scrape(a=reading(kv_m=250), b=reading())
    first = rig.arrive(session="s1", prefix="p1")
    rig.finish(first)
    rig.handle(Drain, replica="a", on=True)
    lost = rig.arrive(session="s1")
    rig.refuse_connection(lost)
    rig.handle(Drain, replica="a", on=False)
    rig.arrive(attempt=2, tried=("b",))
    rig.handle(Refuse, request_id="q", code="overloaded", model=MODEL)
    rig.timings.discovery = {"file": Standing(last_success_ms=T0_MS, replicas=2)}
    done = Deeds(ok=3, failed=1, size_bytes=4096, last_success_ms=T0_MS, waiting=2)
    rig.timings.upkeep = {"archive": done, "retention": done, "snapshot": done}
    return rig


async def families(rig: Rig, accept: str = "") -> list[Metric]:
    page = await rig.exporter().page(accept)
    parse: Callable[[str], Iterable[Metric]] = from_openmetrics if accept else from_text
    return list(parse(page.body.decode()))


async def samples(rig: Rig, accept: str = "") -> Samples:
    return flat(await families(rig, accept))


def flat(found: Iterable[Metric]) -> Samples:
    every = [sample for family in found for sample in family.samples]
    read = {(s.name, frozenset(s.labels.items())): s.value for s in every}
    assert len(read) == len(every), "a series is there twice"
    return read


def value(read: Samples, name: str, **labels: str) -> float:
    return read[f"trioroute_{name}", frozenset(labels.items())]
