"""Discovery by a real GPUStack server; the instances it lists are simulated replicas.

A GPUStack without a worker starts nothing: the tests report, through its own API, that instances
which its own controller made are running at our ports, as a worker would.
"""

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from eventlog.sqlite import SqliteReader
from tests.e2e.fleet import Fleet, RouterProcess, chat, fleet_in, wait_for
from tests.real.figures import Figures
from tests.real.gpustack import Admin, GpuStack, Row
from trioroute import events as e
from trioroute.replay.read import Source

pytestmark = [pytest.mark.real_gpustack, pytest.mark.timeout(600)]

KEY = "GPUSTACK_KEY"


@pytest.fixture(scope="module")
def server(figures: Figures) -> Iterator[GpuStack]:
    # Not in pytest's directory: where we are root, PostgreSQL runs as a user who may not go there.
    with tempfile.TemporaryDirectory(prefix="gpustack-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        server = GpuStack(Path(directory))
        try:
            server.start()
            yield server
        finally:
            server.stop()
            times = ", ".join(f"{each:.1f}" for each in server.ready_s)
            figures.lines.append(f"GPUStack: seconds from start to ready: {times}")


@pytest.fixture(scope="module")
def admin(server: GpuStack) -> Iterator[Admin]:
    admin = Admin.of(server)
    with closing(admin.client):
        yield admin


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with fleet_in(tmp_path) as made:
        yield made


def router_of(fleet: Fleet, server: GpuStack, key: str, model: str) -> RouterProcess:
    file = fleet.directory / "trioroute.toml"
    file.write_text(
        f'[discovery.gpustack]\nurl = "{server.url}"\ntoken_env = "{KEY}"\nmodel = "{model}"\n'
    )
    router = RouterProcess(
        fleet.directory,
        [],
        env={KEY: key, "TRIOROUTE_SCRAPE_INTERVAL": "200ms"},
        config=file,
    )
    fleet.routers.append(router)

    def up() -> bool:
        assert router.popen.poll() is None, router.text()
        return httpx.get(router.admin + "/healthz").status_code == 200

    wait_for("the admin port", up, 60)
    return router


def live(router: RouterProcess) -> list[str]:
    return sorted(r["name"] for r in router.state()["replicas"] if r["state"] == "LIVE")


def failing(router: RouterProcess) -> str:
    found: str = router.state()["discovery"]["gpustack"]["failing"]
    return found


def test_instances_that_run_take_traffic_and_leave_when_they_are_gone(
    server: GpuStack, admin: Admin, fleet: Fleet, figures: Figures
) -> None:
    engines = [fleet.engine().ready(), fleet.engine().ready()]
    instances = admin.model("tiny", 2)
    assert {one["state"] for one in instances} != {"running"}
    router = router_of(fleet, server, admin.key, "tiny")
    assert router.state()["replicas"] == [], "nobody that does not run"
    for instance, engine in zip(instances, engines, strict=True):
        admin.runs(instance, engine.port)
    names = sorted(one["name"] for one in instances)
    wait_for("both live", lambda: live(router) == names)
    told = httpx.post(router.url + "/v1/chat/completions", json=chat())
    assert (told.status_code, told.headers["x-trioroute-replica"] in names) == (200, True)
    admin.runs(instances[0], engines[0].port, state="error", state_message="it broke")
    wait_for("one left", lambda: live(router) == [instances[1]["name"]])
    admin.runs(instances[0], engines[0].port)
    wait_for("both again", lambda: live(router) == names)
    admin.delete(instances[1])
    wait_for("one gone", lambda: live(router) == [instances[0]["name"]])
    rows = [one for one in admin.rows("/v2/model-instances") if one["model_name"] == "tiny"]
    figures.lines.append(f"GPUStack's rows after a deletion: {[one['state'] for one in rows]}")
    page = httpx.get(router.admin + "/metrics").text
    assert router.stop() == 0
    figures.add(page, router.verify())
    assert {(one.by, one.why) for one in joins(router)} == {("discovery", "gpustack: listed")}


def joins(router: RouterProcess) -> list[e.ReplicaJoined]:
    with SqliteReader.open(router.log) as reader:
        source = Source(reader)
        found = [source.event(record) for record in source.records()]
    return [event for event in found if isinstance(event, e.ReplicaJoined)]


def test_an_outage_keeps_the_replicas_and_a_wrong_key_is_named(
    server: GpuStack, admin: Admin, fleet: Fleet
) -> None:
    engine = fleet.engine().ready()
    (instance,) = admin.model("kept", 1)
    admin.runs(instance, engine.port)
    router = router_of(fleet, server, admin.key, "kept")
    wait_for("live", lambda: live(router) == [instance["name"]])
    server.stop()
    wait_for("the outage", lambda: "refused" in failing(router))
    assert live(router) == [instance["name"]]
    assert httpx.post(router.url + "/v1/chat/completions", json=chat()).status_code == 200
    server.start()
    wait_for("it is over", lambda: failing(router) == "", 60)
    assert live(router) == [instance["name"]]
    # One line for each kind of failure while it starts, not one for each of two dozen tries.
    assert 1 <= router.text().count("the last known replicas stay") <= 6
    assert router.stop() == 0
    wrong = router_of(fleet, server, "gpustack_0123456789abcdef_" + "0" * 32, "kept")
    wait_for("refused", lambda: "refuses the token (401)" in wrong.text())
    assert "gpustack_" not in wrong.text().replace("discovery.gpustack.token_env", "")


def test_other_models_and_parts_of_groups_are_left_out(
    server: GpuStack, admin: Admin, fleet: Fleet
) -> None:
    engines = [fleet.engine().ready(), fleet.engine().ready()]
    wanted: list[Row] = admin.model("wanted", 1)
    other = admin.model("other", 1)
    admin.runs(wanted[0], engines[0].port)
    admin.runs(other[0], engines[1].port)
    router = router_of(fleet, server, admin.key, "wanted")
    wait_for("live", lambda: live(router) == [wanted[0]["name"]])
    assert [one["name"] for one in router.state()["replicas"]] == [wanted[0]["name"]]
