"""A router that lives long: segments, snapshots, archive and retention under load and kill -9."""

import json
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from eventlog.segments import list_segments
from eventlog.snapshots import Snapshots
from tests.e2e.fleet import Fleet, RouterProcess, chat, wait_for

CAP_BYTES = 400 << 10


def log_command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trioroute", "log", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


class Load:
    """Requests until stopped; those that fail while the router is dead do not count."""

    def __init__(self, router: RouterProcess) -> None:
        self._router = router
        self.stop = threading.Event()
        self.decisions: list[str] = []

    def run(self, number: int) -> None:
        with httpx.Client(timeout=10) as client:
            while not self.stop.is_set():
                try:
                    answer = client.post(
                        self._router.url + "/v1/chat/completions",
                        json=chat(max_tokens=1),
                        headers={"x-session-id": f"s{number}"},
                    )
                except httpx.HTTPError:
                    self.stop.wait(0.02)
                    continue
                if answer.status_code == 200:
                    self.decisions.append(answer.headers["x-trioroute-decision"])


@pytest.mark.timeout(240)
def test_the_log_stays_small_whole_and_explained_over_restarts(
    fleet: Fleet, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    for _ in range(2):
        fleet.engine("--decode-tokens-per-s=5000", "--prefill-tokens-per-s=1000000")
    router = fleet.router(
        log_segment_bytes="100KiB",
        log_retain_bytes=str(CAP_BYTES),
        log_archive=f"cp {{segment}} {archive}/",
        log_sync="normal",
    ).ready()
    load = Load(router)
    with ThreadPoolExecutor(4) as pool:
        for number in range(4):
            pool.submit(load.run, number)
        try:
            for rounds in range(2):
                segments = 3 + 3 * rounds
                wait_for(
                    "segments with snapshots in the archive",
                    lambda segments=segments: len(list(archive.glob("log-*.sqlite"))) >= segments,  # type: ignore[misc]  # a default binds the loop's value
                    within_s=60,
                )
                router.kill()
                router.start()
                router.ready()
        finally:
            load.stop.set()
    router.quiet()
    wait_for("retention", lambda: list_segments(router.log)[0].first > 1, within_s=90)
    wait_for("a snapshot", lambda: Snapshots(router.log).seqs(), within_s=60)
    last = load.decisions[-1]
    told = httpx.get(f"{router.admin}/decisions/{last}", timeout=20).json()
    assert told["verified"] is True
    assert router.stop() == 0
    checked = log_command("verify", router.log, "--json")
    assert checked.returncode == 0, checked.stdout
    assert json.loads(checked.stdout)["bad"] == []
    router.verify()
    # The archive and what is kept are one log, from the first event on.
    for file in list_segments(router.log):
        shutil.copy(file.path, archive)
    whole = log_command("verify", archive, "--json")
    assert whole.returncode == 0, whole.stdout + whole.stderr
    assert json.loads(whole.stdout)["begins_at"] == 1


def test_serve_goes_on_without_its_log_and_says_so_afterwards(fleet: Fleet) -> None:
    fleet.engine("--decode-tokens-per-s=5000")
    router = fleet.router(log_on_failure="serve", log_gate_wait="200ms").ready()

    def ask() -> httpx.Response:
        return httpx.post(router.url + "/v1/chat/completions", json=chat(max_tokens=1), timeout=10)

    assert ask().status_code == 200
    file = router.log / "log-1.sqlite"
    away = file.rename(router.log / "away")
    wait_for("trouble", lambda: "responses go out unlogged" in router.text())
    answers = [ask() for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200] * 5
    assert httpx.get(router.admin + "/readyz").status_code == 200
    assert "trioroute_responses_unlogged_total 5.0" in httpx.get(router.admin + "/metrics").text
    away.rename(file)
    wait_for("the log written again", lambda: "is written again" in router.text())
    assert ask().status_code == 200
    router.quiet()
    wait_for("the gap", lambda: '"kind":"Gap"' in log_command("export", router.log).stdout)
    (gap,) = [
        json.loads(line)["body"]
        for line in log_command("export", router.log, "--kind", "Gap").stdout.splitlines()
    ]
    assert (gap["lost"], gap["unlogged"]) == (0, 5)
    told = router.replay("--decision", answers[0].headers["x-trioroute-decision"])
    assert "verified" in told.stdout
    assert "1 gap:" in router.verify()
