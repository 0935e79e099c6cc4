"""The demo tells no address before somebody answers there."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from trioroute.demo import run


async def test_the_addresses_are_told_once_both_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered: list[str] = []
    told: list[str] = []

    async def start(*_: Any, task_status: trio.TaskStatus[Any]) -> None:
        task_status.started(SimpleNamespace(returncode=-9))

    async def accepts(address: str, *_: object) -> None:
        answered.append(address)

    async def ended(_: object) -> None:
        pass

    def say(text: str) -> None:
        told.append(text)
        assert len(answered) == 2

    for name, stub in (("run_until_cancelled", start), ("accepts", accepts), ("ended", ended)):
        monkeypatch.setattr(run, name, stub)
    monkeypatch.setattr(run, "say", say)
    options = run.DemoOptions(tmp_path, 1, 0, 0, traffic=False)
    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="killed")):
        await run._with_router(options, [])
    (text,) = told
    assert all(f"http://{address}" in text for address in answered)
