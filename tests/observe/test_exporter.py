"""How a page of metrics is written: kept, in slices, in the format that is liked best."""

from typing import get_args

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families as from_text

from tests.observe.reading import OPENMETRICS, busy_rig, flat, value
from tests.observe.rig import Rig
from trioroute.events.words import Reason, ReplicaState
from trioroute.observe.exporter import SERIES, negotiate

STATES: tuple[str, ...] = get_args(ReplicaState)
REASONS: tuple[str, ...] = get_args(Reason)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
"""The Accept header of Prometheus 3."""


async def test_a_page_is_kept_for_a_second() -> None:
    rig = busy_rig()
    exporter = rig.exporter()
    first = await exporter.page("")
    rig.now_ms += 999
    rig.arrive()
    assert await exporter.page("") is first
    assert (await exporter.page(OPENMETRICS)).content_type.startswith("application/openmetrics")
    rig.now_ms += 1
    read = flat(from_text((await exporter.page("")).body.decode()))
    assert value(read, "replica_in_flight", replica="a") == 2


async def test_who_asks_while_a_page_is_written_gets_the_same_page() -> None:
    exporter = busy_rig().exporter()
    pages = []

    async def ask() -> None:
        pages.append(await exporter.page(""))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
    assert len(pages) == 5
    assert all(page is pages[0] for page in pages)


async def test_other_tasks_run_between_slices_and_a_big_family_has_one_head() -> None:
    rig = Rig()
    names = [f"replica{number}" for number in range(150)]
    rig.live(*names)
    turns = 0

    async def neighbour() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(neighbour)
        page = await rig.exporter().page("")
        nursery.cancel_scope.cancel()
    assert turns >= len(SERIES) + 150 * 5 // 100
    assert page.body.count(b"# TYPE trioroute_replica_state gauge\n") == 1
    read = flat(from_text(page.body.decode()))
    states = [labels for name, labels in read if name == "trioroute_replica_state"]
    assert len(states) == 150 * len(STATES)
    dispatches = [labels for name, labels in read if name == "trioroute_dispatches_total"]
    assert len(dispatches) == 150 * len(REASONS)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", "text"),
        ("*/*", "text"),
        ("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "text"),
        ("text/plain;version=0.0.4", "text"),
        ("application/openmetrics-text", "openmetrics"),
        ("application/openmetrics-text;version=0.0.1,text/plain;q=0.1", "text"),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.6", "text"),
        ("application/openmetrics-text;q=0", "text"),
        ("application/openmetrics-text;q=nonsense", "text"),
        (PROMETHEUS_3, "openmetrics"),
    ],
)
def test_the_format_is_what_the_reader_likes_best(accept: str, wanted: str) -> None:
    assert negotiate(accept) == wanted
