"""The first bytes of a response, as much as has to be seen before anything is passed on."""

from trioroute.proxy.tap import cut_in_event
from trioroute.proxy.upstream.error import UpstreamError
from trioroute.proxy.upstream.message import Answer, UpstreamStream
from trioroute.proxy.upstream.response_parser import FEW_BYTES

FIRST_EVENT_MAX = 64 * 1024


def is_event_stream(answer: Answer) -> bool:
    return answer.header(b"content-type").lower().startswith(b"text/event-stream")


def is_plain(answer: Answer) -> bool:
    """Whether the bytes are what the type says; compressed ones are passed on unread."""
    return answer.header(b"content-encoding").strip().lower() in (b"", b"identity")


async def read_first(stream: UpstreamStream, whole_event: bool) -> bytes:
    """What is here of the body, up to 64 KiB, but at least the first chunk, and of an event stream
    its first block; b"" for an empty body.

    A comment is a block too: engines send comments to keep connections open while they prefill.
    Raises UpstreamError when the body breaks off before that: nothing was passed on yet.
    """
    first = await next_chunk(stream)
    if first is None:
        return b""
    if len(first) > FEW_BYTES // 2:  # more than one receive may be here, and what it says counts
        while len(first) < FIRST_EVENT_MAX and not stream.complete and (more := stream.read_now()):
            first += more
    if not whole_event:
        return first
    seen = 0
    while not _has_block(first, seen) and len(first) < FIRST_EVENT_MAX:
        seen = max(0, len(first) - 3)  # an end may have begun in what is here
        chunk = await next_chunk(stream)
        if chunk is None:
            if stream.until_close and cut_in_event(first):
                raise UpstreamError("fin", "the replica closed in its first event", sent=True)
            break
        first += chunk
    return first


def _has_block(data: bytes, start: int) -> bool:
    find = data.find
    return find(b"\n\n", start) >= 0 or find(b"\r\n\r\n", start) >= 0 or find(b"\r\r", start) >= 0


async def next_chunk(stream: UpstreamStream) -> bytes | None:
    """What the replica sent next; None at its own end. Raises UpstreamError for any other end."""
    try:
        return await stream.__anext__()
    except StopAsyncIteration:
        return None
