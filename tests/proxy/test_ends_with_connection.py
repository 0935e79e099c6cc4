"""Event streams that only the end of the replica's connection ends: where they were cut shows in
their last event alone."""

import pytest
import trio

from tests.proxy.replies import DONE, error, reply, token
from tests.proxy.scripted import Peer, Script, always
from tests.proxy.whole import chat, whole

pytestmark = pytest.mark.usefixtures("either_way")

STREAMED = chat(stream=True)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def ends(*pieces: bytes, head: bytes = HEAD) -> Script:
    """Send each piece by itself, and close right behind the last."""

    async def script(peer: Peer) -> None:
        await peer.request()
        for at, piece in enumerate(pieces):
            if at:
                await trio.sleep(0.05)
            await peer.send((b"" if at else head) + piece)

    return script


LASTS = [
    (b'data: {"cho', "upstream_cut"),
    (token("b").rstrip(b"\n"), "upstream_cut"),
    (token("b")[:-1], "upstream_cut"),
    (token("b").replace(b"\n", b"\r\n")[:-2], "upstream_cut"),
    (DONE, "ok"),
    (DONE.rstrip(), "ok"),
    (token("b"), "ok"),
    (token("b").replace(b"\n\n", b"\n\r\n"), "ok"),
    (error(500).rstrip(), "upstream_error"),
]


@pytest.mark.parametrize("apart", [True, False], ids=["apart", "together"])
@pytest.mark.parametrize("begin", [token("a"), token("a") * 400], ids=["short", "long"])
@pytest.mark.parametrize(("last", "outcome"), LASTS, ids=[repr(last[-12:]) for last, _ in LASTS])
async def test_it_is_whole_only_at_the_end_of_an_event(
    begin: bytes, last: bytes, outcome: str, apart: bool
) -> None:
    async with whole(ends(begin, last) if apart else ends(begin + last)) as rig:
        if outcome == "upstream_cut":
            _, body = await rig.broken(STREAMED)
            assert body.startswith(begin + last)
            assert b'"upstream_cut"' in body
        else:
            assert (await rig.ask(STREAMED)).body == begin + last
        released = await rig.released()
        assert (released.outcome, released.bytes) == (outcome, len(begin + last))


@pytest.mark.parametrize("pieces", [(token("a")[:9],), (b"data", b": {"), (b": pi",)], ids=str)
async def test_one_that_is_cut_in_its_first_event_is_tried_elsewhere(
    pieces: tuple[bytes, ...],
) -> None:
    async with whole(ends(*pieces), always(reply(b"{}"))) as rig:
        answer = await rig.ask(STREAMED)
        assert (answer.status, answer.headers["x-trioroute-replica"]) == (200, "b")
        failed, _ = await rig.ends()
        assert (failed.cause, failed.blame, failed.status) == ("fin", "replica", None)


async def test_that_is_502_where_nobody_else_is() -> None:
    async with whole(ends(b"data: {")) as rig:
        answer = await rig.ask(STREAMED)
        assert answer.status == 502
        assert b"closed in its first event" in answer.body
        released = await rig.released()
        assert (released.outcome, released.cause, released.bytes) == ("upstream_error", "fin", 0)


async def test_without_an_event_it_is_empty_and_an_error_status_is_no_stream() -> None:
    async with whole(ends(b"")) as rig:
        assert (await rig.ask(STREAMED)).body == b""
        assert (await rig.released()).outcome == "upstream_empty"
    async with whole(ends(b'{"error":', head=HEAD.replace(b"200 OK", b"400 Bad"))) as rig:
        assert (await rig.ask(STREAMED)).body == b'{"error":'
        assert (await rig.released()).outcome == "client_error"
