"""HTTP/2: what comes of a body behind the refusal of its request."""

from collections.abc import Callable
from itertools import count

import h2.errors
import pytest
import trio

from tests.proxy.asker import Asker, asking
from tests.proxy.serving import echo, serving
from trioroute.proxy.serving import refusing
from trioroute.proxy.serving.limits import ServerLimits

LIMITS = ServerLimits(body_bytes=100)


async def test_the_rest_of_a_refused_body_harms_no_other_request() -> None:
    async with serving(echo, LIMITS) as server, asking(server) as asker:
        for _ in range(5):
            refused = await asker.ask("/", b"x" * 16_000)
            await asker.read_whole(refused)
            assert asker.heads[refused][":status"] == "413"
        kept = await asker.ask("/kept")
        await asker.read_whole(kept)
        assert asker.heads[kept][":status"] == "200"


async def sends_on(asker: Asker, stream: int, until: Callable[[], bool]) -> int:
    """Sends a body on, as long as it may; how much."""
    piece = b"x" * 16_000
    sent = 0

    def fits() -> bool:
        return until() or asker.h2.local_flow_control_window(stream) >= len(piece)

    while not until():
        await asker.read(fits)
        if not until():
            asker.h2.send_data(stream, piece)
            sent += len(piece)
            await asker.raw.send(asker.h2.data_to_send())
    return sent


@pytest.mark.parametrize("limit", ["bytes", "time"])
async def test_who_goes_on_sending_a_refused_body_is_asked_to_stop(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an error, behind the whole answer: RFC 9113 section 8.1."""
    most = 400_000 if limit == "bytes" else 1 << 30
    monkeypatch.setattr(refusing, "LINGER_BYTES", most)
    monkeypatch.setattr(refusing, "LINGER_S", 60 if limit == "bytes" else 0.3)
    async with serving(echo, LIMITS) as server, asking(server) as asker:
        refused = await asker.ask("/", b"x" * 16_000, more=True)
        await asker.read_whole(refused)
        with trio.fail_after(40):
            sent = await sends_on(asker, refused, lambda: refused in asker.broken)
        assert asker.broken == {refused: h2.errors.ErrorCodes.NO_ERROR}
        assert asker.heads[refused][":status"] == "413"
        assert b"body_too_large" in asker.bodies[refused]
        assert limit == "time" or most <= sent < most + 200_000
        kept = await asker.ask("/kept")
        await asker.read_whole(kept)
        assert asker.heads[kept][":status"] == "200"


async def test_what_little_more_comes_of_a_refused_body_is_taken_to_its_end() -> None:
    async with serving(echo, LIMITS) as server, asking(server) as asker:
        refused = await asker.ask("/", b"x" * 16_000, more=True)
        await asker.read_whole(refused)
        sent = count()
        await sends_on(asker, refused, lambda: next(sent) > 20)
        asker.h2.end_stream(refused)
        kept = await asker.ask("/kept")
        await asker.read_whole(kept)
        assert not asker.broken
