"""The router upon a log of another release, and upon one written under another clock."""

import contextlib
import gzip
import signal
import sqlite3
import sys
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from eventlog import Head
from eventlog.segments import list_segments
from tests.e2e.fleet import Fleet, RouterProcess, chat, wait_for
from tests.replay.test_golden_logs import GOLDEN, HEADS

COMPLETIONS = "/v1/chat/completions"
HOUR_S = 3600

STEPPED = """
import runpy, sys, time
step_s, wall, wall_ns = int(sys.argv[1]), time.time, time.time_ns
time.time, time.time_ns = lambda: wall() + step_s, lambda: wall_ns() + step_s * 10**9
sys.argv = sys.argv[4:]
runpy.run_module("trioroute", run_name="__main__", alter_sys=True)
"""
"""Runs ``python -m trioroute ARGUMENTS`` with the wall clock stepped by so many seconds."""


def stepped(hours: int) -> tuple[str, ...]:
    return (sys.executable, "-c", STEPPED, str(hours * HOUR_S))


def ask(router: RouterProcess, session: str = "s") -> httpx.Response:
    asked, headers = chat(max_tokens=1), {"x-session-id": session}
    answer = httpx.post(router.url + COMPLETIONS, json=asked, headers=headers, timeout=10)
    assert answer.status_code == 200, answer.text
    return answer


def number_of(answer: httpx.Response) -> int:
    return int(answer.headers["x-trioroute-decision"].removeprefix("r1/"))


@pytest.mark.parametrize("release", HEADS)
def test_a_log_of_every_earlier_release_is_continued_explained_and_proved(
    fleet: Fleet, release: str
) -> None:
    log = fleet.directory / "log"
    log.mkdir()
    packed = (GOLDEN / f"{release}.sqlite.gz").read_bytes()
    (log / "log-1.sqlite").write_bytes(gzip.decompress(packed))
    head = Head.parse(HEADS[release][0])
    fleet.engine()
    router = fleet.router().ready()
    wait_for("the line", lambda: f"continued after event {head.seq}" in router.text())
    assert [replica["name"] for replica in router.state()["replicas"]] == ["gpu1"]
    assert number_of(ask(router)) > head.seq
    with contextlib.closing(sqlite3.connect(f"file:{log}/log-1.sqlite?mode=ro", uri=True)) as base:
        select = "SELECT max(version) FROM events WHERE kind = 'Dispatched' AND seq <= ?"
        (old,) = base.execute(select, (head.seq,)).fetchone()
    told = httpx.get(f"{router.admin}/decisions/r1/{old}", timeout=10).json()
    assert told["verified"] is True
    assert router.stop() == 0
    router.verify()
    proved = router.replay("--decision", f"r1/{old}", "--json")
    assert proved.returncode == 0, proved.stderr


@pytest.mark.timeout(200)  # four starts of real processes
def test_a_clock_that_steps_by_hours_back_and_forth_stops_nothing_and_proves(fleet: Fleet) -> None:
    one, _ = fleet.engine(), fleet.engine()
    router = fleet.router(
        under=stepped(6), eject_cooldown="2s", eject_cooldown_max="4s", probing_window="300ms"
    ).ready()
    wait_for("all live", lambda: {r["state"] for r in router.state()["replicas"]} == {"LIVE"})
    homes = {f"s{n}": ask(router, f"s{n}").headers["x-trioroute-replica"] for n in range(6)}
    last = number_of(ask(router))
    one.kill()
    wait_for("out", lambda: router.replica("gpu1")["state"] == "EJECTED")
    stayed = [session for session, home in homes.items() if home == "gpu2"]
    assert stayed
    for hours in (-6, 5, -1):
        router.kill()
        router.again(under=stepped(hours))
        router.ready()
        assert router.replica("gpu1")["cooldown_s"] <= 4, "no clock prolongs it"
        answer = ask(router, f"at {hours}")
        assert number_of(answer) > last
        last = number_of(answer)
        if hours == -6:
            assert {ask(router, s).headers["x-trioroute-reason"] for s in stayed} == {
                "affinity:session"
            }, "a pin that was used in what is the future now still holds"
    one.start()
    wait_for("back in traffic", lambda: router.replica("gpu1")["state"] == "LIVE")
    ask(router)
    router.quiet()
    assert "3 restarts" in router.verify()
    assert router.text().count("behind the last event of the log") == 2
    with contextlib.closing(sqlite3.connect(router.log / "log-1.sqlite")) as base:
        rows = base.execute("SELECT kind, at_ms FROM events ORDER BY seq").fetchall()
    back = [kind for (_, before), (kind, at_ms) in pairwise(rows) if at_ms < before]
    assert back == ["Started", "Started"], "within a run time goes forward, whatever the clock does"
    assert router.stop(signal.SIGTERM) == 0


@pytest.mark.timeout(200)
def test_a_clock_a_day_ahead_closes_segments_and_the_right_one_goes_on(fleet: Fleet) -> None:
    fleet.engine()
    router = fleet.router(log_segment_age="12h").ready()
    ask(router)
    for hours, segments in ((30, 2), (0, 3), (60, 4)):
        assert router.stop() == 0
        router.again(under=stepped(hours))
        router.ready()
        ask(router)
        assert len(list_segments(Path(router.log))) == segments, hours
    assert router.stop() == 0
    assert "3 restarts" in router.verify()
