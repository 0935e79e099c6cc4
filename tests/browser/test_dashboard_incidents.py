"""What an operator reads on the dashboard when something went wrong: what, why, and what helps."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.browser.chromium import CHROMIUM, Page
from tests.browser.operator import ESCAPE, picture, shows
from tests.browser.test_dashboard_search import look_up
from tests.e2e.fleet import Fleet, RouterProcess, chat, wait_for
from tests.small_disk import fill, mounted

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"),
    reason="chromium is not installed (Debian and Ubuntu: apt install chromium)",
)
COMPLETIONS = "/v1/chat/completions"


def test_changed_settings_are_named_live_and_from_the_past(
    fleet: Fleet, page: Page, tmp_path: Path
) -> None:
    file = tmp_path / "r.toml"
    replica = f'[[replica]]\nname = "gpu1"\nurl = "{fleet.engines[0].url}"\n'
    file.write_text(replica)
    router = fleet.router(config=file).ready()
    page.open(router.admin)
    shows(page, "incidents", "settings in force")
    file.write_text(f'{replica}[eject]\ncooldown = "45s"\n')
    httpx.post(router.admin + "/reload?why=gpu1+needs+longer", timeout=10).raise_for_status()
    what = "other settings in force: eject.cooldown 30s -> 45s by admin (gpu1 needs longer)"
    shows(page, "incidents", what)
    page.open(router.admin)
    shows(page, "incidents", what)
    picture(page, "settings")
    assert page.problems == []


def test_a_router_that_stood_still_is_among_the_incidents(fleet: Fleet, page: Page) -> None:
    router = fleet.router(scrape_timeout="200ms").ready()
    page.open(router.admin)
    shows(page, "status", "following the log")
    os.kill(router.popen.pid, signal.SIGSTOP)
    time.sleep(2)  # what is to be told: a scrape is due every 200 ms
    os.kill(router.popen.pid, signal.SIGCONT)
    shows(page, "incidents", "the router stood still for ")
    page.open(router.admin)
    shows(page, "incidents", "the router stood still for ")
    assert page.text("incidents").count("stood still") == 1
    picture(page, "standstill")
    assert page.problems == []


def test_requests_that_the_router_died_under_count_as_failed(fleet: Fleet, page: Page) -> None:
    router = fleet.router().ready()
    for engine in fleet.engines:
        engine.faults(freeze=True)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(asked_as, router, "order-3")
        page.open(router.admin)
        shows(page, "decisions", "running")
        router.kill()
        with pytest.raises(httpx.HTTPError):
            asked.result()
    router.start()
    router.ready()
    shows(page, "incidents", "router had died under 1 request")
    shows(page, "decisions", "cut off: the router died")
    page.wait("document.getElementById('failed').innerText === '1 (100 %)'")


def test_a_log_that_takes_nothing_stands_above_all_and_is_told_why(
    fleet: Fleet, page: Page
) -> None:
    with mounted(fleet.directory / "log", 2 << 20) as log:
        router = fleet.router(log_gate_wait="200ms").ready()
        page.open(router.admin)
        shows(page, "status", "following the log")
        ballast = fill(log)

        def refused() -> bool:
            asked = httpx.post(router.url + COMPLETIONS, json=chat(max_tokens=1), timeout=10)
            return asked.status_code == 503

        wait_for("the disk felt", refused)
        page.wait(
            r"/the log has taken nothing for [0-9.]+ m?s, [0-9]+ events? waits?: .*(full|space)/"
            ".test(document.getElementById('troubles').innerText)"
        )
        shows(page, "incidents", "the log takes nothing: ")
        picture(page, "log-stalled")
        ballast.unlink()
        shows(page, "incidents", "the log is written again")
        shows(page, "incidents", "log_stalled, the log took nothing within log.gate_wait")
        page.wait("document.getElementById('wrong').hidden")
        assert [one for one in page.problems if "50" not in one] == []


def asked_as(router: RouterProcess, name: str, model: str = "tiny") -> int:
    headers = {"x-request-id": name}
    body = {**chat(max_tokens=1), "model": model}
    return httpx.post(router.url + COMPLETIONS, json=body, headers=headers, timeout=20).status_code


def test_a_failed_request_tells_its_cause_and_what_its_client_got(fleet: Fleet, page: Page) -> None:
    router = fleet.router(retries_max="0").ready()
    for engine in fleet.engines:
        engine.faults(status=502, count=1)
    assert asked_as(router, "order-1") == 502
    page.open(router.admin)
    look_up(page, "order-1")
    shows(page, "ending", "the replica answered 502, held against it)")
    assert "Its client got 502" in page.text("ending")
    assert " load 0 requests" in " ".join(page.text("picture").split())
    picture(page, "failed")
    page.press(*ESCAPE)
    page.wait("/gpu[12] 1 dispatch$/.test(document.getElementById('legend').innerText)")
    assert page.problems == []


def test_refusals_of_one_id_are_all_told_and_what_helps_once(fleet: Fleet, page: Page) -> None:
    router = fleet.router().ready()
    assert [asked_as(router, "order-2", "unheard-of") for _ in range(3)] == [404] * 3
    page.open(router.admin)
    look_up(page, "order-2")
    shows(page, "sentence", "got 404 model_not_found, never dispatched (3 times by this id)")
    rows = page.look("[...document.querySelectorAll('#found li')].map(one => one.innerText)")
    assert (
        len([row for row in rows if "its client got 404 model_not_found: no replica" in row]) == 3
    )
    remedies = [row for row in rows if row.startswith("remedy: ")]
    assert remedies == ["remedy: correct the name, or wait for the replica that serves it"]
    picture(page, "refused")
    assert page.problems == []
