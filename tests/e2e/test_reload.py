"""Changing a running router: SIGHUP, the admin port, good files and bad ones."""

import hashlib
import json
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from eventlog.sqlite import SqliteReader
from tests.e2e.fleet import Engine, Fleet, RouterProcess, chat, status_of, wait_for
from trioroute import events as e
from trioroute.replay.read import Source

COMPLETIONS = "/v1/chat/completions"


def written(path: Path, *engines: Engine, more: str = "", by_rename: bool = False) -> str:
    """Write the file; the digest by which the router names it."""
    tables = "".join(
        f'[[replica]]\nname = "{engine.name}"\nurl = "{engine.url}"\n' for engine in engines
    )
    text = more + tables
    if by_rename:
        other = path.with_suffix(".new")
        other.write_text(text)
        other.rename(path)
    else:
        path.write_text(text)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def names(router: RouterProcess) -> list[str]:
    return sorted(replica["name"] for replica in router.state()["replicas"])


def events(router: RouterProcess, *kinds: type[Any]) -> list[Any]:
    if router.popen.poll() is None:
        decided = router.state()["position"]
        wait_for("it is on disk", lambda: router.state()["durable_position"] >= decided)
    reader = SqliteReader.open(router.log)
    try:
        source = Source(reader)
        found = [source.event(record) for record in source.records()]
    finally:
        reader.close()
    return [event for event in found if isinstance(event, kinds)]


def reload(router: RouterProcess, why: str = "") -> httpx.Response:
    return httpx.post(router.admin + "/reload", params={"why": why} if why else {}, timeout=10)


def pinned(router: RouterProcess, session: str) -> httpx.Response:
    answer = httpx.post(
        router.url + COMPLETIONS, json=chat(max_tokens=1), headers={"x-session-id": session}
    )
    assert answer.status_code == 200, answer.text
    return answer


def test_sighup_adds_and_removes_replicas_under_a_stream_that_goes_on(
    fleet: Fleet, tmp_path: Path
) -> None:
    one, two = fleet.engine("--decode-tokens-per-s=20"), fleet.engine()
    file = tmp_path / "t.toml"
    first = written(file, one)
    router = fleet.router(config=file).ready()
    assert router.state()["config"]["digest"] == first
    bodies: list[str] = []

    def stream() -> None:
        asked = chat(stream=True, max_tokens=60)
        bodies.append(httpx.post(router.url + COMPLETIONS, json=asked, timeout=20).text)

    thread = threading.Thread(target=stream)
    thread.start()
    wait_for("the stream running", lambda: router.replica(one.name)["in_flight"] == 1)
    second = written(file, two, more="[policy]\nslack = { session = 3 }\n", by_rename=True)
    router.popen.send_signal(signal.SIGHUP)
    wait_for("the new fleet", lambda: names(router) == [two.name])
    wait_for("ready again", lambda: status_of(router.admin + "/readyz") == 200)
    assert pinned(router, "s").headers["x-trioroute-replica"] == two.name
    assert router.state()["config"]["digest"] == second
    assert not bodies
    thread.join(20)
    assert bodies[0].endswith("data: [DONE]\n\n")
    *_, configured = events(router, e.Configured)
    assert (configured.by, configured.digest) == ("signal", second)
    assert configured.settings.policy.slack.session == 3
    (left,) = events(router, e.ReplicaLeft)
    assert (left.replica, left.by) == (one.name, "signal")
    assert events(router, e.ReplicaJoined)[-1].by == "signal"
    assert router.stop() == 0
    router.verify()


