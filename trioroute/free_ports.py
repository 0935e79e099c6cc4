"""Whether the router's ports can be had, asked before the log is opened and a run begins in it."""

import socket
from collections.abc import Mapping

from trioroute.settings import parse_address


def check_ports(addresses: Mapping[str, str]) -> None:
    """``addresses`` by the option that sets them. Raises OSError that names port and remedy."""
    for option, address in addresses.items():
        host, port = parse_address(address)
        try:
            family, kind, protocol, _, where = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(where)
        except OSError as error:
            raise OSError(
                f"cannot listen on {address} ({error.strerror or error}): "
                f"stop what listens there, or choose another with {option}"
            ) from error
