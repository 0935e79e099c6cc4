"""Words to the service manager that started this process: sd_notify(3), without a library.

systemd gives the address of a datagram socket in NOTIFY_SOCKET; without one nobody is told.
"""

import os
import socket
from collections.abc import Mapping

READY = "READY=1"
STOPPING = "STOPPING=1"


def tell_supervisor(*words: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Send ``words``; False if nobody listens. A supervisor that is gone stops no router."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]  # Linux' abstract namespace, unix(7)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
        try:
            sender.sendto("\n".join(words).encode(), address)
        except OSError:
            return False
    return True
