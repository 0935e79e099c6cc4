"""A task of upkeep that the system fails is told of once for each reason, and goes on."""

import errno
import logging

import pytest
import trio
from trio.testing import MockClock

from eventlog.errors import LogError
from trioroute.upkeep import Deeds, keep_up

NO_FILES = OSError(errno.EMFILE, "Too many open files")


async def test_what_fails_is_told_once_for_each_reason_and_begun_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [NO_FILES, NO_FILES, LogError("a bad log"), NO_FILES]

    async def task() -> None:
        if not failures:
            await trio.sleep(1000)
            raise NO_FILES
        raise failures.pop(0)

    deeds = Deeds()
    with caplog.at_level(logging.ERROR), trio.move_on_after(1100):
        await keep_up("looking", task, deeds, again_s=10)
    assert deeds.failed == 5
    told = f"looking failed, tried again later: {NO_FILES}"
    assert caplog.messages == [told, "looking failed, tried again later: a bad log", told, told]


async def test_a_fault_of_the_program_is_not_hidden() -> None:
    async def task() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await keep_up("looking", task)
