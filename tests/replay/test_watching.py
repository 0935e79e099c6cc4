"""``--watch`` in words: which settings changed, and why the log refused somebody."""

import json

import pytest

from eventlog.memory import MemoryStore
from tests.replay.rig import source_of, store_of
from tests.rig import Rig, settings
from trioroute.cli.replay_live import line_of, watch
from trioroute.policy.commands import Configure, Refuse
from trioroute.replay.read import Source


def watched(rig: Rig, after: int, *, as_data: bool = False) -> None:
    """What came to the log behind its first rows."""
    store = MemoryStore()
    store_of(rig.log.entries[:after], store)
    parts = iter((rig.log.entries[after:],))

    def wait() -> None:
        part = next(parts, None)
        if part is None:
            raise KeyboardInterrupt
        store_of(part, store)

    watch(Source(store), as_data=as_data, wait=wait)


def test_changed_settings_are_named_with_what_they_were(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rig = Rig().live("a")
    after = len(rig.log.entries)
    rig.do(Configure(at_ms=rig.at_ms, settings=settings(eject={"cooldown_ms": 45_000})))
    rig.do(Configure(at_ms=rig.at_ms, settings=rig.state.settings))
    watched(rig, after)
    _, first, same = capsys.readouterr().out.splitlines()
    assert first.endswith("other settings in force: eject.cooldown 30s -> 45s, since the start")
    assert same.endswith("settings in force, as before, by start")
    watched(rig, after, as_data=True)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["changed"] for one in told] == [["eject.cooldown 30s -> 45s"], []]
    source = source_of(rig)
    row = source.reader.read(after, 1)[0]
    line = line_of(row, source.event(row))
    assert line.endswith("settings in force, by start"), "nothing is known of what was before"


def test_a_refusal_for_the_log_says_what_that_is(capsys: pytest.CaptureFixture[str]) -> None:
    rig = Rig().live("a")
    after = len(rig.log.entries)
    rig.do(Refuse(at_ms=rig.at_ms, request_id="q", code="log_stalled", model="m"))
    rig.do(Refuse(at_ms=rig.at_ms, request_id="q", code="overloaded", model="m"))
    watched(rig, after)
    _, stalled, overloaded = capsys.readouterr().out.splitlines()
    assert stalled.endswith(
        "q refused: log_stalled, the event log took nothing within log.gate_wait: see its disk; "
        "the process log names the error"
    )
    assert overloaded.endswith("q refused: overloaded")
