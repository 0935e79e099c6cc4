"""What a service manager is told, over a real datagram socket."""

import socket
from pathlib import Path

import pytest

from tests.e2e.fleet import Fleet
from trioroute.supervisor import READY, STOPPING, tell_supervisor


@pytest.fixture
def listener(tmp_path: Path) -> socket.socket:
    inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    inbox.bind(str(tmp_path / "notify"))
    inbox.settimeout(20)
    return inbox


def test_words_go_to_the_socket_of_the_environment(listener: socket.socket, tmp_path: Path) -> None:
    with listener:
        assert tell_supervisor(
            READY, "STATUS=well", environ={"NOTIFY_SOCKET": str(tmp_path / "notify")}
        )
        assert listener.recv(1000) == b"READY=1\nSTATUS=well"


@pytest.mark.parametrize("address", ["", "nonsense", "/nowhere/at/all"])
def test_without_a_supervisor_nothing_happens(address: str) -> None:
    assert not tell_supervisor(READY, environ={"NOTIFY_SOCKET": address})


def test_an_abstract_address_is_understood() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.bind("\0trioroute-test-notify")
        assert tell_supervisor(READY, environ={"NOTIFY_SOCKET": "@trioroute-test-notify"})
        assert inbox.recv(1000) == b"READY=1"


def test_the_router_says_when_it_serves_and_when_it_ends(
    listener: socket.socket, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listener:
        fleet.engine()
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        router = fleet.router()
        ready = listener.recv(1000).decode().splitlines()
        assert ready[0] == READY
        assert router.url in ready[1]
        assert router.state()["replicas"]
        assert router.stop() == 0
        assert listener.recv(1000).decode() == STOPPING
