"""``trioroute top`` reads the stream of events by its own lines, whatever a model is called."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest
import trio

from trioroute.cli.top_watch import Watched, follow, follow_for_ever

ODD = "a\u2028b\u2029c\x85d"


def events(end: str) -> bytes:
    told = []
    for version in (1, 2):
        body = {"replica": "gpu1", "reason": "load", "model": ODD, "attempt": 1}
        fields = {"version": version, "at_ms": 1, "kind": "Dispatched", "body": body}
        data = json.dumps(fields, ensure_ascii=False)
        told.append(f"id: {version}{end}data: {data}{end}{end}")
    return "".join(told).encode()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=repr)
@pytest.mark.parametrize("size", [1, 2, 7, 100_000])
async def test_a_line_ends_in_cr_and_lf_only(
    end: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = events(end)
    state = {"router": "r1", "durable_position": 2}
    watched = Watched(state=state, seen=0)

    async def pieces(_: httpx.Response) -> AsyncIterator[bytes]:
        whole = data + b"id: 3"  # a last CR may be the first half of an end: what comes next tells
        for at in range(0, len(whole), size):
            yield whole[at : at + size]

    monkeypatch.setattr(httpx.Response, "aiter_bytes", pieces)
    transport = httpx.MockTransport(lambda _: httpx.Response(200))
    async with httpx.AsyncClient(transport=transport, base_url="http://router") as client:
        await follow(client, watched, until=2)
    assert [one.model for one in watched.decisions] == [ODD, ODD]
    assert watched.seen == 2


async def test_a_stream_that_broke_goes_on_where_it_stopped() -> None:
    """Also where the last look at the state is older than the last event."""
    asked: list[str] = []
    with trio.fail_after(40):
        async with trio.open_nursery() as nursery:

            def answer(request: httpx.Request) -> httpx.Response:
                if request.url.path == "/state":
                    return httpx.Response(200, json={"router": "r1", "durable_position": 9})
                asked.append(request.url.params["since"])
                nursery.cancel_scope.cancel()
                return httpx.Response(200)

            transport = httpx.MockTransport(answer)
            async with httpx.AsyncClient(transport=transport, base_url="http://router") as client:
                old = {"router": "r1", "durable_position": 5}
                await follow_for_ever(client, Watched(state=old, seen=8))
    assert asked == ["8"]


def test_changed_settings_are_named() -> None:
    watched = Watched()
    told = {"kind": "Configured", "at_ms": 1, "version": 2, "body": {"by": "admin"}}
    watched.take(told)
    watched.take({**told, "changed": ["eject.cooldown 30s -> 45s"]})
    texts = [one.text for one in watched.incidents]
    assert texts == ["settings in force", "other settings in force: eject.cooldown 30s -> 45s"]


def test_what_ran_as_a_router_died_is_cut_off_and_does_not_run_for_ever() -> None:
    watched = Watched(state={"router": "r1", "durable_position": 9}, seen=0)
    sent = {"replica": "a", "reason": "load", "model": "m", "attempt": 1}
    for version in (3, 4):
        row = {"version": version, "at_ms": 1000, "kind": "Dispatched", "body": sent}
        watched.take(row)
    orphaned = {"version": 6, "at_ms": 2000, "kind": "Orphaned", "body": {"dispatches": [4]}}
    watched.take(orphaned)
    assert [one.end for one in watched.decisions] == ["running", "cut off: the router died"]
    long = {"version": 7, "at_ms": 2000, "kind": "Orphaned", "body": {"omitted_bytes": 9}}
    watched.take(long)
    assert watched.incidents[-1].text == "Orphaned, too long to be told"
