"""What bodies cost in memory, measured from outside: the most that the process ever held."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import trio

from tests.field.process import router_process
from tests.field.stub import Stub
from tests.proxy.replies import Recorder, chunk, reply, stream_head
from tests.proxy.scripted import Peer
from tests.proxy.serving import client as client_of
from tests.proxy.serving import eventually
from tests.proxy.whole import chat, request

MIB = 1 << 20
UPLOAD = 60 * MIB


def peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def children_of(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for thread in threads for child in thread.read_text("ascii").split()]


def form(audio: bytes) -> bytes:
    field = b'--b\r\ncontent-disposition: form-data; name="model"\r\n\r\nm\r\n'
    file = b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    return b"".join((field, file, audio, b"\r\n--b--\r\n"))


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_a_large_upload_is_held_once(tmp_path: Path, chunked: bool) -> None:
    made = Recorder(reply())
    async with router_process(tmp_path, Stub(made)) as router:
        before = peak_bytes(router.popen.pid)
        body = form(bytes(UPLOAD))

        async def pieces() -> AsyncIterator[bytes]:
            for at in range(0, len(body), MIB):
                yield body[at : at + MIB]

        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.post(
                f"{router.url}/v1/audio/transcriptions",
                content=pieces() if chunked else body,
                headers={"content-type": "multipart/form-data; boundary=b"},
            )
        assert answer.status_code == 200
        assert made.body() == body
        assert peak_bytes(router.popen.pid) - before < 1.3 * UPLOAD


async def test_a_large_prompt_is_held_once_and_three_times_by_the_body_reader(
    tmp_path: Path,
) -> None:
    """There it is the body, and what the JSON reader makes of it. It leaves with the router."""
    made = Recorder(reply())
    async with router_process(tmp_path, Stub(made)) as router:
        before = peak_bytes(router.popen.pid)
        content = b"x" * UPLOAD
        body = b'{"model":"m","messages":[{"role":"user","content":"' + content + b'"}]}'
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.post(f"{router.url}/v1/chat/completions", content=body)
        assert answer.status_code == 200
        assert made.body() == body
        assert peak_bytes(router.popen.pid) - before < 1.3 * UPLOAD
        (reader,) = children_of(router.popen.pid)
        assert UPLOAD < peak_bytes(reader) < 3.3 * UPLOAD + 30 * MIB
        os.kill(router.popen.pid, signal.SIGKILL)
        await eventually(lambda: not Path(f"/proc/{reader}").exists())


async def test_a_client_that_reads_nothing_fills_no_memory(tmp_path: Path) -> None:
    """The replica is held back; less than a MiB of its answer is in the router's memory."""
    sent = 0

    async def pours(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(stream_head())
        while True:
            await peer.send(chunk(b"data: " + b"x" * 8184 + b"\n\n"))
            sent += 1 << 13

    async with router_process(tmp_path, Stub(pours)) as router:
        async with client_of(router.port) as quick:  # what serving a stream takes at all
            await quick.send(request(chat(stream=True)))
            while len(quick.buffer) < 4 * MIB:
                await quick.fill()
        before = peak_bytes(router.popen.pid)
        sent = 0
        async with client_of(router.port) as slow:
            await slow.send(request(chat(stream=True)))
            await eventually(lambda: sent)
            at_rest = -1
            while at_rest != sent:
                at_rest = sent
                await trio.sleep(0.3)
            assert peak_bytes(router.popen.pid) - before < MIB
        assert at_rest < 32 * MIB  # the kernel's buffers
