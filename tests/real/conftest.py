"""Two real vLLM replicas, started once, and routers before them.

Nothing here runs unless TRIOROUTE_REAL_VLLM is set: it needs 3.5 GB of disk, 6 GiB of
memory and minutes. ``./tools/test --real-vllm`` sets vLLM up and sets it. TRIOROUTE_REAL_GPUSTACK
and ``--real-gpustack`` are the same for a real GPUStack server (1 GB, PostgreSQL).
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import openai
import pytest

from tests.e2e.fleet import RouterProcess, wait_for
from tests.real.figures import Figures
from tests.real.replica import Replica
from tests.real.talk import client_of

# Taken out, for the routers that the tests start know no such variable and would refuse it.
WANTED = {
    name: bool(os.environ.pop(f"TRIOROUTE_{name.upper()}", ""))
    for name in ("real_vllm", "real_gpustack")
}
if not any(WANTED.values()):
    collect_ignore_glob = ["test_*.py"]

FIGURES = pytest.StashKey[Figures]()

MakeRouter = Callable[..., RouterProcess]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file that is named on the command line is collected in any case."""
    for item in items:
        for name, wanted in WANTED.items():
            if not wanted and item.get_closest_marker(name):
                how = f"needs the real thing: run ./tools/test --{name.replace('_', '-')}"
                item.add_marker(pytest.mark.skip(how))


@pytest.fixture(scope="session")
def figures(request: pytest.FixtureRequest) -> Figures:
    return request.config.stash.setdefault(FIGURES, Figures())


@pytest.fixture
def seen(figures: Figures) -> list[str]:
    """Lines for the end of the run: what real vLLM did, and how long it took."""
    return figures.lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    figures = terminalreporter.config.stash.get(FIGURES, None)
    if figures is not None:
        terminalreporter.section("seen with the real thing")
        for line in figures.told():
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def started(
    tmp_path_factory: pytest.TempPathFactory, figures: Figures
) -> Iterator[tuple[Replica, Replica]]:
    directory = tmp_path_factory.mktemp("vllm")
    replicas: list[Replica] = []
    try:
        for name in ("vllm1", "vllm2"):
            replica = Replica(directory, name)
            replicas.append(replica)  # at once: the second may fail to start
        yield replicas[0], replicas[1]
    finally:
        for replica in replicas:
            replica.kill()
            times = ", ".join(f"{each:.1f}" for each in replica.ready_s)
            figures.lines.append(f"{replica.name}: seconds from start to ready: {times}")


@pytest.fixture
def replicas(started: tuple[Replica, Replica]) -> Iterator[tuple[Replica, Replica]]:
    """Both up and idle, whatever the test before did to them."""
    for replica in started:
        if not replica.up:
            replica.start()
    for replica in started:
        replica.ready()
        wait_for(f"{replica.name} idle", replica.idle, 30)
    yield started
    for replica in started:
        if replica.leaving:
            replica.kill()


@pytest.fixture
def make_router(
    replicas: tuple[Replica, Replica], tmp_path: Path, figures: Figures
) -> Iterator[MakeRouter]:
    """A router before both; keywords are settings, ``timeouts_idle="2s"``. At the end its log must
    verify and nothing may be in flight."""
    made: list[RouterProcess] = []

    def make(**settings: str) -> RouterProcess:
        short = {"scrape_interval": "300ms", "scrape_timeout": "2s"}
        env = {f"TRIOROUTE_{key.upper()}": each for key, each in {**short, **settings}.items()}
        router = RouterProcess(tmp_path, replicas, env=env)
        made.append(router)
        router.ready()
        wait_for("both LIVE", lambda: all(r["state"] == "LIVE" for r in router.state()["replicas"]))
        return router

    try:
        yield make
        for router in made:
            if router.popen.poll() is not None:
                continue  # it never came up, which the test told already
            router.quiet()
            figures.add(httpx.get(router.admin + "/metrics").text, router.verify())
    finally:
        for router in made:
            router.kill()


@pytest.fixture
def router(make_router: MakeRouter) -> RouterProcess:
    return make_router()


@pytest.fixture
def client(router: RouterProcess) -> Iterator[openai.OpenAI]:
    with client_of(router.url) as client:
        yield client
