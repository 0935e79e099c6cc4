"""Headless Chromium over its debugging pipe (the DevTools protocol), only what is needed of it."""

import base64
import json
import os
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
WAIT_S = 60.0
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-proxy-server",
    "--remote-debugging-pipe",
)

LAUNCH = """
import os, sys
one, other = (os.dup(os.dup(os.dup(int(fd)))) for fd in sys.argv[1:3])
os.dup2(one, 3)
os.dup2(other, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The pipe is file descriptors 3 and 4; three copies are beyond those."""


class Page:
    """One tab at a time. ``problems`` are errors of its console, scripts and policy."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, of: int) -> None:
        self._process, self._to, self._of = process, to, of
        self._selector = selectors.DefaultSelector()
        self._selector.register(of, selectors.EVENT_READ)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._target = ""
        self.problems: list[str] = []

    def fresh(self) -> None:
        """A new tab instead of the present one, if there is one; nothing of it is left."""
        self._session = None
        old = self._target
        self._target = self.call("Target.createTarget", url="about:blank")["targetId"]
        if old:
            self.call("Target.closeTarget", targetId=old)
        attached = self.call("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.problems = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + WAIT_S
        while True:
            told = self._read(deadline)
            if told.get("id") == self._number:
                assert "error" not in told, told
                result: dict[str, Any] = told["result"]
                return result
            self._note(told)

    def _read(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready = self._selector.select(max(0.0, deadline - time.monotonic()))
            assert ready, f"the browser did not answer within {WAIT_S} s"
            part = os.read(self._of, 1 << 20)
            assert part, f"the browser ended with {self._process.poll()}"
            self._buffer += part
        one, _, self._buffer = self._buffer.partition(b"\0")
        told: dict[str, Any] = json.loads(one)
        return told

    def _note(self, told: dict[str, Any]) -> None:
        parameters = told.get("params", {})
        if told.get("method") == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"]))
        elif told.get("method") == "Runtime.consoleAPICalled" and parameters["type"] == "error":
            self.problems.append(json.dumps(parameters["args"]))
        elif told.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.problems.append(parameters["entry"]["text"])

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def look(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        told = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def text(self, id_: str) -> str:
        """What an element shows."""
        return str(self.look(f"document.getElementById({id_!r}).innerText"))

    def wait(self, expression: str, within_s: float = WAIT_S) -> Any:
        """Poll until the expression is true."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            found = self.look(expression)
            if found:
                return found
            time.sleep(0.05)
        shown = self.look("document.body.innerText")
        raise AssertionError(
            f"{expression} did not become true; problems: {self.problems}\n{shown}"
        )

    def size(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """The viewport, and whether the user likes it dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def press(self, key: str, code: int, *, shift: bool = False) -> None:
        """One key down and up; ``code`` is its virtual key code."""
        for kind in ("rawKeyDown", "char", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "char" else {}
            if kind == "char" and not text:
                continue
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                modifiers=8 if shift else 0,
                **text,
            )

    def screenshot(self, file: Path) -> None:
        """The whole page as a PNG."""
        told = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(told["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A fresh browser with one tab, ended afterwards with all its processes."""
    assert CHROMIUM is not None, "chromium is missing: apt install chromium"
    commands_read, commands = os.pipe()
    answers, answers_write = os.pipe()
    with (profile / "browser.out").open("wb") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", LAUNCH, str(commands_read), str(answers_write)),
                *(CHROMIUM, *OPTIONS, f"--user-data-dir={profile / 'profile'}"),
            ],
            pass_fds=(commands_read, answers_write),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "HOME": str(profile)},
        )
    os.close(commands_read)
    os.close(answers_write)
    try:
        yield Page(process, commands, answers)
    finally:
        with_group(process, os.killpg)
        os.close(commands)
        os.close(answers)


def with_group(process: subprocess.Popen[bytes], kill: Callable[[int, int], None]) -> None:
    """End the browser and the processes it started: they are a group of their own."""
    kill(process.pid, 9)
    process.wait(100)