def test_a_bad_file_changes_nothing_and_the_same_good_one_works_after_it(
    fleet: Fleet, tmp_path: Path
) -> None:
    one, two = fleet.engine(), fleet.engine()
    file = tmp_path / "t.toml"
    good = written(file, one)
    router = fleet.router(config=file).ready()
    before = router.state()["position"]
    bad = [
        "[[replica]\nurl = 3",
        f'[[replica]]\nurl = "{one.url}"\n[[replica]]\nurl = "ftp://nowhere"\n',
        "",
        "# all commented out\n",
        '[policy]\nname = "soft-sticky"\n',
        f'[scrape]\nintervall = 3\n[[replica]]\nurl = "{two.url}"\n',
    ]
    for count, text in enumerate(bad, 1):
        file.write_text(text)
        answer = reload(router)
        assert answer.status_code == 422, text
        assert answer.json()["problems"], text
        assert names(router) == [one.name]
        assert router.state()["config"]["digest"] == good
        time.sleep(1.05)
        page = httpx.get(router.admin + "/metrics").text
        assert f'trioroute_config_reloads_total{{result="rejected"}} {count}.0' in page
        assert "trioroute_config_reload_successful 0.0" in page
    assert "ftp" in router.text()
    assert "intervall" in router.text()
    assert written(file, one) == good
    assert reload(router).json()["result"] == "unchanged"
    changed = written(file, one, two)
    told = reload(router, "gpu2 is here").json()
    assert (told["result"], told["digest"]) == ("applied", changed)
    assert told["changed"] == ["replica gpu2 joined"]
    assert names(router) == [one.name, two.name]
    joined = events(router, e.ReplicaJoined)[-1]
    assert (joined.by, joined.why) == ("admin", "gpu2 is here")
    kinds = [type(event).__name__ for event in events(router, e.Configured, e.ReplicaLeft)]
    assert kinds == ["Configured", "Configured"]
    assert router.state()["position"] > before


def test_keys_that_wait_for_a_restart_are_named_and_keep_their_value(
    fleet: Fleet, tmp_path: Path
) -> None:
    one = fleet.engine()
    file = tmp_path / "t.toml"
    written(file, one)
    router = fleet.router(config=file).ready()
    more = '[server]\nmax_body_bytes = "1MiB"\nreveal = false\n[timeouts]\nfirst_byte = "7s"\n'
    written(file, one, more=more)
    told = reload(router).json()
    assert told["restart_needed"] == ["server.max_body_bytes"]
    assert router.state()["config"]["restart_needed"] == ["server.max_body_bytes"]
    assert "x-trioroute-replica" not in pinned(router, "s").headers
    in_force = events(router, e.Configured)[-1].settings
    assert in_force.timeouts.first_byte_ms == 7000
    assert in_force.server.max_body_bytes == 64 << 20
    what = ["server.reveal true -> false", "timeouts.first_byte 10m -> 7s"]
    assert told["changed"] == what
    assert (
        router.text().split("reload: applied ")[1].splitlines()[0].endswith(f": {', '.join(what)}")
    )


def test_a_changed_address_starts_anew_and_pins_follow_the_name(
    fleet: Fleet, tmp_path: Path
) -> None:
    one, two = fleet.engine(), fleet.engine()
    file = tmp_path / "t.toml"
    written(file, one, two)
    router = fleet.router(config=file).ready()
    wait_for("both live", lambda: {r["state"] for r in router.state()["replicas"]} == {"LIVE"})
    where = {f"s{n}": pinned(router, f"s{n}").headers["x-trioroute-replica"] for n in range(6)}
    assert set(where.values()) == {one.name, two.name}
    moved = Engine(fleet.directory, one.name, "--model=tiny")
    fleet.engines.append(moved)
    moved.ready()
    old_port = one.port
    one.port, one.url = moved.port, moved.url
    written(file, one, two)
    assert reload(router).json()["result"] == "applied"
    seen = httpx.get(f"http://127.0.0.1:{old_port}/metrics").text
    wait_for("live there", lambda: router.replica(one.name)["state"] == "LIVE")
    assert {s: pinned(router, s).headers["x-trioroute-replica"] for s in where} == where
    time.sleep(0.6)
    after = httpx.get(f"http://127.0.0.1:{old_port}/metrics").text
    assert tokens(after) == tokens(seen), "no request went to the old address"


def tokens(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("vllm:generation_tokens_total")]


