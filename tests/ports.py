"""Ports of loopback that a test may give to the processes it starts, and nobody else gets."""

import os
import socket
from collections import deque

HELD_MAX = 256
"""So many of the last ports are held; no test asks for a tenth of them."""

_held: deque[int] = deque()


def free_port() -> int:
    """A port that refuses until something listens there, whichever test begins meanwhile.

    Its socket stays open here, bound and not listening: the system gives such a port to no other
    process that asks for any, nor to a connection on its way out, and lets one have it that names
    it with SO_REUSEADDR, as servers do. A port that is asked for and let go may be another's before
    it is used.
    """
    while len(_held) >= HELD_MAX:
        os.close(_held.popleft())
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    port: int = sock.getsockname()[1]
    _held.append(sock.detach())
    return port
