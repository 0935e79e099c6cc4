"""The demo from start to Ctrl-C, alone and beside another one."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx

from tests.e2e.fleet import Process, wait_for
from tests.e2e.test_process import run_command
from tests.ports import free_port


@contextmanager
def demo_in(tmp_path: Path, *options: str, out: str = "demo") -> Iterator[Process]:
    demo = Process(
        tmp_path / f"{out}.out", "demo", "--replicas=2", f"--log={tmp_path / 'log'}", *options
    )
    try:
        yield demo
    finally:
        demo.popen.kill()
        demo.popen.wait()


def ports() -> tuple[str, str]:
    return f"--port={free_port()}", f"--admin-port={free_port()}"


def test_the_demo_shows_traffic_stops_cleanly_and_continues_its_log(tmp_path: Path) -> None:
    for turn, shown_s in enumerate((13, 3)):  # longer than an idle worker thread lives
        with demo_in(tmp_path, *ports(), out=f"demo{turn}") as demo:
            wait_for("traffic", partial(_shows, demo, " in flight"))
            time.sleep(shown_s)
            assert demo.popen.poll() is None, demo.text()
            assert demo.stop(signal.SIGINT) == 0, demo.text()
            assert "starting 2 simulated replicas and the router ..." in demo.text()
            assert f"stopped; the log stays: trioroute replay {tmp_path / 'log'}" in demo.text()
    verified = run_command("replay", str(tmp_path / "log"), "--verify")
    assert verified.returncode == 0, verified.stdout
    assert "1 restart" in verified.stdout
    assert " 0 decisions" not in verified.stdout
    cut = run_command("replay", str(tmp_path / "log"), "--last", "1000")
    assert "upstream_cut" not in cut.stdout


def _shows(process: Process, text: str) -> bool:
    return text in process.text()


def _url(demo: Process, name: str) -> str:
    (line,) = [line for line in demo.text().splitlines() if line.strip().startswith(name)]
    return line.split()[1]


def test_a_second_demo_takes_ports_and_a_log_of_its_own_and_leaves_nothing(tmp_path: Path) -> None:
    options = (*ports(), "--no-traffic")
    with demo_in(tmp_path, *options) as first:
        wait_for("the first", partial(_shows, first, "Ctrl-C"))
        with demo_in(tmp_path, *options, out="second") as second:
            wait_for("the second", partial(_shows, second, "Ctrl-C"))
            assert f"is written by another router, using {tmp_path / 'log-2'}" in second.text()
            assert " is taken, using 127.0.0.1:" in second.text()
            state = httpx.get(_url(second, "dashboard") + "state").json()
            assert [replica["name"] for replica in state["replicas"]] == ["gpu1", "gpu2"]
            engines = [replica["url"] for replica in state["replicas"]]
            assert all(httpx.get(url + "/health").status_code == 200 for url in engines)
            second.popen.send_signal(signal.SIGINT)
            with suppress(ProcessLookupError):
                second.popen.send_signal(signal.SIGINT)  # an impatient one
            assert second.popen.wait(60) == 0, second.text()
        assert [_answers(url) for url in engines] == [False, False]
        assert first.popen.poll() is None
        first.kill()  # and one that is killed leaves no engine either
        wait_for("its router ended", lambda: not _answers(_url(first, "dashboard")))


def _answers(url: str) -> bool:
    try:
        httpx.get(url, timeout=2)
    except httpx.HTTPError:
        return False
    return True
