"""Engines other than vLLM: documented names as integers, where they are told, and silence."""

import ssl
from pathlib import Path

import pytest

from tests.scrape.servers import reply, serving
from trioroute.scrape import ENGINES, Names, dialect_for, fetch
from trioroute.scrape.exposition import scan
from trioroute.scrape.fetch import Bad, Good, ScrapeResult, ScrapeTarget
from trioroute.scrape.page import PageReading
from trioroute.settings.built import ENGINES as CHOICES

PAGES = Path(__file__).parent / "pages"
TLS = ssl.create_default_context()
LOADS = {
    "sglang": PageReading(running=7, waiting=3, kv_m=500, tokens=7557),
    "llamacpp": PageReading(running=2, waiting=1, kv_m=125, tokens=3469),
    "tgi": PageReading(running=6, waiting=4, kv_m=None, tokens=812),
    "lmdeploy": PageReading(running=3, waiting=1, kv_m=750, tokens=640),
    "trtllm": PageReading(running=8, waiting=2, kv_m=900, tokens=99),
}
PATHS = dict.fromkeys(LOADS, "/metrics") | {"trtllm": "/prometheus/metrics"}
MINE = Names(running=("my_running",), waiting=("my_waiting",), path="/load")


def page(engine: str) -> bytes:
    return (PAGES / f"{engine}.txt").read_bytes()


async def scrape(engine: str, generic: Names | None = None, **answers: bytes) -> ScrapeResult:
    """One scrape of a replica that answers these paths, ``_`` for the slash."""
    table = {f"/{name.replace('_', '/')}": answer for name, answer in answers.items()}
    asked: list[str] = []

    async def handle(stream: object, path: str, _head: bytes) -> None:
        asked.append(path)
        await stream.send_all(table.get(path) or reply(b"{}", "404 Not Found"))  # type: ignore[attr-defined]  # a trio stream

    async with serving(handle) as url, fetch.open_client(TLS) as client:
        target = ScrapeTarget(name="a", url=url, engine=engine, generic=generic)
        return await fetch.scrape_once(client, target, ask_models=False, in_flight=lambda _: 0)


@pytest.mark.parametrize("engine", LOADS)
async def test_the_load_is_read_from_the_documented_names_at_their_place(engine: str) -> None:
    where = {PATHS[engine].strip("/").replace("/", "_"): reply(page(engine))}
    assert await scrape(engine, None, **where) == Good(page=LOADS[engine], own=0)


@pytest.mark.parametrize("engine", LOADS)
def test_another_engines_page_is_unknown_load_not_zero(engine: str) -> None:
    for other in LOADS.keys() - {engine}:
        dialect = dialect_for(engine)
        assert dialect.fold(scan(page(other), dialect.wanted)) == PageReading()


@pytest.mark.parametrize("engine", [*LOADS, "generic", "none"])
async def test_without_its_page_it_is_alive_by_its_health(engine: str) -> None:
    assert await scrape(engine, health=reply()) == Good(page=PageReading(), own=0)
    assert await scrape(engine) == Bad(cause="status", status=404)
    unavailable = reply(b"", "503 Service Unavailable")
    assert await scrape(engine, health=unavailable) == Bad(cause="status", status=503)


async def test_a_generic_engine_has_the_names_that_it_was_given() -> None:
    told = reply(b"my_running 4\nmy_waiting 1\nvllm:num_requests_running 9\n")
    wanted = PageReading(running=4, waiting=1)
    assert await scrape("generic", MINE, load=told) == Good(page=wanted, own=0)
    assert await scrape("vllm", MINE, load=told, health=reply()) == Good(page=PageReading(), own=0)


async def test_no_metrics_page_is_asked_of_an_engine_without_one() -> None:
    broken = reply(b"<html>", "500 Oops")
    assert await scrape("none", metrics=broken, health=reply()) == Good(page=PageReading(), own=0)


def test_half_a_load_is_unknown() -> None:
    text = page("sglang") + b'sglang:num_running_reqs{model_name="m",dp_rank="2"} 1\n'
    dialect = dialect_for("sglang")
    read = dialect.fold(scan(text, dialect.wanted))
    assert (read.running, read.waiting) == (8, None)


def test_every_choice_of_the_settings_has_a_dialect() -> None:
    assert CHOICES.name == " | ".join(ENGINES)
