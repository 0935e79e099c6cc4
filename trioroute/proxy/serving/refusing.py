"""How a connection is told no, or closed behind an answer: what was said leaves, and arrives."""

from contextlib import suppress

import trio

from trioroute.proxy.serving.hub import Asked, Hub
from trioroute.proxy.serving.refusal import MIXED_UP, Refusal
from trioroute.proxy.serving.wire import ClientGone, Wire

LINGER_S = 10.0
LINGER_BYTES = 256 * 1024 * 1024
ENDING_BYTES = 1024 * 1024


async def refuse(hub: Hub, wire: Wire, refusal: Refusal, asked: Asked) -> None:
    """Answer, then ``linger``. ``asked`` is what is known of the head of the request."""
    hub.refused(refusal.code)
    if refusal in MIXED_UP:
        with suppress(OSError):  # it is gone
            # Our port and not the client's address, which is in nothing that a router writes.
            hub.tell(f"{refusal.message} (port {wire.stream.socket.getsockname()[1]})")
    try:
        await wire.write((hub.addressed(refusal, asked).response(),))
    except (ClientGone, trio.ClosedResourceError):
        return
    await linger(hub, wire)


async def linger(hub: Hub, wire: Wire) -> None:
    """Say that nothing more comes, and read on for a while: a close with unread bytes would reset
    the answer away.

    RFC 9112 section 9.6. Bounded by LINGER_S and LINGER_BYTES; at the end of a shutdown only what
    is here is read.
    """
    wire.finish_writing()
    hub.set_idle(wire, True)  # a shutdown need not wait for this
    wire.deadline = hub.deadline(LINGER_S)
    left = ENDING_BYTES if hub.ending else LINGER_BYTES
    with suppress(trio.ClosedResourceError):
        while left > 0:
            data = wire.read_now() if hub.ending else await wire.read()
            if not data:
                return
            left -= len(data)
