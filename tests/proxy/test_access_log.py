"""One JSON line a request, and nothing in it that it must not hold."""

import json
import os
import resource
from pathlib import Path

import pytest
import trio

from tests.proxy.replies import Recorder, says
from tests.proxy.serving import client, eventually
from tests.proxy.test_api_keys import BEARER, key
from tests.proxy.whole import CHAT, Whole, request, whole
from trioroute.proxy.access_log import LINES_MAX, AccessLog, Request, access_log_of


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


async def written(rig: Whole, path: Path, count: int) -> list[dict[str, object]]:
    assert isinstance(rig.desk.access_log, AccessLog)
    await eventually(lambda: len(lines(path)) == count)
    return lines(path)


async def test_a_line_says_what_was_asked_and_what_became_of_it(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    async with whole(Recorder()) as rig, trio.open_nursery() as nursery:
        log = rig.desk.access_log = access_log_of(str(path))
        assert log is not None
        nursery.start_soon(log.run)
        rig.desk.keys.renew([key()])
        answer = await rig.ask(
            path=f"{CHAT}?canary=1", headers=[BEARER, "x-request-id: r-1", "x-secret: canary"]
        )
        await rig.ask()
        first, second = await written(rig, path, 2)
        assert (first["request_id"], first["method"], first["path"]) == ("r-1", "POST", CHAT)
        assert (first["status"], first["whole"], first["key"]) == (200, True, "team")
        assert (first["model"], first["replica"], first["reason"]) == ("m", "a", "load")
        assert first["bytes"] == len(answer.body)
        assert first["decision"] == answer.headers["x-trioroute-decision"]
        assert first["attempts"] == 1
        assert (second["status"], second["key"], second["replica"]) == (401, None, None)
        path.rename(tmp_path / "old")
        await rig.ask(headers=[BEARER])
        assert len(await written(rig, path, 1)) == 1
        assert b"canary" not in (tmp_path / "old").read_bytes() + path.read_bytes()
        nursery.cancel_scope.cancel()


async def test_a_cut_and_a_client_that_leaves_are_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    async with whole(says(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")) as rig:
        log = rig.desk.access_log = AccessLog(path)
        await rig.broken()
        async with client(rig.port) as raw:
            await raw.send(request())
            await raw.head()
        await rig.quiet()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.run)
            nursery.cancel_scope.cancel()
        assert [line["whole"] for line in lines(path)] == [False, False]


def test_lines_are_bounded_and_a_disk_that_fails_loses_them_loudly(
    tmp_path: Path, caplog: object
) -> None:
    log = AccessLog(tmp_path)  # a directory cannot be written
    for _ in range(LINES_MAX + 3):
        log._lines.append(b"") if len(log._lines) < LINES_MAX else log.note(Request({}))
    assert log.dropped == 3
    log._write(b"x")
    assert "cannot be written" in caplog.text  # type: ignore[attr-defined]  # pytest's own type


async def test_a_file_that_takes_nothing_does_not_keep_the_router(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    log = AccessLog(path)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.run)
            log._lines.append(b"first\n")
            await eventually(lambda: not log._lines)
            log._lines.append(b"last\n")
            nursery.cancel_scope.cancel()
    with path.open("rb") as reader:  # frees the threads that were left behind, in any order
        assert reader.readline() in (b"first\n", b"last\n")


async def test_a_model_that_is_no_text_is_written_as_its_escape(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    async with whole(Recorder()) as rig, trio.open_nursery() as nursery:
        log = rig.desk.access_log = AccessLog(path)
        nursery.start_soon(log.run)
        await rig.ask(body=b'{"model": "\\ud800", "messages": []}')
        (line,) = await written(rig, path, 1)
        assert line["model"] == "\\ud800"
        nursery.cancel_scope.cancel()


def test_after_a_full_disk_a_line_begins_anew_and_the_trouble_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "access.log"
    log = AccessLog(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6, limits[1]))
    try:
        for _ in range(3):
            log._write(b"one\ntwo\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    log._write(b"three\n")
    log._write(b"four\n")
    assert path.read_bytes() == b"one\ntw\nthree\nfour\n"
    began, over = (record.getMessage() for record in caplog.records)
    assert "cannot be written" in began
    assert over == "access log: written again, 5 lines lost"


def test_off_is_off() -> None:
    assert access_log_of("off") is None
