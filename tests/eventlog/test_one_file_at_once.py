"""Two make one file at the same place: one of them may end, or begin, at any step of the other."""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from eventlog import sqlite_one_file
from eventlog.conformance import some_entries
from eventlog.sqlite import SqliteReader, SqliteStore
from eventlog.sqlite_one_file import copy_into_one_file
from eventlog.sqlite_opening import uri_of
from eventlog.targets import TargetTaken

ROWS = 7


class FailsOnPurpose(Exception):
    """What ends a copy in these tests."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with closing(SqliteStore.open(tmp_path / "log", sync="normal")) as store:
        store.append("a", some_entries(ROWS), 0)
    return tmp_path / "log"


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


class Stop:
    """The thread beside stops in the middle of its copy until it is let go on."""

    def __init__(self, patch: pytest.MonkeyPatch, *, fails: bool = False) -> None:
        self.is_there, self._goes_on = threading.Event(), threading.Event()

        def stopped(*words: Any) -> str:
            if threading.current_thread() is threading.main_thread():
                return uri_of(*words)
            self.is_there.set()
            assert self._goes_on.wait(60)
            if fails:
                raise FailsOnPurpose
            return uri_of(*words)

        patch.setattr(sqlite_one_file, "uri_of", stopped)

    def end(self, other: "Future[int]") -> None:
        self._goes_on.set()
        other.exception(60)


def before(
    patch: pytest.MonkeyPatch, where: ModuleType, call: str, do: Callable[[], None], name: str = ""
) -> None:
    """Do it once, before this thread's next call of that kind, with a path of that name."""
    real, left = getattr(where, call), [do]

    def called(*words: Any, **named: Any) -> Any:
        meant = threading.current_thread() is threading.main_thread()
        if left and meant and (not name or Path(words[0]).name == name):
            left.pop()()
        return real(*words, **named)

    patch.setattr(where, call, called)


def is_whole(target: Path) -> bool:
    with closing(SqliteReader.open(target)) as copy:
        return copy.head().seq == ROWS


STEPS = [(os, "mkdir"), (os, "open"), (fcntl, "flock"), (time, "sleep")]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(("where", "step"), STEPS)
def test_who_was_second_finds_the_copy_or_makes_it(
    log: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    beside: ThreadPoolExecutor,
    where: ModuleType,
    step: str,
    fails: bool,
) -> None:
    """The first ends, well or not, before this step of the second."""
    target = tmp_path / "copy"
    stop = Stop(monkeypatch, fails=fails)
    first = beside.submit(copy_into_one_file, log, target, {})
    assert stop.is_there.wait(60)
    before(monkeypatch, where, step, lambda: stop.end(first))
    if fails:
        assert copy_into_one_file(log, target, {}) == ROWS
        assert isinstance(first.exception(0), FailsOnPurpose)
    else:
        with pytest.raises(FileExistsError, match=r"copy is there already: give a name"):
            copy_into_one_file(log, target, {})
        assert first.result(0) == ROWS
    assert is_whole(target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "log"]


@pytest.mark.parametrize(
    ("step", "name"), [("unlink", "copy"), ("unlink", "owner.lock"), ("rmdir", "copy.part")]
)
def test_who_fails_takes_nothing_away_from_who_began_meanwhile(
    log: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    beside: ThreadPoolExecutor,
    step: str,
    name: str,
) -> None:
    """The second begins before the first removes this."""
    target = tmp_path / "copy"
    stop = Stop(monkeypatch)
    began: list[Future[int]] = []
    gather = sqlite_one_file._gather

    def begin() -> None:
        second = beside.submit(copy_into_one_file, log, target, {})
        began.append(second)
        while not (second.done() or stop.is_there.wait(0.01)):
            pass

    def fail_here(files: Any, draft: Path, views: Any) -> int:
        if threading.current_thread() is not threading.main_thread():
            return gather(files, draft, views)
        draft.write_bytes(b"begun")
        before(monkeypatch, os, step, begin, name)
        raise FailsOnPurpose

    monkeypatch.setattr(sqlite_one_file, "_gather", fail_here)
    with pytest.raises(FailsOnPurpose):
        copy_into_one_file(log, target, {})
    (second,) = began
    stop.end(second)
    error = second.exception(0)
    assert error is None or isinstance(error, TargetTaken), error
    assert error is not None or is_whole(target)
    assert sorted(path.name for path in tmp_path.iterdir()) == (
        ["log"] if error else ["copy", "log"]
    )


def test_what_lay_there_before_is_not_removed(log: Path, tmp_path: Path) -> None:
    place = tmp_path / "copy.part"
    place.mkdir()
    (place / "notes").write_text("of somebody else")
    (place / "copy.new").write_bytes(b"of a copy that was killed")
    assert copy_into_one_file(log, tmp_path / "copy", {}) == ROWS
    assert [path.name for path in place.iterdir()] == ["notes"]
