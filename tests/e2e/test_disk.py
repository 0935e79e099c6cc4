"""The router on a disk in trouble, and on one whose plug is pulled: real calls fail, by preload."""

import errno
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from eventlog.check import check_log
from eventlog.reading import SqliteReader
from tests.e2e.fleet import Fleet, RouterProcess, chat, status_of, wait_for
from tests.e2e.test_kill9 import Users
from tests.preloaded import as_the_disk_has_it, preloaded
from trioroute.replay.incident import tell_incident
from trioroute.replay.read import Source

HERE = Path(__file__).parent
PLUG = HERE.parent / "eventlog" / "plug.c"
FAILURES = {
    "full": f"write {errno.ENOSPC}",
    "broken": f"write {errno.EIO}",
    "full within a write": f"half {errno.ENOSPC}",
    "broken within a write": f"half {errno.EIO}",
    "cannot sync": f"sync {errno.EIO}",
    "read-only": f"all {errno.EROFS}",
}

UNREADABLE = f"read {errno.EIO}"


def ask(router: RouterProcess) -> httpx.Response:
    asked = chat(max_tokens=1)
    return httpx.post(router.url + "/v1/chat/completions", json=asked, timeout=10)


def dispatched(log: Path) -> set[str]:
    """Every decision that the files of a log hold."""
    found = set()
    for path in log.glob("log-*.sqlite"):
        with closing(sqlite3.connect(path)) as base:
            rows = base.execute("SELECT version FROM events WHERE kind = 'Dispatched'").fetchall()
            found |= {f"r1/{version}" for (version,) in rows}
    return found


def on_a_disk(fleet: Fleet, trouble: Path, on_failure: str = "refuse") -> RouterProcess:
    library = preloaded(HERE / "disk.c", fleet.directory)
    disk = (f"LD_PRELOAD={library}", f"DISK_LOG={fleet.directory / 'log'}")
    under = ("env", *disk, f"DISK_TROUBLE={trouble}")
    return fleet.router(under=under, log_gate_wait="300ms", log_on_failure=on_failure).ready()


@pytest.mark.timeout(200)
def test_replay_counts_each_request_of_a_full_disk_once(fleet: Fleet, tmp_path: Path) -> None:
    fleet.engine()
    trouble = tmp_path / "trouble"
    router = on_a_disk(fleet, trouble)
    statuses = [ask(router).status_code for _ in range(3)]
    trouble.write_text(FAILURES["full"])
    while statuses.count(503) < 4:
        statuses.append(ask(router).status_code)
    trouble.unlink()
    wait_for("ready again", lambda: status_of(router.admin + "/readyz") == 200)
    statuses.append(ask(router).status_code)
    assert router.stop() == 0
    with SqliteReader.open(router.log) as reader:
        source = Source(reader)
        told = tell_incident(source, 1, source.last().at_ms)
    total = told.total
    assert (total.requests, total.failed, total.refused) == (len(statuses), 0, 4)
    assert {one.got for one in told.harmed} == {"503 log_stalled"}
    assert sum(one.decision is not None for one in told.harmed) == 1, "later ones got no replica"
    assert "log stalled" in [one.name for one in told.phases]
    assert told.first_cause is not None
    assert told.first_cause.kind == "log"


@pytest.mark.timeout(200)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_router_refuses_while_its_disk_fails_and_goes_on_by_itself(
    fleet: Fleet, tmp_path: Path, failure: str
) -> None:
    fleet.engine()
    trouble = tmp_path / "trouble"
    router = on_a_disk(fleet, trouble)
    told = [ask(router).headers["x-trioroute-decision"] for _ in range(3)]
    for _ in range(2):
        trouble.write_text(FAILURES[failure])
        wait_for("refusal", lambda: ask(router).status_code == 503)
        refused = ask(router)
        assert refused.json()["error"]["code"] == "log_stalled"
        assert refused.headers["retry-after"]
        assert httpx.get(router.admin + "/readyz").status_code == 503
        trouble.unlink()
        wait_for("ready again", lambda: status_of(router.admin + "/readyz") == 200)
        answer = ask(router)
        assert answer.status_code == 200
        told.append(answer.headers["x-trioroute-decision"])
    assert "the event log cannot be written, requests get 503" in router.text()
    wait_for("the end of it told", lambda: "the event log is written again" in router.text())
    router.quiet()
    assert router.stop() == 0
    router.verify()
    assert check_log(router.log).bad == []
    assert set(told) <= dispatched(router.log)


