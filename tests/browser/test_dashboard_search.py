"""What an operator looks for: a client's request, why it went there, what is wrong now."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import httpx
import pytest

from tests.browser.chromium import CHROMIUM, Page
from tests.browser.operator import ENTER, ESCAPE, ROWS, ask, picture, shows
from tests.e2e.fleet import Fleet, RouterProcess, chat, wait_for
from trioroute.cli.top_watch import PAST_EVENTS

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"),
    reason="chromium is not installed (Debian and Ubuntu: apt install chromium)",
)


@contextmanager
def streaming(router: RouterProcess, session: str) -> Iterator[str]:
    """A request of that session that runs until the end of the block; gives its decision."""
    body = chat(max_tokens=2000, stream=True, ignore_eos=True)
    headers = {"x-session-id": session}
    with httpx.stream(
        "POST", router.url + "/v1/chat/completions", json=body, headers=headers, timeout=20
    ) as answer:
        yield answer.headers["x-trioroute-decision"]


FATES = (
    "Object.fromEntries([...document.querySelectorAll('#picture tr')].map(row => "
    "[row.cells[0].innerText.split('\\n')[0], [...row.cells].slice(1).map(c => c.innerText)]))"
)


def test_who_won_by_its_pin_never_looks_dropped_and_all_others_fell_out_once(
    fleet: Fleet, page: Page
) -> None:
    router = fleet.router().ready()
    with streaming(router, "agent-7"):
        for _ in range(3):  # a scrape that saw more than the router knows of can spill it (RULES 3)
            answer = httpx.post(
                router.url + "/v1/chat/completions",
                json=chat(),
                headers={"x-session-id": "agent-7"},
                timeout=20,
            )
            if answer.headers["x-trioroute-reason"] != "load":
                break
    assert answer.headers["x-trioroute-reason"] == "affinity:session"
    winner = answer.headers["x-trioroute-replica"]
    (other,) = {"gpu1", "gpu2"} - {winner}
    page.open(router.admin)
    look_up(page, answer.headers["x-trioroute-decision"])
    shows(page, "sentence", "its session pin was usable: 1 running there")
    assert page.look(FATES) == {
        winner: ["●", "●", "●", "★", ""],
        other: ["●", "●", "●", "✕", ""],
    }
    rows = page.text("picture")
    assert "chosen at step 4" in rows
    assert "out at step 4" in rows
    assert f"{winner} stays for its pin" in page.text("reasons")
    assert f"{other}: least loaded, but a usable session pin goes first" in page.text("reasons")
    picture(page, "pinned")


def look_up(page: Page, text: str) -> None:
    """Type it into the field and press Enter."""
    page.wait("document.getElementById('router').innerText !== ''")
    page.look("document.getElementById('wanted').focus()")
    page.look(f"document.getElementById('wanted').value = {text!r}")
    page.press(*ENTER)


def test_what_a_client_knows_finds_its_decision(fleet: Fleet, page: Page) -> None:
    router = fleet.router().ready()
    names = []
    for number in range(3):
        answer = httpx.post(
            router.url + "/v1/chat/completions",
            json=chat(),
            headers={"x-session-id": "agent-7", "x-request-id": f"step:{number}"},
            timeout=20,
        )
        names.append(answer.headers["x-trioroute-decision"])
    page.open(router.admin)
    look_up(page, " step:1 ")
    shows(page, "sentence", f"{names[1]} went to")
    assert "request step:1" in page.text("asked")
    page.press(*ESCAPE)
    look_up(page, names[2].removeprefix("r1/"))
    shows(page, "sentence", f"{names[2]} went to")
    page.look("document.querySelector('#asked button').click()")  # its session's digest
    shows(page, "sentence", "all 3 decisions, newest first")
    picture(page, "session")
    page.press(*ESCAPE)
    look_up(page, "agent-7")
    shows(page, "found", "step:0")
    found = "[...document.querySelectorAll('#found button')]"
    assert page.look(f"{found}.map(one => one.innerText)") == names[::-1]
    page.look(f"{found}.at(-1).click()")
    shows(page, "sentence", f"{names[0]} went to")
    assert page.text("found") == ""
    assert page.problems == []
    page.press(*ESCAPE)
    look_up(page, "<b>nobody's</b>")
    shows(page, "sentence", "is no request and no session of the log")
    assert [one for one in page.problems if "404" not in one] == []


def test_a_decision_that_is_shown_while_it_runs_tells_its_end(fleet: Fleet, page: Page) -> None:
    router = fleet.router().ready()
    page.open(router.admin)
    shows(page, "status", "following the log")
    with streaming(router, "agent-7") as decision:
        look_up(page, decision)
        shows(page, "ending", "Still running.")
    shows(page, "ending", "Ended client_gone (its client left")
    assert page.text("explained-title") == f"Decision {decision}"
    assert page.problems == []


def test_the_address_names_the_decision_and_opens_with_it(fleet: Fleet, page: Page) -> None:
    router = fleet.router().ready()
    first, second = ask(router), ask(router)
    page.open(f"{router.admin}/#{first}")
    shows(page, "sentence", f"{first} went to")
    page.look(f"location.hash = {second!r}")
    shows(page, "sentence", f"{second} went to")
    page.press(*ESCAPE)
    page.wait("location.hash === ''")
    look_up(page, first)
    page.wait(f"location.hash === {'#' + first!r}")
    assert page.problems == []


@pytest.mark.parametrize("width", [400, 1280])
def test_what_is_wrong_now_comes_first(fleet: Fleet, page: Page, width: int) -> None:
    router = fleet.router().ready()
    page.size(width)
    page.open(router.admin)
    page.wait(f"{ROWS} === 2")
    assert page.look("document.getElementById('wrong').hidden")
    for engine in fleet.engines:
        engine.kill()
    for name in ("gpu1", "gpu2"):  # with its cause: a scrape may have been under way
        told = rf"/{name} is EJECTED \([a-z]+\), cooldown \d+ s/"
        page.wait(f"{told}.test(document.getElementById('troubles').innerText)")
    shows(page, "status", "not ready for traffic: no routable replica")
    tops = (
        "['troubles', 'incidents', 'replicas', 'decisions'].map(id => "
        "document.getElementById(id).getBoundingClientRect().top)"
    )
    troubles, incidents, replicas, _ = page.look(tops)
    assert troubles < min(incidents, replicas)
    assert (incidents < replicas) is (width == 400)
    picture(page, f"wrong-{width}")


def test_a_model_that_nobody_serves_is_named_above_all(fleet: Fleet, page: Page) -> None:
    fleet.engine("--model=rag", name="rag1")
    router = fleet.router().ready()
    page.open(router.admin)
    shows(page, "replicas", "rag")
    fleet.engines[2].kill()
    shows(page, "troubles", "nobody serves rag: 0 of 1 replica routable")
    ready = httpx.get(router.admin + "/readyz", timeout=10)
    assert (ready.status_code, ready.json()["unserved"]) == (200, ["rag"])
    picture(page, "unserved")
    assert page.problems == []


def test_an_old_eject_is_still_told_and_unknown_shares_are_grey(fleet: Fleet, page: Page) -> None:
    router = fleet.router().ready()
    httpx.post(router.admin + "/replicas/gpu2/eject?why=too+hot", timeout=10).raise_for_status()
    wait_for("the eject", lambda: router.replica("gpu2")["state"] == "EJECTED")
    with httpx.Client(timeout=20) as client:
        asking = partial(client.post, router.url + "/v1/chat/completions", json=chat(max_tokens=1))
        with ThreadPoolExecutor(16) as clients:
            while router.state()["position"] < PAST_EVENTS + 200:
                for asked in [clients.submit(asking) for _ in range(400)]:
                    asked.result()
    page.open(router.admin)
    shows(page, "incidents", "gpu2 ejected")
    shows(page, "incidents", "router started")
    shows(page, "legend", "grey: not known here")
    picture(page, "old-eject")
    assert page.problems == []
