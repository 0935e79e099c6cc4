"""The end of a router, step by step."""

import json
import signal
from pathlib import Path

import pytest
import trio

from tests.field.site import site
from tests.field.stub import Stub
from tests.proxy.replies import reply
from tests.proxy.scripted import Peer
from tests.proxy.serving import Reply, eventually
from trioroute import events as e
from trioroute.signals import _end


@pytest.mark.parametrize("grace", ["300ms", "60s"], ids=["grace over", "second signal"])
async def test_who_waits_in_line_is_told_of_the_end_before_all_is_cancelled(
    grace: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It never ran, so it may be sent to another router; an end without a word would not say so."""
    free, answers = trio.Event(), list[Reply]()

    async def when_free(peer: Peer) -> None:
        await peer.request()
        await free.wait()
        await peer.send(reply())

    async with (
        site(
            tmp_path,
            caplog,
            Stub(when_free),
            server__graceful_timeout=grace,
            admission__max_in_flight=1,
            admission__max_wait="60s",
        ) as made,
        trio.open_nursery() as nursery,
    ):

        async def ask() -> None:
            answers.append(await made.ask())

        for _ in range(3):
            nursery.start_soon(ask)
        await eventually(lambda: len(made.parts.desk.line) == 2)
        patience, hurry = trio.CancelScope(), trio.CancelScope()
        if grace == "60s":
            patience.cancel()
        with trio.fail_after(20):
            await _end(made.parts, patience, hurry, signal.SIGINT)
        assert hurry.cancel_called
        assert made.parts.desk.running == 1, "all but the one that runs have their answer"
        free.set()
        await eventually(lambda: len(answers) == 3)
        assert [answer.status for answer in answers] == [503, 503, 200]
        assert json.loads(answers[0].body)["error"]["code"] == "shutting_down"
        assert answers[0].headers["retry-after"] == "1"
        refused = await made.events(e.Refused)
        assert [(one.code, one.waited_ms > 0) for one in refused] == [("shutting_down", True)] * 2
