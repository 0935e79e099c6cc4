"""Chunks that follow others are passed on by one task; all else goes back to the response's own."""

import os
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from tests.proxy.replies import DONE, LAST, chunk, stream_head, token
from tests.proxy.scripted import Peer, Script
from tests.proxy.serving import RawClient, client, eventually
from tests.proxy.test_access_log import lines
from tests.proxy.whole import Whole, chat, cut_body, request, whole
from trioroute.proxy.access_log import AccessLog

STREAMED = chat(stream=True)


class Steps:
    """A replica that sends its next piece when it is told to."""

    def __init__(self, *pieces: bytes, reset: bool = False) -> None:
        self._pieces = pieces
        self._reset = reset
        self.go = trio.Semaphore(0)

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head() + chunk(token("first")))
        for piece in self._pieces:
            await self.go.acquire()
            await peer.send(piece)
        if self._reset:
            await self.go.acquire()
            peer.reset()
        else:
            await peer.wait_gone()


async def begun(rig: Whole, raw: RawClient) -> None:
    """The first chunk is with the client, and the pump has what follows."""
    await raw.send(request(STREAMED))
    await raw.head()
    assert await piece(raw) == token("first")
    await eventually(lambda: len(rig.desk.pump) == 1)


async def piece(raw: RawClient) -> bytes:
    data = await raw.exactly(int(await raw.until(b"\r\n"), 16))
    await raw.exactly(2)
    return data


async def test_chunks_are_pumped_and_the_end_is_the_tasks_own() -> None:
    script = Steps(chunk(token("a")), chunk(token("b")), chunk(DONE) + LAST)
    async with whole(script) as rig, client(rig.port) as raw:
        await begun(rig, raw)
        for text in (token("a"), token("b")):
            script.go.release()
            assert await piece(raw) == text
            assert len(rig.desk.pump) == 1
        script.go.release()
        assert (await piece(raw), await piece(raw)) == (DONE, b"")
        released = await rig.released()
        assert (released.outcome, len(rig.desk.pump)) == ("ok", 0)
        assert released.bytes == len(token("first") + token("a") + token("b") + DONE)


async def test_an_end_that_comes_alone_ends_the_response() -> None:
    script = Steps(chunk(DONE), LAST)
    async with whole(script) as rig, client(rig.port) as raw:
        await begun(rig, raw)
        script.go.release()
        assert await piece(raw) == DONE
        script.go.release()
        assert await piece(raw) == b""
        assert (await rig.released()).outcome == "ok"


@pytest.mark.parametrize("reset", [False, True], ids=["garbage", "reset"])
async def test_a_replica_that_breaks_off_in_the_pump_ends_the_response_broken(reset: bool) -> None:
    script = Steps(reset=True) if reset else Steps(b"no chunk size\r\n")
    async with whole(script) as rig, client(rig.port) as raw:
        await raw.send(request(STREAMED))
        head = await raw.head()
        await eventually(lambda: len(rig.desk.pump) == 1)
        script.go.release()
        body = await cut_body(raw, head)
        assert body.startswith(token("first"))
        assert b'"upstream_cut"' in body
        released = await rig.released()
        assert (released.outcome, released.cause) == (
            "upstream_cut",
            "reset" if reset else "protocol",
        )
        assert len(rig.desk.pump) == 0


@pytest.mark.parametrize("politely", [True, False])
async def test_a_client_that_leaves_takes_its_lane_with_it(politely: bool) -> None:
    async with whole(Steps()) as rig:
        async with client(rig.port) as raw:
            await begun(rig, raw)
            if not politely:
                raw.reset()
        await eventually(lambda: len(rig.desk.pump) == 0)
        assert (await rig.released()).outcome == "client_gone"
        await eventually(lambda: rig.replicas[0].peers[0].gone.is_set())


async def test_a_limit_of_time_ends_what_the_pump_has() -> None:
    async with whole(Steps(), timeouts={"idle_ms": 100}) as rig, client(rig.port) as raw:
        await begun(rig, raw)
        await raw.rest()
        assert (await rig.released()).outcome == "idle_timeout"


async def test_every_chunk_is_progress_while_the_pump_has_them() -> None:
    script = Steps(*[chunk(token("a"))] * 8, chunk(DONE) + LAST)
    async with whole(script, timeouts={"idle_ms": 300}) as rig, client(rig.port) as raw:
        await begun(rig, raw)
        for _ in range(9):
            await trio.sleep(0.08)
            script.go.release()
        await raw.until(LAST)
        assert (await rig.released()).outcome == "ok"


def floods(pieces: Sequence[bytes]) -> Script:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head())
        for one in pieces:
            await peer.send(chunk(one))
        await peer.send(LAST)
        await peer.wait_gone()

    return script


