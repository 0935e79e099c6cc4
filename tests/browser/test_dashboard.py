"""The dashboard as an operator sees it: real router, real replicas, real Chromium."""

import os
import re
from pathlib import Path

import httpx
import pytest

from tests.browser.chromium import CHROMIUM, Page
from tests.browser.operator import ENTER, ESCAPE, ROWS, TAB, ask, picture, shows
from tests.e2e.fleet import Fleet, RouterProcess, wait_for

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"),
    reason="chromium is not installed (Debian and Ubuntu: apt install chromium)",
)
DECISION = "document.querySelector('#decisions button')"


def test_it_shows_the_fleet_and_follows_the_traffic(fleet: Fleet, page: Page) -> None:
    router = fleet.router().ready()
    page.open(router.admin)
    page.wait(f"{ROWS} === 2")
    assert "gpu1" in page.text("replicas")
    assert page.text("replicas").count("LIVE") == 2
    shows(page, "incidents", "gpu2 is live")
    decision = ask(router)
    shows(page, "decisions", decision)
    page.wait("document.querySelector('#decisions .ok')?.innerText === 'ok'")
    page.wait("document.querySelectorAll('#shares rect').length > 0")
    assert page.text("legend").split()[0] in ("gpu1", "gpu2")
    fleet.engines[1].kill()
    shows(page, "incidents", "gpu2 ejected")
    shows(page, "replicas", "EJECTED")
    page.wait(
        "/[0-9]+ s/.test(document.querySelector('#replicas tr:last-child').children[9].innerText)"
    )
    assert page.problems == []


WHAT_IS_SAID = """
window.said = new Set();
new MutationObserver(() => {
  for (const id of ["no-decisions", "no-incidents", "legend"]) {
    const shown = document.getElementById(id);
    if (shown && !shown.hidden) said.add(shown.textContent);
  }
}).observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
"""


def test_nothing_is_called_empty_before_it_was_read(fleet: Fleet, page: Page) -> None:
    router = fleet.router().ready()
    page.call("Page.addScriptToEvaluateOnNewDocument", source=WHAT_IS_SAID)
    page.open(router.admin)
    shows(page, "no-decisions", "none yet")
    shows(page, "legend", "no dispatch yet")
    assert "reading the log" in page.look("[...said]")
    decision = ask(router)
    page.open(router.admin)
    shows(page, "decisions", decision)
    shows(page, "legend", "gpu")
    said = page.look("[...said]")
    assert "reading the log" in said
    assert not {"none yet", "no dispatch yet"} & set(said)
    assert page.problems == []


def test_a_click_on_a_decision_draws_who_dropped_out_where(fleet: Fleet, page: Page) -> None:
    router = fleet.router().ready()
    httpx.post(router.admin + "/replicas/gpu2/drain", timeout=10).raise_for_status()
    page.open(router.admin)
    decision = ask(router)
    page.wait(f"{DECISION}?.innerText === {decision!r}")
    page.wait("document.querySelector('#decisions .ok') !== null")  # its end is in the log
    page.look(f"{DECISION}.click()")
    shows(page, "sentence", f"{decision} went to gpu1 because")
    assert [line.split()[0] for line in page.text("steps").split("\t")[1:]] == [*"12345"]
    rows = page.look(
        "[...document.querySelectorAll('#picture tr')].map(row => "
        "[...row.cells].map(cell => cell.innerText.split('\\n')[0]))"
    )
    assert rows[0] == ["gpu1", "●", "●", "★", "", ""]
    assert rows[1][:2] == ["gpu2", "✕"]
    assert "gpu2: DRAINING" in page.text("reasons")
    assert "Ended ok" in page.text("ending")
    picture(page, "explained")
    page.press(*ESCAPE)
    page.wait("!document.getElementById('explained').open")
    assert page.problems == []


def test_it_tells_what_clients_got_in_the_last_minute(fleet: Fleet, page: Page) -> None:
    router = fleet.router(retries_max="0").ready()
    for _ in range(3):
        ask(router)
    for engine in fleet.engines:
        engine.faults(status=400, count=1)
    body = {"model": "tiny", "messages": [{"role": "user", "content": "mine"}]}
    url = router.url + "/v1/chat/completions"
    assert httpx.post(url, json=body, timeout=20).status_code == 400
    for engine in fleet.engines:
        engine.faults(status=502, count=1)
    assert httpx.post(url, json=body, timeout=20).status_code == 502
    assert httpx.post(url, json={**body, "model": "unheard-of"}, timeout=20).status_code == 404
    page.open(router.admin)
    page.wait("document.getElementById('failed').innerText !== '\u2013'")
    page.wait("document.getElementById('failed').innerText === '1 (16.7 %)'")
    assert page.text("refused") == "1 (16.7 %)"
    assert re.fullmatch(r"[0-9.]+/s", page.text("rate"))
    assert re.fullmatch(r"[0-9.]+ m?s · [0-9.]+ m?s", page.text("waits"))
    picture(page, "pace")
    assert page.problems == []


