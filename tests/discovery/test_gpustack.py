"""GPUStack by captures of real servers, played back: versions, pages, tokens, watch and outages."""

import json
from pathlib import Path
from typing import Any

import attrs

from tests.discovery.server import Answer, Query, Server, serving
from tests.discovery.told import watched
from tests.proxy.serving import eventually
from trioroute.discovery.gpustack import GpuStackSource

DATA = Path(__file__).parent / "data"
OF_2 = json.loads((DATA / "gpustack-2.3-list.json").read_bytes())
OF_0_7 = json.loads((DATA / "gpustack-0.7-list.json").read_bytes())
WATCHED = [
    json.loads(one)
    for one in (DATA / "gpustack-2.3-watch.txt").read_bytes().split(b"\n\n")
    if one.strip()
]


@attrs.define
class Stack:
    """The API of a version: rows that a test may change, in pages."""

    rows: list[dict[str, Any]]
    path: str = "/v2/model-instances"
    key: str = "key"
    down: bool = False

    def get(self, path: str, query: Query) -> Answer:
        if self.down:
            return 502, b"<html>bad gateway</html>"
        if path != self.path:
            return 404, {"detail": "Not Found"}
        page, size = int(query["page"]), int(query["perPage"])
        pages = -(-len(self.rows) // size)
        told = {"page": page, "perPage": size, "total": len(self.rows), "totalPage": pages}
        return 200, {"items": self.rows[(page - 1) * size : page * size], "pagination": told}


def rows_of_2() -> list[dict[str, Any]]:
    return [dict(row) for row in OF_2["items"]]


def source(server: Server, **fields: Any) -> GpuStackSource:
    return GpuStackSource(server.url, "key", retry_s=0.05, **fields)


def event(kind: int, row: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "data": row}).encode() + b"\n\n"


async def test_running_instances_of_2_x_with_the_token() -> None:
    async with serving(Server(Stack(rows_of_2()).get)) as server:
        async with watched(source(server)) as told:
            await told.lists("tiny-3lhpc", "tiny-v2may")
            await eventually(lambda: server.watches)
    assert told.now is not None
    assert {one.url for one in told.now} == {"http://127.0.0.1:18001", "http://127.0.0.1:18002"}
    assert {one.token for one in server.requests} == {"Bearer key"}
    assert server.watches[0].request.query == {"watch": "true"}


async def test_running_instances_of_0_7_under_its_own_path() -> None:
    stack = Stack(OF_0_7["items"], path="/v1/model-instances")
    async with serving(Server(stack.get)) as server:
        async with watched(source(server)) as told:
            await told.lists("tiny-ZaNM2", "tiny-YLxgz")
            await eventually(lambda: server.watches)
    assert server.watches[0].request.path == "/v1/model-instances"


async def test_instances_that_do_not_run_or_do_not_answer_by_themselves_are_none() -> None:
    pending = json.loads((DATA / "gpustack-0.7-pending.json").read_bytes())["items"]
    first, second = rows_of_2()
    rows = [
        *({**row, "id": row["id"] + 20} for row in pending),
        {**first, "id": 11, "name": "part", "role": "prefill"},
        {**first, "id": 12, "name": "other", "model_name": "other"},
        {**first, "id": 13, "name": "lost", "worker_ip": None, "worker_advertise_address": None},
        {**first, "id": 14, "name": "two words"},
        {**first, "id": 15, "name": "six", "worker_advertise_address": "fd00::1"},
        {**second, "draining_since": "2026-11-29T18:17:59Z"},
    ]
    async with serving(Server(Stack(rows).get)) as server:
        async with watched(source(server, model="tiny")) as told:
            await told.lists("six", "tiny-v2may")
    assert told.now is not None
    assert [(one.name, one.url, one.draining) for one in told.now] == [
        ("six", "http://[fd00::1]:18001", False),
        ("tiny-v2may", "http://127.0.0.1:18002", True),
    ]


async def test_the_stream_brings_a_new_list_only_for_what_changes_the_fleet() -> None:
    stack = Stack(rows_of_2())
    async with serving(Server(stack.get)) as server:
        async with watched(source(server)) as told:
            await eventually(lambda: server.watches)
            watch = server.watches[0]
            for row in rows_of_2():
                watch.say(event(1, row))
            watch.say(b"\n\n")
            pending = next(one for one in WATCHED if one["data"]["state"] == "pending")["data"]
            watch.say(event(1, {**pending, "id": 99}))
            watch.say(event(3, {**pending, "id": 99}) + b"no json\n\n")
            gone = stack.rows.pop()
            cut = event(3, gone)
            assert len(server.lists) == 1
            watch.say(cut[:100])
            watch.say(cut[100:])
            await told.lists("tiny-3lhpc")
    assert len(server.lists) == 2


async def test_a_captured_stream_is_followed_to_its_end() -> None:
    stack = Stack([])
    async with serving(Server(stack.get)) as server:
        async with watched(source(server)) as told:
            await told.lists()
            for one in WATCHED:
                await eventually(lambda: len(server.watches) == len(server.lists))
                row = one["data"]
                stack.rows = [each for each in stack.rows if each["id"] != row["id"]]
                stack.rows += [row] if one["type"] != 3 else []
                server.watches[-1].say(json.dumps(one).encode() + b"\n\n")
                running = [row["name"] for row in stack.rows if row["state"] == "running"]
                await told.lists(*running)
    told_names = [sorted(one.name for one in listed) for listed in told.lists_told]
    both = ["tiny-3lhpc", "tiny-v2may"]
    assert told_names == [[], [both[0]], both, [both[0]]]


async def test_many_instances_come_in_pages_and_a_torn_list_is_not_believed() -> None:
    first, _ = rows_of_2()
    stack = Stack([{**first, "id": n, "name": f"r{n}", "port": 1000 + n} for n in range(250)])
    torn = {"left": 2}

    def get(path: str, query: Query) -> Answer:
        status, told = stack.get(path, query)
        if query.get("page") == "2" and torn["left"]:
            torn["left"] -= 1
            assert isinstance(told, dict)
            told = {**told, "items": told["items"][1:]}
        return status, told

    async with serving(Server(get)) as server:
        async with watched(source(server)) as told:
            await told.fails("lists 249 model instances of 250")
            await told.lists(*(f"r{n}" for n in range(250)))


async def test_outages_say_what_is_wrong_without_the_token() -> None:
    refused = json.loads((DATA / "gpustack-2.3-wrong-key.json").read_bytes())
    stack = Stack(rows_of_2())
    answers: list[Answer] = [(401, refused)]

    def get(path: str, query: Query) -> Answer:
        return answers[0] if answers else stack.get(path, query)

    async with serving(Server(get, watch_status=503)) as server:
        async with watched(GpuStackSource(server.url, "hunter2", retry_s=0.05)) as told:
            await told.fails("refuses the token (401); see discovery.gpustack.token_env")
            answers[0] = (200, b"<html>a login page</html>")
            await told.fails("answers 200 and no list")
            answers[0] = (200, {"object": "list", "data": []})
            await told.fails("is it a GPUStack server?")
            answers.clear()
            await told.lists("tiny-3lhpc", "tiny-v2may")
            stack.down = True
            await told.fails("answers 502")
    async with watched(GpuStackSource(server.url, "hunter2", retry_s=0.05)) as told:
        await told.fails("connection refused")
    assert not any("hunter2" in why for why in told.outages)
