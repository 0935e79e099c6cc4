"""The TLS context of a port, which may be replaced while the port serves."""

import ssl

import attrs


@attrs.define
class Renewable:
    """Stands where Trio's listener takes a context, and gives each new handshake the present one.

    Connections keep the context they began with. A live context could take another certificate
    too, but half of it if the key behind it is bad.
    """

    context: ssl.SSLContext = attrs.field(repr=False)

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
    ) -> ssl.SSLObject:
        """As SSLContext."""
        return self.context.wrap_bio(incoming, outgoing, server_side, server_hostname)
