"""Exemplars: which decision a bucket of a histogram counted last."""

from typing import Any

from tests.observe.reading import OPENMETRICS, families
from tests.observe.rig import MODEL, T0_MS, Rig, reading
from trioroute.events import Dispatched
from trioroute.observe.exemplars import Exemplars
from trioroute.observe.rows import MODELS_SHOWN
from trioroute.policy.commands import Join
from trioroute.router import UNLOGGED

TTFB = "trioroute_time_to_first_byte_seconds"
DURATION = "trioroute_request_duration_seconds"


async def exemplars(rig: Rig) -> dict[tuple[str, str, str], Any]:
    """By family, model and bucket."""
    return {
        (family.name, sample.labels["model"], sample.labels["le"]): sample.exemplar
        for family in await families(rig, OPENMETRICS)
        for sample in family.samples
        if sample.exemplar is not None
    }


async def test_each_bucket_names_the_last_decision_that_fell_into_it() -> None:
    rig = Rig()
    rig.live("a")
    quick = rig.arrive()
    rig.finish(quick, ttfb_ms=5, duration_ms=700)
    slow = rig.arrive()
    rig.now_ms += 1500
    rig.finish(slow, ttfb_ms=40, duration_ms=900_000)
    found = await exemplars(rig)
    assert {key: one.labels for key, one in found.items()} == {
        (TTFB, MODEL, "0.005"): {"decision": f"r1/{quick}"},
        (TTFB, MODEL, "0.05"): {"decision": f"r1/{slow}"},
        (DURATION, MODEL, "1.0"): {"decision": f"r1/{quick}"},
        (DURATION, MODEL, "+Inf"): {"decision": f"r1/{slow}"},
    }
    late = found[TTFB, MODEL, "0.05"]
    assert (late.value, float(late.timestamp)) == (0.04, (T0_MS + 1500) / 1000)
    later = rig.arrive()
    rig.finish(later, ttfb_ms=49)
    rig.now_ms += 1000
    found = await exemplars(rig)
    assert found[TTFB, MODEL, "0.05"].labels == {"decision": f"r1/{later}"}


async def test_the_text_format_has_none() -> None:
    rig = Rig()
    rig.live("a")
    rig.finish(rig.arrive())
    assert b"decision" not in b"".join(
        line
        for line in (await rig.exporter().page("")).body.splitlines()
        if line.startswith(b"trioroute_request_duration")
    )


async def test_models_that_share_a_label_share_its_buckets() -> None:
    rig = Rig()
    names = tuple(f"m{n}" for n in range(MODELS_SHOWN + 2))
    rig.handle(Join, replica="a", url="http://a:8000", models=names)
    rig.scrape(a=reading())
    early = rig.arrive(model=names[-1])
    rig.finish(early, ttfb_ms=40)
    rig.now_ms += 1
    late = rig.arrive(model=names[-2])
    rig.finish(late, ttfb_ms=41)
    found = await exemplars(rig)
    assert found[TTFB, "other", "0.05"].labels == {"decision": f"r1/{late}"}


def test_what_ends_is_forgotten_and_what_no_log_holds_is_no_exemplar() -> None:
    rig = Rig()
    rig.live("a", "b")
    kept: Exemplars = rig.timings.exemplars
    rig.refuse_connection(rig.arrive())
    rig.finish(rig.arrive())
    assert kept._models == {}
    dispatched = Dispatched(
        request_id="q",
        model=MODEL,
        attempt=1,
        replica="a",
        reason="load",
        weight_m=1,
        session=None,
        prefix=None,
        home=None,
        draw=1,
        policy="soft-sticky",
        prompt_bytes=1,
    )
    kept.note(UNLOGGED + 1, [dispatched], T0_MS)
    assert kept._models == {}
