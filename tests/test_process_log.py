"""Standard error through a thread of its own: never waits, keeps order, counts what it drops."""

import contextlib
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from trioroute.process_log import Outlet

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        with contextlib.suppress(OSError):  # the test closed it
            os.close(descriptor)


def all_of(reader: int, ends_with: bytes) -> bytes:
    read = b""
    while not read.endswith(ends_with):
        read += os.read(reader, 65536)
    return read


def test_lines_come_whole_in_order_and_a_begun_one_with_its_end(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlet = Outlet(pipe[1])
    outlet.write("one\ntw")
    outlet.write("o\n")
    monkeypatch.setattr("sys.stderr", outlet)
    click.echo("three \ud800", err=True)
    print("four", end="", file=outlet)
    assert outlet.drain(5)
    assert all_of(pipe[0], b"four\n") == b"one\ntwo\nthree \\ud800\nfour\n"


def test_a_pipe_that_nobody_reads_holds_nobody_and_what_was_dropped_is_told_in_its_place(
    pipe: Pipe,
) -> None:
    outlet = Outlet(pipe[1], pending_bytes=100_000)
    for number in range(2000):
        outlet.write(f"{number:099}\n")
    assert not outlet.drain(0.05)
    first = os.read(pipe[0], 100)
    assert first == b"%099d\n" % 0
    got = b""

    def reads() -> None:
        nonlocal got
        got = all_of(pipe[0], b"last\n")

    reader = threading.Thread(target=reads)
    reader.start()
    assert outlet.drain(10)
    outlet.write("last\n")
    reader.join(10)
    expected, dropped = 1, 0
    for line in got.splitlines()[:-1]:
        if b"dropped from the process log" in line:
            dropped += int(line.split()[-2])
            expected += int(line.split()[-2])
        else:
            assert int(line) == expected
            expected += 1
    assert expected == 2000
    assert 0 < dropped <= 1000, "it holds 1000 lines, and what the pipe holds comes on top"


def test_a_reader_that_went_away_costs_lines_and_nothing_else(pipe: Pipe) -> None:
    outlet = Outlet(pipe[1])
    os.close(pipe[0])
    for _ in range(3):
        outlet.write("nobody\n")
        assert outlet.drain(5)


def test_a_full_disk_loses_lines_that_are_told_when_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "err"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    outlet = Outlet(descriptor)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6, limits[1]))
    try:
        for line in ("one", "two", "three"):
            outlet.write(line + "\n")
            assert outlet.drain(5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    outlet.write("four\n")
    assert outlet.drain(5)
    one, torn, told, four = path.read_bytes().splitlines()
    assert (one, torn, four) == (b"one", b"tw", b"four")
    assert b"dropped from the process log, not taken by standard error: 2 lines" in told
    os.close(descriptor)


def test_a_pipe_that_does_not_block_is_waited_for(pipe: Pipe) -> None:
    os.set_blocking(pipe[1], False)
    outlet = Outlet(pipe[1])
    text = "".join(f"{number:0999}\n" for number in range(200))
    outlet.write(text)
    assert all_of(pipe[0], b"199\n") == text.encode()
    assert outlet.drain(5)


def test_no_text_is_no_line() -> None:
    with pytest.raises(TypeError):
        Outlet(2).write(b"bytes")  # type: ignore[arg-type]  # how click finds out what a stream is
