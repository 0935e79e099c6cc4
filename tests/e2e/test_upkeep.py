"""Segments, retention and archive of a running router: what a reload changes, what they do then."""

import subprocess
import sys
from pathlib import Path

import httpx

from eventlog.segments import list_segments
from tests.e2e.fleet import Fleet, RouterProcess, chat, wait_for

SMALL = """\
[log]
segment_bytes = "64KiB"
retain_bytes = "200KiB"
archive = "cp {{segment}} {}/"
"""
MANY_BYTES = 400 << 10


def series(router: RouterProcess, name: str) -> float:
    lines = httpx.get(router.admin + "/metrics").text.splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


def fill(router: RouterProcess, size_bytes: int) -> None:
    with httpx.Client(timeout=10) as kept:
        while sum(file.path.stat().st_size for file in list_segments(router.log)) < size_bytes:
            for _ in range(50):
                asked = kept.post(router.url + "/v1/chat/completions", json=chat(max_tokens=1))
                assert asked.status_code == 200


def test_a_reload_makes_segments_smaller_archives_them_and_lets_the_oldest_go(
    fleet: Fleet, tmp_path: Path
) -> None:
    engine = fleet.engine("--decode-tokens-per-s=5000", "--prefill-tokens-per-s=1000000")
    file, archive = tmp_path / "t.toml", tmp_path / "archive"
    archive.mkdir()
    replica = f'[[replica]]\nname = "gpu1"\nurl = "{engine.url}"\n'
    file.write_text(replica)
    router = fleet.router(config=file, log_sync="normal").ready()
    fill(router, MANY_BYTES)
    assert [segment.first for segment in list_segments(router.log)] == [1]
    file.write_text(SMALL.format(archive) + replica)
    told = httpx.post(router.admin + "/reload").json()
    assert (told["result"], told["restart_needed"]) == ("applied", [])
    wait_for("the big one closed", lambda: len(list_segments(router.log)) > 1)
    # A snapshot at the border, then retention: each looks every 5 s, folding takes what it takes.
    wait_for("the big one gone", lambda: list_segments(router.log)[0].first > 1, within_s=45)
    assert (archive / "log-1.sqlite").stat().st_size >= MANY_BYTES, "nothing goes before that"
    wait_for("metrics", lambda: series(router, upkeep("bytes_total", "retention")) >= MANY_BYTES)
    assert series(router, upkeep("bytes_total", "archive")) >= MANY_BYTES
    assert series(router, upkeep("waiting", "archive")) == 0
    for task in ("snapshot", "archive", "retention"):
        assert series(router, upkeep("last_success_timestamp_seconds", task)) > 1e9
        assert series(router, upkeep("runs_total", task, 'result="ok",')) >= 1
        assert series(router, upkeep("runs_total", task, 'result="failed",')) == 0
    assert f"retired {router.log / 'log-1.sqlite'}: events 1 to " in router.text()
    assert router.stop() == 0
    router.verify()


def upkeep(name: str, task: str, label: str = "") -> str:
    return f'trioroute_log_upkeep_{name}{{{label}task="{task}"}}'


def test_a_live_log_is_not_copied_onto_itself(fleet: Fleet) -> None:
    fleet.engine("--decode-tokens-per-s=5000", "--prefill-tokens-per-s=1000000")
    router = fleet.router(log_sync="normal").ready()

    def ask() -> None:
        asked = httpx.post(router.url + "/v1/chat/completions", json=chat(max_tokens=1))
        assert asked.status_code == 200

    ask()
    trioroute = [sys.executable, "-m", "trioroute"]
    segment = router.log / "log-1.sqlite"
    for words in (
        ["log", "archive", router.log, router.log],
        ["log", "archive", router.log, router.log / "sub"],
        ["log", "archive", router.log, segment, "--one-file"],
        ["log", "export", router.log, "--output", segment],
        ["replay", router.log, "--incident", "-1h", "--html", segment],
    ):
        command = [*trioroute, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stderr
        assert "give a place outside of the log's directory" in done.stderr
        ask()
    assert router.stop() == 0
    router.verify()


def test_a_router_on_a_copy_of_a_log_with_a_retired_beginning_has_its_pins_and_cooldowns(
    fleet: Fleet,
) -> None:
    for _ in range(3):
        fleet.engine("--decode-tokens-per-s=5000", "--prefill-tokens-per-s=1000000")
    router = fleet.router(log_sync="normal", log_segment_bytes="64KiB", eject_cooldown="5m").ready()
    homes = {number: router.home(f"s{number}") for number in range(12)}
    fleet.engines[2].kill()
    homes = {number: router.home(f"s{number}") for number in homes}
    wait_for("the eject", lambda: router.replica("gpu3")["state"] == "EJECTED")
    fill(router, MANY_BYTES // 2)
    for words in (["snapshot"], ["prune", "--keep", "1KiB"]):
        run_log(words[0], router.log, *words[1:])
    assert list_segments(router.log)[0].first > 1
    copy = router.log.parent / "copy"
    told = run_log("archive", router.log, copy)
    assert f"not copied: {router.log / 'key'}" in told
    gone, pins = router.replica("gpu3"), router.state()["pins"]
    router.kill()
    (copy / "key").write_bytes((router.log / "key").read_bytes())
    router.log = copy
    router.verify()
    run_log("verify", copy)
    router.start()
    back = router.ready().replica("gpu3")
    assert (back["state"], back["eject_count"]) == ("EJECTED", gone["eject_count"])
    assert 0 < back["cooldown_s"] <= gone["cooldown_s"]
    assert router.state()["pins"] == pins
    assert {number: router.home(f"s{number}") for number in homes} == homes


def run_log(*words: object) -> str:
    command = [sys.executable, "-m", "trioroute", "log", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