@pytest.mark.parametrize("pumping", [True, False])
async def test_a_client_that_reads_slowly_gets_every_byte_in_order(pumping: bool) -> None:
    chance = random.Random(3)
    pieces = [chance.randbytes(chance.randrange(1, 60_000)) for _ in range(300)]
    async with whole(floods(pieces), pumping=pumping) as rig, client(rig.port) as raw:
        await raw.send(request(STREAMED))
        await raw.head()
        await trio.sleep(0.1)  # by now nothing fits between here and there
        body = b""
        while part := await piece(raw):
            body += part
            if chance.random() < 0.02:
                await trio.sleep(0.005)
        assert body == b"".join(pieces)
        assert (await rig.released()).bytes == len(body)


async def test_a_client_that_takes_nothing_is_given_up_though_the_pump_had_it() -> None:
    limits = {"client_stall_ms": 200}
    async with whole(floods([b"x" * 60_000] * 400), timeouts=limits) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(STREAMED))
            await raw.head()
            released = await rig.released()
            assert released.outcome == "client_stall"


async def test_a_pump_that_stops_leaves_its_streams_to_their_tasks() -> None:
    script = Steps(chunk(token("a")), chunk(DONE) + LAST)
    async with whole(script, pumping=False) as rig, trio.open_nursery() as nursery:
        nursery.start_soon(rig.desk.pump.run)
        async with client(rig.port) as raw:
            await begun(rig, raw)
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await eventually(lambda: len(rig.desk.pump) == 0)
                for _ in range(2):
                    script.go.release()
                assert await piece(raw) == token("a")
                await raw.until(LAST)
                assert (await rig.released()).outcome == "ok"


async def test_pumped_bytes_are_in_the_access_log(tmp_path: Path) -> None:
    script = Steps(chunk(token("a")), chunk(DONE) + LAST)
    async with whole(script) as rig, trio.open_nursery() as nursery:
        log = rig.desk.access_log = AccessLog(tmp_path / "access.log")
        nursery.start_soon(log.run)
        async with client(rig.port) as raw:
            await begun(rig, raw)
            script.go.release()
            assert await piece(raw) == token("a")
            script.go.release()
            await raw.until(LAST)
        await eventually(lambda: bool(lines(tmp_path / "access.log")))
        (line,) = lines(tmp_path / "access.log")
        assert line["bytes"] == len(token("first") + token("a") + DONE)
        assert line["whole"]
        nursery.cancel_scope.cancel()


async def test_many_streams_at_once_each_get_their_own() -> None:
    async def script(peer: Peer) -> None:
        while taken := await peer.request():
            mark = taken.rpartition(b'"user": "')[2][:4]
            await peer.send(stream_head())
            for _ in range(20):
                await peer.send(chunk(token(mark.decode())))
                await trio.sleep(0.002)
            await peer.send(chunk(DONE) + LAST)

    async with whole(script, script) as rig, trio.open_nursery() as nursery:

        async def user(mark: str) -> None:
            answer = await rig.ask(chat(stream=True, user=mark))
            assert answer.body == token(mark) * 20 + DONE

        for number in range(60):
            nursery.start_soon(user, f"{number:04}")


async def test_a_fault_in_one_lane_ends_its_response_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script, other = Steps(chunk(token("a"))), Steps(chunk(token("b")), chunk(DONE) + LAST)
    async with (
        whole(script, other) as rig,
        client(rig.port) as first,
        client(rig.port) as second,
    ):
        await begun(rig, first)
        await second.send(request(STREAMED))
        await second.head()
        await piece(second)
        await eventually(lambda: len(rig.desk.pump) == 2)

        def fails(chunk: bytes) -> None:
            raise ValueError("a fault of the router's own")

        lane = next(iter(rig.desk.pump._lanes.values()))
        monkeypatch.setattr(type(lane.tap), "feed", lambda tap, data: fails(data))
        script.go.release()
        await first.rest()
        monkeypatch.undo()
        other.go.release()
        assert await piece(second) == token("b")
        other.go.release()
        await second.until(LAST)


class Blurts(Steps):
    """Sends the first chunk, and what it is told to at once, without a wait."""

    peer: Peer

    async def __call__(self, peer: Peer) -> None:
        self.peer = peer
        await super().__call__(peer)

    def blurt(self, data: bytes) -> None:
        os.write(self.peer.stream.socket.fileno(), data)


async def test_a_client_that_reset_before_the_last_word_was_not_told_it() -> None:
    for _ in range(12):  # whether the hang-up or the chunk is looked at first is up to chance
        script = Blurts()
        async with whole(script) as rig, client(rig.port) as raw:
            await begun(rig, raw)
            raw.reset()
            script.blurt(chunk(DONE))
            assert (await rig.released()).outcome == "client_gone"


@pytest.mark.parametrize("pumping", [True, False])
async def test_nothing_follows_a_chunk_that_the_client_has_in_part(pumping: bool) -> None:
    block = b"data: " + b"x" * 59_990 + b"\n\n"
    limits = {"total_ms": 500}
    async with whole(floods([block] * 400), timeouts=limits, pumping=pumping) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(STREAMED))
            await raw.head()
            assert (await rig.released()).outcome == "idle_timeout"
            with suppress(trio.BrokenResourceError):
                while await raw.fill():
                    pass
            assert len(raw.buffer) > len(block)
            assert b"upstream_cut" not in raw.buffer
