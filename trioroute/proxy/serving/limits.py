"""The bounds of the server: what one client may make it hold, and for how long."""

import attrs


@attrs.frozen
class ServerLimits:
    """Every buffer and every wait of a client connection ends at one of these.

    Sizes are bytes, `_s` seconds, `_ms` milliseconds.
    """

    header_bytes: int = 64 * 1024
    """Request line and headers together; more is 431."""
    header_count: int = 128
    """Header lines of one request; more is 431."""
    url_bytes: int = 8 * 1024
    """Request target; more is 414. RFC 9112 section 3 asks for at least 8000."""
    body_bytes: int = 64 * 1024 * 1024
    """Request body, after removal of the chunk framing; more is 413."""
    body_setting: str = ""
    """The setting that ``body_bytes`` is of, for who may raise it."""
    keep_alive_s: float = 75.0
    """Silence between the end of a response and the next request. Above the usual 60 s of load
    balancers, so that the side which may retry safely is the side which closes."""
    header_timeout_s: float = 30.0
    """From the first byte of a head to its last."""
    body_timeout_s: float = 60.0
    """What each 16 KiB of a request body may take; see pace.py."""
    client_stall_ms: int = 60_000
    """A client that takes no byte of a response for this long is given up."""
    graceful_timeout_s: float = 120.0
    """After shutdown: how long requests in flight may still take."""
    max_connections: int = 8192
    """Open client connections; one more is answered 503 and closed."""
    backlog: int = 1024
    """Connections the kernel queues before they are accepted."""