def test_swapped_addresses_swap_traffic(fleet: Fleet, tmp_path: Path) -> None:
    one, two = fleet.engine(), fleet.engine()
    file = tmp_path / "t.toml"
    written(file, one, two)
    router = fleet.router(config=file).ready()
    wait_for("both live", lambda: {r["state"] for r in router.state()["replicas"]} == {"LIVE"})
    where = {f"s{n}": pinned(router, f"s{n}").headers["x-trioroute-replica"] for n in range(6)}
    was = {one.name: one.url, two.name: two.url}
    one.url, two.url = two.url, one.url
    written(file, one, two)
    assert reload(router).json()["result"] == "applied"
    assert {r["name"]: r["url"] for r in router.state()["replicas"]} == {
        one.name: one.url,
        two.name: two.url,
    }
    wait_for("both live", lambda: {r["state"] for r in router.state()["replicas"]} == {"LIVE"})
    for name, session in {name: session for session, name in where.items()}.items():
        other = next(url for named, url in was.items() if named != name)
        before = {url: generated(url) for url in was.values()}
        assert pinned(router, session).headers["x-trioroute-replica"] == name
        assert {url for url in was.values() if generated(url) != before[url]} == {other}
    assert not events(router, e.Ejected)


def generated(url: str) -> list[str]:
    return tokens(httpx.get(url + "/metrics").text)


def test_replicas_of_the_admin_port_outlive_reloads_and_restarts(
    fleet: Fleet, tmp_path: Path
) -> None:
    one, two = fleet.engine("--decode-tokens-per-s=20"), fleet.engine()
    two.ready()
    file = tmp_path / "t.toml"
    written(file, one)
    router = fleet.router(config=file).ready()
    told = {"name": two.name, "url": two.url}
    assert httpx.post(router.admin + "/replicas", json=told).status_code == 201
    assert httpx.post(router.admin + "/replicas", json=told).status_code == 200
    other = {"name": "again", "url": two.url}
    assert httpx.post(router.admin + "/replicas", json=other).status_code == 409
    wait_for("live", lambda: router.replica(two.name)["state"] == "LIVE")
    assert reload(router).json()["result"] == "unchanged"
    assert router.stop() == 0
    router.start()
    router.ready()
    assert names(router) == [one.name, two.name]
    with httpx.stream(
        "POST", router.url + COMPLETIONS, json=chat(stream=True, max_tokens=40), timeout=20
    ) as answer:
        there = answer.headers["x-trioroute-replica"]
        gone = httpx.delete(f"{router.admin}/replicas/{there}").json()
        assert (gone["state"], gone["in_flight"]) == ("DRAINING", 1)
        assert "[DONE]" in answer.read().decode()
    wait_for("left", lambda: there not in names(router))
    left = events(router, e.ReplicaLeft)[-1]
    assert (left.replica, left.by, left.why) == (there, "admin", "drained")
    assert router.stop() == 0
    router.verify()


@pytest.mark.parametrize("verb", ["eject", "remove"])
def test_an_eject_by_hand_counts_and_a_removal_is_no_amnesty(fleet: Fleet, verb: str) -> None:
    one = fleet.engine()
    fleet.engine()
    router = fleet.router(eject_cooldown="60s", eject_cooldown_max="300s").ready()
    httpx.post(f"{router.admin}/replicas/{one.name}/eject", params={"why": "too hot"})
    seen = router.replica(one.name)
    assert (seen["state"], seen["eject_count"]) == ("EJECTED", 1)
    (ejected,) = events(router, e.Ejected)
    assert (ejected.cause, ejected.by, ejected.why) == ("none", "admin", "too hot")
    if verb == "remove":
        httpx.delete(f"{router.admin}/replicas/{one.name}", params={"now": ""})
        assert one.name not in names(router)
        told = {"name": one.name, "url": one.url}
        assert httpx.post(router.admin + "/replicas", json=told).json()["state"] == "EJECTED"
        assert router.replica(one.name)["eject_count"] == 1
    asked = json.loads(httpx.post(router.url + COMPLETIONS, json=chat(max_tokens=1)).text)
    assert asked["choices"]
