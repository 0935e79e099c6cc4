"""What belongs to one attempt: its decision, its ending, its limits, its connection."""

import trio

from trioroute.proxy.ending import Ending
from trioroute.proxy.errors import RouterError
from trioroute.proxy.passage import Chosen, Passage
from trioroute.proxy.upstream.message import UpstreamStream


class Attempt:
    """The state that sending (``dispatch``) and passing on (``relay``) share."""

    def __init__(self, passage: Passage, chosen: Chosen) -> None:
        self.passage = passage
        self.desk = passage.desk
        self.chosen = chosen
        self.replica = chosen.event.replica
        # Looked up now: the replica may leave the fleet before the request is sent.
        self.address = self.desk.router.state.fleet.replicas[self.replica].url
        self.ending = Ending(chosen.number, passage.desk.now_ms())
        self.scope = trio.CancelScope()
        self.watched = self.desk.watch.open(self.replica, self.scope)
        self._answer: RouterError | None = None
        self.stream: UpstreamStream | None = None
        self.event_stream = False
        self.readable = False
        """The bytes of the answer are what its type says, not compressed."""

    @property
    def answer(self) -> RouterError | None:
        """What the router tells the client in the replica's stead."""
        return self._answer

    @answer.setter
    def answer(self, told: RouterError | None) -> None:
        """Here, not where each text is made: none can give away what ``server.reveal`` hides."""
        reveal = self.desk.router.state.settings.server.reveal
        self._answer = told if told is None or reveal else told.without_replica(self.replica)

    async def heed_limits(self) -> None:
        """Raises trio.Cancelled if a limit was over in the very turn that ended the last wait.

        To be asked before something is begun that a cancellation would leave half done.
        """
        if self.watched.broken is not None:
            await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Let go of the replica's connection."""
        if self.stream is not None:
            self.stream.close()

    def own_headers(self) -> list[tuple[bytes, bytes]]:
        """The response headers that tell where the request went and why (HTTP.md)."""
        router = self.desk.router
        headers = []
        name = router.decision_name(self.chosen.number)
        if name is not None:
            headers.append((b"x-trioroute-decision", name.encode()))
        headers.append((b"x-trioroute-attempts", b"%d" % self.passage.attempt))
        if router.state.settings.server.reveal:
            headers.append((b"x-trioroute-replica", self.replica.encode()))
            headers.append((b"x-trioroute-reason", self.chosen.event.reason.encode("ascii")))
        return headers
