"""Limits in time: replicas that freeze, clients that stall, comments that keep a stream alive."""

import json
from collections import Counter
from typing import Any

import attrs
import pytest
import trio

from tests.proxy.replies import (
    GOOD_STREAM,
    LAST,
    chunk,
    heads,
    reply,
    says,
    silent,
    stream,
    stream_head,
    token,
)
from tests.proxy.scripted import Peer, Replica, always
from tests.proxy.serving import Reply, client, eventually
from tests.proxy.whole import CHAT, LIMITS, Whole, chat, cut_body, request, whole
from trioroute.proxy.first_event import read_first
from trioroute.proxy.upstream.message import UpstreamStream

STREAMED = chat(stream=True)
RUNNING = Reply(200, {"transfer-encoding": "chunked"}, b"")
FROZEN = says(stream_head(), chunk(token("a")), hang=True)


async def closed(made: Replica) -> None:
    """The router let go of every connection to this replica, soon."""
    await eventually(lambda: all(peer.gone.is_set() for peer in made.peers))


async def test_a_replica_that_never_answers_is_504_and_nothing_is_sent_twice() -> None:
    async with whole(silent, always(reply()), timeouts={"first_byte_ms": 100}) as rig:
        answer = await rig.ask()
        assert answer.status == 504
        assert json.loads(answer.body)["error"]["code"] == "first_byte_timeout"
        assert answer.headers["x-trioroute-replica"] == "a"
        await closed(rig.replicas[0])
        assert heads(rig.replicas[1])() == 0
        released = await rig.released()
        assert (released.outcome, released.blame) == ("first_byte_timeout", "replica")
        assert released.ttfb_ms is None
        assert released.duration_ms >= 100