@pytest.mark.timeout(200)
def test_a_router_that_serves_on_a_full_disk_tells_of_it_with_a_gap(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.engine()
    trouble = tmp_path / "trouble"
    router = on_a_disk(fleet, trouble, on_failure="serve")
    trouble.write_text(FAILURES["full"])
    wait_for("trouble", lambda: "responses go out unlogged" in router.text())
    assert [ask(router).status_code for _ in range(4)] == [200] * 4
    assert httpx.get(router.admin + "/readyz").status_code == 200
    trouble.unlink()
    wait_for("the log written again", lambda: "is written again" in router.text())
    answer = ask(router)
    router.quiet()
    assert router.stop() == 0
    assert "1 gap:" in router.verify()
    assert answer.headers["x-trioroute-decision"] in dispatched(router.log)


def test_a_start_on_a_disk_that_takes_nothing_ends_in_words(fleet: Fleet, tmp_path: Path) -> None:
    fleet.engine().ready()
    trouble = tmp_path / "trouble"
    router = on_a_disk(fleet, trouble)
    assert router.stop() == 0
    for failing in (FAILURES["full"], FAILURES["read-only"], UNREADABLE):
        trouble.write_text(failing)
        router.start()
        assert router.popen.wait(60) == 1
        assert "Traceback" not in router.text()
        assert "Error: " in router.text().splitlines()[-1]
        assert str(router.log) in router.text().splitlines()[-1]
    trouble.unlink()
    router.start()
    assert ask(router.ready()).status_code == 200


@pytest.mark.timeout(200)
def test_the_plug_takes_no_decision_that_a_client_was_told_of(fleet: Fleet, tmp_path: Path) -> None:
    for _ in range(2):
        fleet.engine("--decode-tokens-per-s=2000")
    library, kept = preloaded(PLUG, tmp_path), tmp_path / "kept"
    kept.mkdir()
    plug = (f"LD_PRELOAD={library}", f"PLUG_LOG={fleet.directory / 'log'}", f"PLUG_KEPT={kept}")
    router = fleet.router(under=("env", *plug), log_segment_bytes="100KiB").ready()
    users = Users(router)
    with ThreadPoolExecutor(4) as pool:
        for number in range(4):
            pool.submit(users.run, number)
        try:
            wait_for("some traffic", lambda: len(users.seen) >= 150, within_s=60)
            time.sleep(0.05)
            router.kill()
        finally:
            users.stop.set()
    told = {decision for decision, _ in users.seen}
    router.log.rename(tmp_path / "what the page cache had")
    after = as_the_disk_has_it(kept, router.log)
    assert dispatched(after) >= told
    router.again(under=())
    router.ready()
    assert ask(router).status_code == 200
    router.quiet()
    assert router.stop() == 0
    router.verify()


def test_a_start_upon_a_write_ahead_log_that_was_changed_says_what_it_costs(fleet: Fleet) -> None:
    fleet.engine()
    router = fleet.router().ready()
    for _ in range(5):
        assert ask(router).status_code == 200
    router.quiet()
    router.kill()
    wal = router.log / "log-1.sqlite-wal"
    data = bytearray(wal.read_bytes())
    at = len(data) - 3 * 4096
    data[at] ^= 1
    wal.write_bytes(data)
    (bad,) = check_log(router.log).bad
    assert bad.part == str(wal)
    router.start()
    router.ready()
    assert f"the write-ahead log {wal} breaks off at byte {bad.offset}" in router.text()
    assert ask(router).status_code == 200
    router.quiet()
    assert router.stop() == 0
    router.verify()
    assert check_log(router.log).bad == []
