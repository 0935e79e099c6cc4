"""Clients that hang up as soon as a stream said ``[DONE]``, as the official one does: they had it
all, although the replica ends its body a moment later."""

import pytest

from tests.proxy.serving import client
from tests.proxy.whole import DONE, chunk, error, request, says, stream_head, token, whole


@pytest.mark.parametrize(
    "last, outcome",
    [
        (chunk(token("b", "stop")) + chunk(DONE), "ok"),
        (chunk(token("b", "abort")) + chunk(DONE), "upstream_cut"),
        (chunk(error(500)) + chunk(DONE), "upstream_error"),
        (chunk(token("b", "stop") + b"data: [DONE]"), "client_gone"),
        (chunk(token("b", "[DONE]")), "client_gone"),
    ],
    ids=["whole", "abort", "error", "half a word", "quoted"],
)
async def test_the_answer_decides_the_outcome_if_its_last_word_was_passed_on(
    last: bytes, outcome: str
) -> None:
    async with whole(says(stream_head(), chunk(token("a")), last, hang=True)) as rig:
        async with client(rig.port) as raw:
            await raw.send(request())
            await raw.until(b"[DONE]")
            await raw.until(b"\n")
        assert (await rig.released()).outcome == outcome


@pytest.mark.parametrize(
    "last, outcome", [(error(500), "upstream_error"), (token("b"), "client_gone")]
)
async def test_a_client_that_hangs_up_at_an_error_event_did_not_end_the_stream(
    last: bytes, outcome: str
) -> None:
    async with whole(says(stream_head(), chunk(token("a")), chunk(last), hang=True)) as rig:
        async with client(rig.port) as raw:
            await raw.send(request())
            await raw.until(last)
        assert (await rig.released()).outcome == outcome
