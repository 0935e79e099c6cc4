"""Faults: what may be asked for, and how they are counted."""

import pytest
import trio

from trioroute.engine.faults import NO_FAULTS, FaultDesk, FaultError, parse_faults


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([], "JSON object"),
        ({"statsu": 500}, "did you mean status?"),
        ({"zzz": 1}, "known: "),
        ({"status": 200}, "status = 200: must be a status from 400 to 599"),
        ({"status": "500"}, "must be a number"),
        ({"hang": 1}, "hang = 1: must be true or false"),
        ({"count": 0}, "a whole number from 1"),
        ({"cut_after": 1.5}, "a whole number from 0"),
        ({"slow_factor": 0}, "a factor above 0"),
        ({"metrics_names": "sglang"}, '"vllm" or "unknown"'),
        ({"metrics_delay_ms": -1}, "0 or more"),
        ({"refuse": True}, "refuse needs refuse_s"),
        ({"cut_fin": True}, "cut_fin needs cut_after"),
    ],
)
def test_a_wrong_fault_is_named_with_its_remedy(asked: object, told: str) -> None:
    with pytest.raises(FaultError) as raised:
        parse_faults(asked)
    assert told in str(raised.value)


def test_only_what_is_in_force_is_shown() -> None:
    assert parse_faults({"status": 503, "hang": False}).shown() == {"status": 503}
    assert NO_FAULTS.shown() == {}


async def test_a_count_hits_the_next_n_generations_and_leaves_the_lasting_faults() -> None:
    desk = FaultDesk()
    desk.set(status=500, retry_after=2, count=2, metrics_delay_ms=5)
    assert [desk.take().status for _ in range(3)] == [500, 500, None]
    assert desk.now.shown() == {"metrics_delay_ms": 5}


async def test_waiting_for_a_fault_ends_with_the_change_that_brings_it() -> None:
    desk = FaultDesk()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.until, lambda faults: faults.sleep)
        await trio.testing.wait_all_tasks_blocked()
        desk.set(freeze=True)
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 1
        desk.set(sleep=True)
        await trio.testing.wait_all_tasks_blocked()
        assert not nursery.child_tasks
        nursery.cancel_scope.cancel()
