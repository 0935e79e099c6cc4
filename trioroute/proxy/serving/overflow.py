"""One connection too many: the clear refusal, for an effort that is bounded."""

import os
from contextlib import suppress

import attrs
import h2.config
import h2.connection
import trio
from h2.errors import ErrorCodes

from trioroute.proxy.serving.hub import Hub
from trioroute.proxy.serving.refusal import Refusal
from trioroute.proxy.serving.secure import HANDSHAKE, SecureWire
from trioroute.proxy.serving.tls import Renewable
from trioroute.proxy.serving.wire import ClientGone

SHAKES_A_SECOND = 10
"""A handshake is 1.5 ms of CPU with a key of RSA 2048 and 0.7 ms with P-256: 1.5 % of a core at
most, taken from the streams of those who did get in. Without a bound, whoever connects in a loop
would take all of it, and with none at all a TLS client would only see its connection closed."""
SHAKES_AT_ONCE = 8
"""Each holds a descriptor, of which few are left by now."""
TOLD_S = 2.0
"""For handshake, answer and end; a client that takes longer is closed."""


@attrs.define(eq=False)
class Overflow:
    """Turns away who comes over the limit of connections. ``tls``: what the port speaks with."""

    hub: Hub
    tls: Renewable | None
    _under_way: int = attrs.field(default=0, init=False)
    _credit: float = attrs.field(default=SHAKES_A_SECOND, init=False)
    _seen_s: float = attrs.field(factory=trio.current_time, init=False)

    async def turn_away(self, stream: trio.SocketStream) -> None:
        """Answer, and close. Plain HTTP without a wait; TLS within TOLD_S, if its turn comes."""
        most = self.hub.limits.max_connections
        refusal = Refusal(
            503,
            "overloaded",
            f"as many connections are open as this server takes ({most}): try again; who runs it "
            "can raise its limit of open files, or add a server",
        )
        self.hub.refused(refusal.code)
        try:
            if self.tls is None:
                os.write(stream.socket.fileno(), self.hub.addressed(refusal, b"").response())
            elif self._may_shake():
                await self._tell(stream, self.tls, refusal)
        finally:
            stream.socket.close()

    def _may_shake(self) -> bool:
        now_s = trio.current_time()
        gained = self._credit + (now_s - self._seen_s) * SHAKES_A_SECOND
        self._credit = min(gained, float(SHAKES_A_SECOND))
        self._seen_s = now_s
        if self._credit < 1 or self._under_way >= SHAKES_AT_ONCE:
            return False
        self._credit -= 1
        return True

    async def _tell(self, stream: trio.SocketStream, tls: Renewable, refusal: Refusal) -> None:
        wire = SecureWire(stream, self.hub.limits.client_stall_ms, tls)
        self._under_way += 1
        try:
            with trio.move_on_after(TOLD_S), suppress(ClientGone):
                data = await wire.read()
                if data[:1] != HANDSHAKE:
                    return
                await wire.shake(data, float("inf"))
                if wire.alpn == "h2":
                    await wire.write((_farewell(refusal),))
                else:
                    await wire.write((self.hub.addressed(refusal, b"").response(),))
                wire.finish_writing()
                while await wire.read():  # a close over unread bytes would reset the answer away
                    pass
        finally:
            self._under_way -= 1
            wire.close()


def _farewell(refusal: Refusal) -> bytes:
    """HTTP/2 has no answer without a request: GOAWAY, which says that none was heard, and why."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    connection.initiate_connection()
    connection.close_connection(
        ErrorCodes.ENHANCE_YOUR_CALM, str(refusal).encode(), last_stream_id=0
    )
    return connection.data_to_send()
