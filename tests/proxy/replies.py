"""What scripted replicas say: whole responses, pieces of streams, and ways to fail."""

import json
from collections.abc import Callable

import attrs
import trio

from tests.proxy.scripted import Peer, Replica, Script


def reply(body: bytes = b'{"ok":true}', status: int = 200, *headers: str) -> bytes:
    """A whole response with its length."""
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", *headers]
    if not any(line.lower().startswith("content-type") for line in headers):
        lines.append("content-type: application/json")
    return "\r\n".join([*lines, "", ""]).encode() + body


def stream_head(*headers: str) -> bytes:
    """The head of a chunked event stream."""
    lines = ["HTTP/1.1 200 OK", "content-type: text/event-stream", "transfer-encoding: chunked"]
    return "\r\n".join([*lines, *headers, "", ""]).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def event(fields: object) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def token(text: str, finish: str | None = None) -> bytes:
    return event({"id": "c1", "choices": [{"delta": {"content": text}, "finish_reason": finish}]})


def error(code: object, message: str = "boom") -> bytes:
    return event({"error": {"message": message, "type": "x", "param": None, "code": code}})


def stream(*events: bytes) -> bytes:
    """A whole event stream, one chunk an event."""
    return stream_head() + b"".join(map(chunk, events)) + LAST


GOOD_STREAM = (token("a"), token("b", "stop"), DONE)


async def dies(peer: Peer) -> None:
    """Takes a request and closes."""
    await peer.request()


async def silent(peer: Peer) -> None:
    """Takes a request and never answers."""
    await peer.request()
    await peer.wait_gone()


def says(*pieces: bytes, hang: bool = False) -> Script:
    """Answers each request with the pieces, each in its own segment; then closes, or hangs."""

    async def script(peer: Peer) -> None:
        while await peer.request():
            for piece in pieces:
                await peer.send(piece)
                await trio.sleep(0.002)
            if hang:
                await peer.wait_gone()
            return

    return script


def heads(made: Replica) -> Callable[[], int]:
    """How many connections a replica saw."""
    return lambda: len(made.peers)


@attrs.define
class Recorder:
    """A keep-alive replica that keeps every request it got."""

    response: bytes = attrs.field(factory=reply)
    requests: list[bytes] = attrs.field(factory=list)

    async def __call__(self, peer: Peer) -> None:
        while taken := await peer.request():
            self.requests.append(taken)
            await peer.send(self.response)

    def headers(self, index: int = -1) -> list[tuple[str, str]]:
        lines = self.requests[index].partition(b"\r\n\r\n")[0].decode("utf-8").split("\r\n")
        return [(name, value) for name, _, value in (line.partition(": ") for line in lines[1:])]

    def header(self, name: str) -> str:
        """The one header of this name."""
        (value,) = [value for key, value in self.headers() if key == name]
        return value

    def body(self, index: int = -1) -> bytes:
        return self.requests[index].partition(b"\r\n\r\n")[2]

    def line(self, index: int = -1) -> str:
        return self.requests[index].partition(b"\r\n")[0].decode()
