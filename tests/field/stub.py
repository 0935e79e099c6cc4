"""A scripted replica that also has the pages a router reads: health, models and metrics."""

from collections.abc import Awaitable, Callable

import attrs
import trio

from tests.proxy.replies import reply
from tests.proxy.scripted import Peer, Script, replica

Page = Callable[[Peer], Awaitable[None]]
MODEL = "m"


def load_page(running: object, waiting: object, kv: object = 0.1, model: str = MODEL) -> bytes:
    """A metrics page with vLLM's names."""
    label = f'{{engine="0",model_name="{model}"}}'
    lines = (
        f"vllm:num_requests_running{label} {running}",
        f"vllm:num_requests_waiting{label} {waiting}",
        f"vllm:kv_cache_usage_perc{label} {kv}",
    )
    return "\n".join([*lines, ""]).encode()


@attrs.define
class Stub:
    """``script`` gets the connections that carry requests; the pages are answered here.

    ``page`` is the whole metrics text, or a script of its own for its connection. ``peers`` are the
    connections of clients, not those of scrapes. ``key_env`` names the variable with the key that
    the router is given for it.
    """

    script: Script
    page: bytes | Page = attrs.field(factory=lambda: load_page(0, 0))
    models: tuple[str, ...] = (MODEL,)
    key_env: str = ""
    name: str = ""
    port: int = 0
    peers: list[Peer] = attrs.field(factory=list)
    scrapes: int = 0
    open_scrapes: int = 0
    most_open_scrapes: int = 0
    accept_delay_s: Callable[[], float] | None = None
    """How long the next connection waits until it is accepted, if it waits."""
    most_open: int = 0
    _up: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def open(self) -> int:
        """Connections of clients' requests that the router still holds."""
        return sum(not peer.gone.is_set() for peer in self.peers)

    async def __call__(self, peer: Peer) -> None:
        first = await peer.request()
        if not first:
            return
        path = first.split(b" ", 2)[1]
        if path == b"/metrics":
            await self._scraped(peer)
        elif path in (b"/health", b"/v1/models") and first.startswith(b"GET"):
            data = ",".join(f'{{"id":"{model}"}}' for model in self.models)
            await peer.send(reply(f'{{"data":[{data}]}}'.encode()))
        else:
            self.peers.append(peer)
            self.most_open = max(self.most_open, self.open)
            peer.received = first + peer.received
            await self.script(peer)

    async def _scraped(self, peer: Peer) -> None:
        self.scrapes += 1
        self.open_scrapes += 1
        self.most_open_scrapes = max(self.most_open_scrapes, self.open_scrapes)
        try:
            if callable(self.page):
                await self.page(peer)
            else:
                await peer.send(reply(self.page, 200, "content-type: text/plain"))
        finally:
            self.open_scrapes -= 1

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen, on the old port if there was one, until ``stop``."""

        async def late() -> None:
            if self.accept_delay_s is not None:
                await trio.sleep(self.accept_delay_s())

        with trio.CancelScope() as self._up:
            async with replica(self, port=self.port, before_accept=late) as made:
                self.port = made.port
                task_status.started()
                await trio.sleep_forever()

    def stop(self) -> None:
        """Close the port and every connection; ``Site.start`` lets it listen again."""
        self._up.cancel()
