"""How a dispatch ends: filled in on the way, turned into its one final command by a ``finally``."""

import attrs

from trioroute.events.words import Blame, Cause, Outcome
from trioroute.policy.commands import Fail, Finish
from trioroute.proxy.tap import Tap


@attrs.define(slots=True)
class Ending:
    """Starts as what is true if nothing more is said: the router dropped the request.

    ``moves_on``: no byte reached the client and the request will be chosen again.
    """

    dispatch: int
    started_ms: int
    outcome: Outcome = "unknown"
    cause: Cause = "none"
    blame: Blame = "router"
    status: int | None = None
    first_byte_ms: int | None = None
    retry_after_ms: int | None = None
    moves_on: bool = False
    settled: bool = False
    response: str | None = None
    tap: Tap = attrs.field(factory=Tap)

    def settle(self, outcome: Outcome, cause: Cause, blame: Blame) -> None:
        self.outcome = outcome
        self.cause = cause
        self.blame = blame
        self.settled = True

    def settle_unless_settled(self, outcome: Outcome, cause: Cause, blame: Blame) -> None:
        """What the answer said before stays how it ended."""
        if not self.settled:
            self.settle(outcome, cause, blame)

    def failed(self) -> None:
        """An exception of the router's own ended it, if nothing else was settled."""
        self.settle_unless_settled("unknown", "none", "router")

    def cancelled(self, *, client_gone: bool, stalled: bool) -> None:
        """The task was cancelled before anything else was settled.

        ``stalled``: it is gone because it had taken no byte for the whole limit. The kernel and
        the server give such a client up too, each by its own clock.
        """
        if self.settled:
            return
        if client_gone and stalled:
            self.settle("client_stall", "timeout", "client")
        elif client_gone:
            self.settle("client_gone", "cancelled", "client")
        else:
            self.settle("shutdown", "shutdown", "router")

    def command(self, at_ms: int) -> Fail | Finish:
        if self.moves_on:
            return Fail(
                at_ms=at_ms,
                dispatch=self.dispatch,
                cause=self.cause,
                blame=self.blame,
                status=self.status,
                retry_after_ms=self.retry_after_ms,
            )
        prompt, completion = self.tap.usage()
        first = self.first_byte_ms
        return Finish(
            at_ms=at_ms,
            dispatch=self.dispatch,
            outcome=self.outcome,
            cause=self.cause,
            blame=self.blame,
            status=self.status,
            ttfb_ms=None if first is None else max(0, first - self.started_ms),
            duration_ms=max(0, at_ms - self.started_ms),
            bytes=self.tap.bytes,
            prompt_tokens=prompt,
            completion_tokens=completion,
            response=self.response,
            retry_after_ms=self.retry_after_ms,
        )
