"""How a dispatch's one end is made."""

import pytest

from trioroute.policy.commands import Fail, Finish
from trioroute.proxy.ending import Ending


def test_nothing_said_is_the_routers_own_doing() -> None:
    told = Ending(7, 1000).command(1500)
    assert told == Finish(
        at_ms=1500,
        dispatch=7,
        outcome="unknown",
        cause="none",
        blame="router",
        status=None,
        ttfb_ms=None,
        duration_ms=500,
        bytes=0,
    )


def test_what_moves_on_is_a_failure_without_an_outcome() -> None:
    ending = Ending(7, 1000, moves_on=True, status=503, retry_after_ms=2000)
    ending.settle("unknown", "status", "none")
    assert ending.command(1500) == Fail(
        at_ms=1500, dispatch=7, cause="status", blame="none", status=503, retry_after_ms=2000
    )


def test_all_it_knows_is_told() -> None:
    ending = Ending(7, 1000, status=200, first_byte_ms=1100, response="digest")
    ending.tap.feed(b'{"usage":{"prompt_tokens":3,"completion_tokens":4}}')
    ending.settle("ok", "none", "none")
    told = ending.command(1500)
    assert isinstance(told, Finish)
    assert (told.outcome, told.status, told.ttfb_ms, told.duration_ms) == ("ok", 200, 100, 500)
    assert (told.bytes, told.prompt_tokens, told.completion_tokens) == (51, 3, 4)
    assert told.response == "digest"


def test_time_that_steps_back_is_no_negative_time() -> None:
    told = Ending(7, 1000, first_byte_ms=900).command(500)
    assert isinstance(told, Finish)
    assert (told.ttfb_ms, told.duration_ms) == (0, 0)


@pytest.mark.parametrize(
    ("client_gone", "stalled", "expected"),
    [
        (True, False, ("client_gone", "cancelled", "client")),
        (True, True, ("client_stall", "timeout", "client")),
        (False, False, ("shutdown", "shutdown", "router")),
        (False, True, ("shutdown", "shutdown", "router")),
    ],
)
def test_why_it_was_cancelled(
    client_gone: bool, stalled: bool, expected: tuple[str, str, str]
) -> None:
    ending = Ending(7, 1000)
    ending.cancelled(client_gone=client_gone, stalled=stalled)
    assert (ending.outcome, ending.cause, ending.blame) == expected


def test_what_was_settled_stays() -> None:
    ending = Ending(7, 1000)
    ending.settle("ok", "none", "none")
    ending.cancelled(client_gone=True, stalled=False)
    ending.failed()
    assert ending.outcome == "ok"


def test_an_error_of_the_routers_own_is_no_shutdown() -> None:
    ending = Ending(7, 1000)
    ending.failed()
    ending.cancelled(client_gone=False, stalled=False)
    assert (ending.outcome, ending.cause, ending.blame) == ("unknown", "none", "router")
