"""Fixtures of the whole test tree."""

import atexit
import inspect
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import certifi
import httpx
import hypothesis
import pytest

from tests.rig import MakeRig, Rig, settings

_END = "-----END CERTIFICATE-----\n"


def _trust_one_authority() -> None:
    """No test asks the internet: `httpx.get` reads 140 authorities, 50 ms of CPU each time it is
    called, and so does every process that a test starts. One is enough."""
    first = Path(certifi.where()).read_text().split(_END)[0] + _END
    with tempfile.NamedTemporaryFile("w", prefix="authority-", suffix=".pem", delete=False) as file:
        file.write(first)
    os.environ["SSL_CERT_FILE"] = file.name
    atexit.register(os.unlink, file.name)


def _compile_once() -> None:
    """Containers often set PYTHONDONTWRITEBYTECODE; then each of the thousand processes that the
    tests start compiles trioroute again, a fifth of what its start takes."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def _answer_ctrl_c() -> None:
    """A shell without job control starts what it puts in the background with SIGINT ignored, and
    every process that a test starts would inherit that: none of them would hear a Ctrl-C."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _wait_longer_for_answers() -> None:
    """httpx waits 5 s unless it is told otherwise; on a busy machine an answer may take that long,
    and where a test means a limit of the client's it names it. All of httpx shares this object."""
    shared = inspect.signature(httpx.get).parameters["timeout"].default
    for phase in ("connect", "read", "write", "pool"):
        setattr(shared, phase, 30.0)


def _give_examples_their_time() -> None:
    """Hypothesis fails a test for examples that come or run slowly; a busy machine is no fault."""
    quiet = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile("here", deadline=None, suppress_health_check=quiet)
    hypothesis.settings.load_profile("here")


_trust_one_authority()
_compile_once()
_answer_ctrl_c()
_wait_longer_for_answers()
_give_examples_their_time()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes share the tests, each begins with one of the few that ask for many
    minutes: none is left alone with such a test at the end."""

    def is_long(item: pytest.Item) -> bool:
        marker = item.get_closest_marker("timeout")
        return marker is not None and marker.args[0] > 200

    long = [item for item in items if is_long(item)]
    rest = [item for item in items if not is_long(item)]
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    ends = [len(rest) * n // processes for n in range(processes + 1)]
    items[:] = [
        item
        for n in range(processes)
        for item in (*long[n::processes], *rest[ends[n] : ends[n + 1]])
    ]


@pytest.fixture
def make_rig() -> Iterator[MakeRig]:
    """Rigs with settings by section; at the end each one's log must fold to its live state."""
    made: list[Rig] = []

    def make(**sections: dict[str, object]) -> Rig:
        made.append(Rig(settings(**sections)))
        return made[-1]

    yield make
    for rig in made:
        rig.verify()


@pytest.fixture
def rig(make_rig: MakeRig) -> Rig:
    """A rig with the default rules and no replica yet."""
    return make_rig()