def test_a_token_in_the_address_opens_it(fleet: Fleet, page: Page, tmp_path: Path) -> None:
    config = tmp_path / "r.toml"
    config.write_text(
        '[server]\nadmin_token_env = "TOKEN_HERE"\n'
        f'[[replica]]\nname = "gpu1"\nurl = "{fleet.engines[0].url}"\n'
    )
    router = RouterProcess(
        tmp_path, [], env={"TOKEN_HERE": "a-token-of-some-length"}, config=config
    )
    fleet.routers.append(router)
    router.ready()
    page.open(router.admin.replace("//", "//admin:a-token-of-some-length@"))
    shows(page, "status", "following the log")
    decision = ask(router)
    page.wait(f"{DECISION}?.innerText === {decision!r}")
    page.look(f"{DECISION}.click()")
    shows(page, "sentence", f"{decision} went to gpu1")
    assert page.problems == []


def test_it_goes_on_when_the_router_comes_back(fleet: Fleet, page: Page) -> None:
    router = fleet.router().ready()
    page.open(router.admin)
    first = ask(router)
    shows(page, "decisions", first)
    page.look("window.untouched = true")
    router.kill()
    shows(page, "status", "no answer from the router")
    router.start()
    router.ready()
    shows(page, "status", "following the log")
    shows(page, "incidents", "router started")
    second = ask(router)
    shows(page, "decisions", second)
    names = page.look("[...document.querySelectorAll('#decisions button')].map(b => b.innerText)")
    assert names == [second, first], "each once, nothing lost"
    assert page.look("window.untouched") is True, "without loading the page again"
    noise = [text for text in page.problems if "ERR_" not in text]
    assert noise == [], "the browser notes a connection that broke, the script nothing"


def test_nothing_runs_over_the_side_on_wide_and_narrow_screens_in_light_and_dark(
    fleet: Fleet, page: Page
) -> None:
    fleet.engine(name="inference.vllm-qwen3-32b-instruct-7f9c4b8d5-x2x9z.node-0017.example")
    router = fleet.router().ready()
    page.open(router.admin)
    for number in range(6):
        decision = ask(router, f"a rather different question {number} " * 20)
    shows(page, "decisions", decision)
    page.wait("document.querySelectorAll('#shares rect').length > 0")
    httpx.post(router.admin + "/replicas/gpu2/drain", timeout=10).raise_for_status()
    shows(page, "replicas", "DRAINING")
    for width in (1280, 1060, 390):
        for dark in (False, True):
            page.size(width, dark=dark)
            look_over(page, width, dark=dark)
    assert page.problems == []


def look_over(page: Page, width: int, *, dark: bool) -> None:
    name = f"{width}-{'dark' if dark else 'light'}"
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    page.wait(f"innerWidth === {width}")
    assert page.look(overflow) <= 0
    picture(page, name)
    page.look(f"{DECISION}.click()")
    shows(page, "ending", "Ended")
    assert page.look(overflow) <= 0
    dialog = "document.getElementById('explained')"
    assert page.look(f"{dialog}.scrollWidth - {dialog}.clientWidth") <= 0
    picture(page, f"explained-{name}")
    page.press(*ESCAPE)
    page.wait(f"!{dialog}.open")
    ink, back = page.look(
        "['color', 'backgroundColor'].map(key => getComputedStyle(document.body)[key])"
    )
    assert (brightness(ink) > brightness(back)) is dark
    assert contrast(ink, back) >= 7


def brightness(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((brightness(one), brightness(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_keyboard_reaches_everything_in_reading_order(fleet: Fleet, page: Page) -> None:
    router = fleet.router().ready()
    page.open(router.admin)
    old = ask(router)
    shows(page, "decisions", old)
    new = ask(router)
    shows(page, "decisions", new)
    focused = "document.activeElement.innerText"
    order = []
    for _ in range(8):
        page.press(*TAB)
        order.append(page.look(focused))
    assert order == ["", "find", "pause", new, old, "metrics", "state", "ready"]
    for _ in range(4):
        page.press(*TAB, shift=True)
    assert page.look(focused) == new
    later = ask(router)
    shows(page, "decisions", later)
    assert page.look(focused) == new, "what comes in moves no focus"
    page.press(*ENTER)
    shows(page, "sentence", f"{new} went to")
    assert page.look("document.activeElement.id") == "close"
    page.press(*ESCAPE)
    page.wait("!document.getElementById('explained').open")
    assert page.look(focused) == new, "and back where it was"


def test_paused_decisions_stand_still(fleet: Fleet, page: Page) -> None:
    router = fleet.router().ready()
    page.open(router.admin)
    shows(page, "status", "following the log")
    page.look("document.getElementById('pause').click()")
    ask(router)
    page.wait("document.querySelectorAll('#shares rect').length > 0")
    assert page.look("document.querySelectorAll('#decisions tr').length") == 0
    page.look("document.getElementById('pause').click()")
    decision = ask(router)
    shows(page, "decisions", decision)
    wait_for("nothing in flight", lambda: router.state()["replicas"][0]["in_flight"] == 0)
