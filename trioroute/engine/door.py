"""The listener: accepts connections, and refuses them for a while when the fault asks for it."""

import socket
from functools import partial

import attrs
import trio

from trioroute.engine.connection import Connection, Respond
from trioroute.engine.faults import FaultDesk

_BACKLOG = 1024


@attrs.define(eq=False)
class Door:
    """One listening socket. Raises OSError if the address cannot be bound."""

    host: str
    port: int
    _socket: socket.socket = attrs.field(init=False)
    _open: set[Connection] = attrs.field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        """Binds and listens at once, so that port 0 is a real port from here on."""
        self._socket = self._bound()
        self.port = self._socket.getsockname()[1]
        self._socket.listen(_BACKLOG)

    @property
    def url(self) -> str:
        """Where clients find it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def serve(self, respond: Respond, desk: FaultDesk) -> None:
        """Accepts for ever, except while the fault `refuse` is in force."""
        try:
            async with trio.open_nursery() as clients:
                while True:
                    listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._socket))
                    async with trio.open_nursery() as shift:
                        shift.start_soon(
                            partial(
                                trio.serve_listeners,
                                partial(self._serve_one, respond, desk),
                                [listener],
                                handler_nursery=clients,
                            )
                        )
                        await desk.until(lambda faults: faults.refuse)
                        shift.cancel_scope.cancel()
                    await self._refuse(desk)
        finally:
            self._socket.close()

    async def _serve_one(
        self, respond: Respond, desk: FaultDesk, stream: trio.SocketStream
    ) -> None:
        connection = Connection(stream, respond, lambda: not desk.now.refuse)
        self._open.add(connection)
        try:
            await connection.run()
        finally:
            self._open.remove(connection)

    async def _refuse(self, desk: FaultDesk) -> None:
        """A bound socket that does not listen keeps the port: the system refuses connections."""
        self._socket.close()
        self._socket = self._bound()
        for connection in self._open:
            if connection.idle:
                connection.scope.cancel()
        with trio.move_on_after(desk.now.refuse_s or 0):
            await desk.until(lambda faults: not faults.refuse)
        self._socket.listen(_BACKLOG)
        if desk.now.refuse:
            desk.replace(attrs.evolve(desk.now, refuse=False, refuse_s=None))

    def _bound(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((self.host, self.port))
            bound.setblocking(False)
        except OSError:
            bound.close()
            raise
        return bound
