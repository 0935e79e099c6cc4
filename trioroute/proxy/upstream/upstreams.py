"""The connections to each replica, by name, remade when a replica's address changes."""

from collections.abc import Mapping
from urllib.parse import urlsplit

import attrs
import trio

from trioroute.proxy.upstream.transport import ReplicaTransport

SWEEP_EVERY_S = 1.0


@attrs.frozen
class Upstream:
    """``prefix`` goes before every path; ``host`` is the ``Host`` header probes use too."""

    address: str
    host: bytes
    prefix: bytes
    transport: ReplicaTransport


@attrs.define
class Upstreams:
    """``authorizations`` holds the ``authorization`` values of replicas with a key of their own.

    They are never logged and never shown.
    """

    connect_timeout_s: float
    authorizations: Mapping[str, bytes] = attrs.field(repr=False, factory=dict)
    _known: dict[str, Upstream] = attrs.field(factory=dict, init=False)

    def of(self, name: str, address: str) -> Upstream:
        known = self._known.get(name)
        if known is not None and known.address == address:
            return known
        self.forget(name)
        parts = urlsplit(address)
        upstream = Upstream(
            address,
            parts.netloc.encode("ascii"),
            parts.path.rstrip("/").encode("ascii"),
            ReplicaTransport(
                f"{parts.scheme}://{parts.netloc}", connect_timeout_s=self.connect_timeout_s
            ),
        )
        self._known[name] = upstream
        return upstream

    def renew(self, connect_timeout_s: float, authorizations: Mapping[str, bytes]) -> None:
        """The configuration changed; connections of another connect limit are made anew."""
        self.authorizations = authorizations
        if connect_timeout_s != self.connect_timeout_s:
            self.connect_timeout_s = connect_timeout_s
            for name in list(self._known):
                self.forget(name)

    def forget(self, name: str) -> None:
        """The replica left: close what is kept open, and what is in use when it comes back."""
        known = self._known.pop(name, None)
        if known is not None:
            known.transport.close()

    def distrust(self, name: str) -> None:
        """Close what is kept open: the replica was seen to be gone."""
        known = self._known.get(name)
        if known is not None:
            known.transport.close_idle()

    async def keep_fresh(self) -> None:
        """Close, until cancelled, kept connections as they die: no request may come for hours."""
        while True:
            await trio.sleep(SWEEP_EVERY_S)
            for known in list(self._known.values()):
                known.transport.sweep()
                await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        for known in self._known.values():
            await known.transport.aclose()
