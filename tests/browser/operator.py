"""What an operator and a client do, and what the operator sees."""

import os
from pathlib import Path

import httpx

from tests.browser.chromium import Page
from tests.e2e.fleet import RouterProcess, chat

TAB, ENTER, ESCAPE = ("Tab", 9), ("Enter", 13), ("Escape", 27)
ROWS = "document.querySelectorAll('#replicas tr').length"


def ask(router: RouterProcess, content: str = "hello") -> str:
    answer = httpx.post(router.url + "/v1/chat/completions", json=chat(content), timeout=20)
    assert answer.status_code == 200
    return answer.headers["x-trioroute-decision"]


def shows(page: Page, id_: str, text: str) -> None:
    page.wait(f"document.getElementById({id_!r}).innerText.includes({text!r})")


def picture(page: Page, name: str) -> None:
    """Keep a screenshot where somebody asked for one, to be looked at."""
    directory = os.environ.get("DASHBOARD_PICTURES")
    if directory:
        page.screenshot(Path(directory) / f"{name}.png")