@pytest.mark.parametrize("body", [None, STREAMED], ids=["json", "stream"])
async def test_a_limit_in_the_turn_that_brings_the_first_bytes_is_a_whole_504(
    body: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A router that was held up finds both at once. Any request of a kept connection, for the
    server lets others run at every so-manieth write."""
    late = False

    async def read_late(upstream: UpstreamStream, whole_event: bool) -> bytes:
        first = await read_first(upstream, whole_event)
        for watched in [*rig.desk.watch._open] if late else []:
            watched.broken = "first_byte"
            watched.scope.cancel()
        return first

    monkeypatch.setattr("trioroute.proxy.dispatch.read_first", read_late)
    good = always(stream(token("a")) if body else reply())
    async with whole(good, eject={"request_failures": 1000}) as rig, client(rig.port) as raw:
        for number in range(40):
            late = number >= 20
            await raw.send(request(body, headers=["x-request-id: mine"]))
            answer = await raw.reply()
            assert (answer.status, answer.headers["x-request-id"]) == (504 if late else 200, "mine")
        ends = await rig.ends()
        assert Counter(end.outcome for end in ends) == {"ok": 20, "first_byte_timeout": 20}
        assert {end.ttfb_ms is None for end in ends[20:]} == {True}


async def test_headers_alone_are_no_first_byte() -> None:
    async with whole(says(stream_head(), hang=True), timeouts={"first_byte_ms": 100}) as rig:
        assert (await rig.ask(STREAMED)).status == 504
        assert (await rig.released()).status == 200


async def test_a_stream_that_freezes_ends_broken_at_the_idle_limit() -> None:
    async with whole(FROZEN, timeouts={"idle_ms": 100}) as rig:
        head, body = await rig.broken(STREAMED)
        assert head.status == 200
        assert body.startswith(token("a"))
        assert b"idle" in body
        assert b"[DONE]" not in body
        await closed(rig.replicas[0])
        released = await rig.released()
        assert (released.outcome, released.cause, released.blame) == (
            "idle_timeout",
            "timeout",
            "replica",
        )


async def test_json_that_freezes_ends_short() -> None:
    half = says(reply(b"x" * 100)[:-50], hang=True)
    async with whole(half, timeouts={"idle_ms": 100}) as rig:
        assert (await rig.broken())[1] == b"x" * 50
        assert (await rig.released()).outcome == "idle_timeout"


async def test_slow_first_bytes_and_long_streams_pass_the_other_limits() -> None:
    async def slow(peer: Peer) -> None:
        await peer.request()
        await trio.sleep(0.25)
        await peer.send(stream_head())
        for _ in range(8):
            await peer.send(chunk(token("a")))
            await trio.sleep(0.05)
        await peer.send(LAST)

    async with whole(slow, timeouts={"first_byte_ms": 2000, "idle_ms": 200}) as rig:
        assert (await rig.ask(STREAMED)).body == token("a") * 8
        assert (await rig.released()).outcome == "ok"


async def test_the_total_limit_is_the_routers_own_and_not_held_against_the_replica() -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head())
        while True:
            await peer.send(chunk(token("a")))
            await trio.sleep(0.02)

    async with whole(endless, timeouts={"total_ms": 150}) as rig:
        _, body = await rig.broken(STREAMED)
        assert b'"error"' in body
        assert b"total" in body
        released = await rig.released()
        assert (released.outcome, released.blame) == ("idle_timeout", "router")
        await closed(rig.replicas[0])


async def test_the_total_limit_before_the_first_byte_is_504_and_names_itself() -> None:
    async with whole(silent, timeouts={"total_ms": 100}) as rig:
        answer = await rig.ask()
        assert answer.status == 504
        assert b"timeouts.total" in answer.body
        assert (await rig.released()).blame == "router"


async def test_a_limit_of_zero_is_none() -> None:
    off = {"first_byte_ms": 0, "idle_ms": 0, "total_ms": 0, "client_stall_ms": 0}

    async def slow(peer: Peer) -> None:
        await peer.request()
        await trio.sleep(0.1)
        await peer.send(stream_head() + chunk(token("a")))
        await trio.sleep(0.1)
        await peer.send(LAST)

    async with whole(slow, timeouts=off) as rig:
        assert (await rig.ask(STREAMED)).status == 200


async def test_open_streams_of_a_replica_that_refuses_connections_end_after_the_grace() -> None:
    """RULES 6.13; a stream on a replica that was ejected for another reason runs on."""
    async with whole(FROZEN, FROZEN, eject={"stream_grace_ms": 150}) as rig:
        async with client(rig.port) as one, client(rig.port) as other:
            for raw in (one, other):
                await raw.send(request(STREAMED))
                await raw.head()
            rig.eject("a")
            begin = trio.current_time()
            first = await cut_body(one, RUNNING)
            assert 0.14 <= trio.current_time() - begin < 20
            assert b"stream_grace" in first
            await closed(rig.replicas[0])
            assert rig.in_flight == 1
            assert not rig.replicas[1].peers[0].gone.is_set()
            other.reset()
        assert {one.outcome for one in await rig.ends()} == {"idle_timeout", "client_gone"}


async def test_the_grace_counts_from_the_last_byte_and_from_the_eject() -> None:
    async with whole(FROZEN, eject={"stream_grace_ms": 300}) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(STREAMED))
            await raw.head()
            await trio.sleep(0.35)
            rig.eject("a")
            begin = trio.current_time()
            await cut_body(raw, RUNNING)
            assert trio.current_time() - begin >= 0.28


async def test_who_waits_for_a_first_byte_of_such_a_replica_is_sent_elsewhere() -> None:
    async with whole(silent, always(reply()), eject={"stream_grace_ms": 100}) as rig:
        async with client(rig.port) as raw:
            await raw.send(request())
            await eventually(lambda: len(rig.replicas[0].peers) == 1)
            rig.eject("a")
            answer = await raw.reply()
        assert answer.status == 200
        assert answer.headers["x-trioroute-replica"] == "b"
        failed, released = await rig.ends()
        assert (failed.cause, failed.blame) == ("timeout", "replica")
        assert released.outcome == "ok"


async def test_that_is_502_where_it_must_not_be_sent_twice() -> None:
    async with whole(silent, always(reply()), eject={"stream_grace_ms": 100}) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(b"{}", "/v1/files"))
            await eventually(lambda: len(rig.replicas[0].peers) == 1)
            rig.eject("a")
            answer = await raw.reply()
        assert answer.status == 502
        assert heads(rig.replicas[1])() == 0
        assert (await rig.released()).outcome == "upstream_error"


async def floods(peer: Peer) -> None:
    await peer.request()
    await peer.send(stream_head())
    while True:
        await peer.send(chunk(b"data: " + b"x" * 60_000 + b"\n\n"))


async def stalls(rig: Whole) -> Any:
    async with client(rig.port) as raw:
        await raw.send(request(STREAMED))
        await raw.head()
        await eventually(lambda: not rig.in_flight)
    return await rig.released()


async def test_a_client_that_takes_nothing_is_given_up_and_nobody_else_is_blamed() -> None:
    async with whole(floods, timeouts={"client_stall_ms": 150}) as rig:
        released = await stalls(rig)
        assert (released.outcome, released.cause, released.blame) == (
            "client_stall",
            "timeout",
            "client",
        )
        await closed(rig.replicas[0])


async def test_it_is_a_stall_too_when_the_server_notices_it_first() -> None:
    limits = attrs.evolve(LIMITS, client_stall_ms=150)
    stall = {"client_stall_ms": 150}
    async with whole(floods, limits=limits, watching=False, timeouts=stall) as rig:
        assert (await stalls(rig)).outcome == "client_stall"


async def test_a_slow_client_makes_nobody_buffer_for_it() -> None:
    sent = 0

    async def counts(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(stream_head())
        while True:
            await peer.send(chunk(b"x" * 60_000))
            sent += 60_000

    async with whole(counts) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(STREAMED))
            await raw.head()
            before = -1
            while before != sent:
                before = sent
                await trio.sleep(0.1)
            assert sent < 16 << 20, "the kernel's buffers of three sockets, and no more"


async def test_comments_and_events_pass_at_once_while_the_stream_goes_on() -> None:
    go = trio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head() + chunk(b": ping\n\n"))
        await go.wait()
        await peer.send(b"".join(map(chunk, GOOD_STREAM)) + LAST)

    async with whole(script) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(STREAMED))
            head = await raw.head()
            assert head.status == 200
            assert await raw.until(b": ping\n\n")
            go.set()
            assert await raw.until(LAST)
        assert (await rig.released()).outcome == "ok"


async def test_a_compressed_stream_is_not_held_back_until_a_blank_line() -> None:
    go = trio.Event()
    noise = bytes(range(14, 200))

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head("content-encoding: gzip") + chunk(noise))
        await go.wait()
        await peer.send(LAST)

    async with whole(script) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(STREAMED))
            await raw.head()
            assert noise in await raw.until(noise)
            go.set()
            await raw.until(LAST)
        assert (await rig.released()).outcome == "ok"


@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_a_head_with_a_length_waits_for_no_body(method: str) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 500\r\n\r\n"
    script = always(head if method == "HEAD" else stream(*GOOD_STREAM))
    async with whole(script) as rig:
        async with client(rig.port) as raw:
            await raw.send(request(b"", CHAT, method))
            answer = await raw.reply(bodiless=method == "HEAD")
            assert answer.status == 200
            if method == "HEAD":
                assert answer.headers["content-length"] == "500"
            await raw.send(request(b"", CHAT, method))
            assert (await raw.reply(bodiless=method == "HEAD")).status == 200
        assert [one.outcome for one in await rig.ends()] == ["ok", "ok"]
