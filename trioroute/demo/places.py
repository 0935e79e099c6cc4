"""Where a demo may be: ports that are free, a log that no other one writes."""

import socket
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from eventlog.errors import LogOwned
from eventlog.ownership import Ownership

NEAR = 10
"""So many ports above the wanted one, and logs beside the wanted one, are tried."""


def free_addresses(first_port: int, count: int, *, beside: str = "") -> list[str]:
    """So many different ``127.0.0.1:port``: from ``first_port`` on, where all of the nearest ones
    are taken any free one. ``beside`` is one that is spoken for already.

    Raises OSError if none is free.
    """
    found = [beside]
    port = first_port
    while len(found) <= count:
        near = range(port, min(port + NEAR, 65_536)) if first_port else ()
        address = next(_free((*near, 0), found))
        found.append(address)
        port = max(port + 1, int(address.rpartition(":")[2]) + 1) if near else first_port
    return found[1:]


def _free(ports: Iterable[int], taken: Collection[str]) -> Iterator[str]:
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        if address not in taken:
            yield address
    raise OSError("no free port on 127.0.0.1")


def free_log(wanted: Path) -> Path:
    """The wanted directory, or ``wanted-2`` and so on if a router writes there; it is made.

    Raises LogError where it cannot be made, or where all of them are written to.
    """
    directory = wanted
    for number in range(2, NEAR + 2):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            Ownership.take(directory).release()
        except LogOwned:
            if number > NEAR:
                raise
        else:
            break
        directory = wanted.with_name(f"{wanted.name}-{number}")
    return directory
