"""The listening sockets: options that every accepted connection inherits."""

import socket

import trio

from trioroute.proxy.serving.limits import ServerLimits

PROBE_IDLE_S = 60
PROBE_INTERVAL_S = 15


async def listen_on(listen: list[str], limits: ServerLimits) -> list[socket.socket]:
    """Bound, non-blocking sockets for "HOST:PORT" or "[V6]:PORT"; port 0 takes a free one.

    Raises ValueError for an address that cannot be read, OSError for one that cannot be bound;
    both name it.
    """
    sockets: list[socket.socket] = []
    try:
        for address in listen:
            sockets.append(_bind(address, await _resolve(address), limits))  # noqa: PERF401 - what is bound must be closed when a later one fails
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


async def _resolve(address: str) -> tuple[socket.AddressFamily, tuple[str, int]]:
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f'listen address {address!r} is not "HOST:PORT" or "[IPV6]:PORT"')
    try:
        found = await trio.socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise OSError(error.errno, f"cannot resolve listen address {address!r}: {error}") from error
    # A name such as localhost: IPv4 first, as clients that are told "localhost" try both.
    family, _, _, _, where = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, (str(where[0]), int(where[1]))


def _bind(
    address: str, resolved: tuple[socket.AddressFamily, tuple[str, int]], limits: ServerLimits
) -> socket.socket:
    family, where = resolved
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Gives up a client that vanished or stopped reading while bytes for it are in the kernel's
        # buffer, which a stream of tokens does not fill in minutes (wire.py tells it by ETIMEDOUT).
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limits.client_stall_ms)
        # Finds a client that vanished without a word while its request runs.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_IDLE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_INTERVAL_S)
        sock.bind(where)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen on {address}: {error.strerror}") from error
    return sock
