"""A router whose standard error is not read, was closed, or lost its reader: it serves and ends."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.e2e.fleet import Fleet, RouterProcess, chat
from tests.ports import free_port

COMPLETIONS = "/v1/chat/completions"
LEAST_PIPE = 4096


def into(where: Path | str) -> tuple[str, ...]:
    """Run the router with its standard error there."""
    return ("sh", "-c", f'exec "$@" 2>{where}', "sh")


def small_pipe(path: Path) -> int:
    """A named pipe of 4 KiB; its reading end, which is not read."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, LEAST_PIPE)
    return reader


def make_it_talk(router: RouterProcess) -> None:
    """More lines than the pipe holds; each reload is one."""
    with httpx.Client() as kept:
        for _ in range(100):
            kept.post(router.admin + "/reload", timeout=20).raise_for_status()


@pytest.mark.skipif(sys.platform != "linux", reason="sets the size of a pipe, which is Linux'")
def test_a_process_log_that_nobody_reads_stops_neither_the_traffic_nor_the_end(
    fleet: Fleet, tmp_path: Path
) -> None:
    reader = small_pipe(tmp_path / "err")
    fleet.engine()
    router = fleet.router(
        under=into(tmp_path / "err"), server_settle="0s", server_graceful_timeout="60s"
    ).ready()
    make_it_talk(router)
    answer = httpx.post(router.url + COMPLETIONS, json=chat(max_tokens=1), timeout=20)
    assert answer.status_code == 200
    router.popen.send_signal(signal.SIGTERM)
    assert router.popen.wait(40) == 0, "the grace is 60 s"
    said = os.read(reader, 2 * LEAST_PIPE)
    os.close(reader)
    assert b"reload: unchanged" in said
    assert said.endswith(b"\n"), "a line is written as a whole or not at all"
    router.verify()


@pytest.mark.skipif(sys.platform != "linux", reason="sets the size of a pipe, which is Linux'")
def test_a_router_that_cannot_start_ends_although_nobody_reads_why(tmp_path: Path) -> None:
    reader = small_pipe(tmp_path / "err")
    writer = os.open(tmp_path / "err", os.O_WRONLY)
    os.write(writer, b"x" * LEAST_PIPE)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"--listen=127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-m", "trioroute", "serve", "--replica=http://127.0.0.1:9"]
        command += [listen, f"--admin=127.0.0.1:{free_port()}", f"--log={tmp_path / 'log'}"]
        assert subprocess.run(command, stderr=writer, timeout=100, check=False).returncode == 1
    os.close(reader)
    os.close(writer)


def test_a_reader_that_went_away_ends_no_router(fleet: Fleet, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "err")
    reader = os.open(tmp_path / "err", os.O_RDONLY | os.O_NONBLOCK)
    fleet.engine()
    router = fleet.router(under=into(tmp_path / "err"), server_settle="0s").ready()
    os.close(reader)
    make_it_talk(router)
    answer = httpx.post(router.url + COMPLETIONS, json=chat(max_tokens=1), timeout=20)
    assert answer.status_code == 200
    assert router.stop() == 0
    router.verify()


def test_with_standard_descriptors_closed_no_message_is_written_into_the_log(
    fleet: Fleet,
) -> None:
    fleet.engine()
    router = fleet.router(
        under=into("&- >&- <&-"), server_settle="0s", server_access_log="stderr"
    ).ready()
    for name in (0, 1, 2):
        assert Path(f"/proc/{router.popen.pid}/fd/{name}").readlink() == Path(os.devnull)
    make_it_talk(router)
    answer = httpx.post(router.url + COMPLETIONS, json=chat(max_tokens=1), timeout=20)
    assert answer.status_code == 200
    assert router.stop() == 0
    assert router.text() == ""
    router.verify()
