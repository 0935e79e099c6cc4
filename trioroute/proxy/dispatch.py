"""One attempt: send to the chosen replica, wait for its first bytes, and for the log, then relay.

Nothing reaches the client before the replica's status is known and the decision is durable. What
fails before that is tried elsewhere where that is safe; what fails later ends broken, visibly.
"""

import time

import trio

from eventlog import LogError
from trioroute.events.words import Blame, Outcome
from trioroute.proxy.attempt import Attempt
from trioroute.proxy.errors import RouterError
from trioroute.proxy.first_event import is_event_stream, is_plain, read_first
from trioroute.proxy.gate import LOG_STALLED
from trioroute.proxy.headers import to_upstream
from trioroute.proxy.passage import Chosen, Passage
from trioroute.proxy.relay import Relay
from trioroute.proxy.serving.asgi import BrokenEnding
from trioroute.proxy.serving.hangup import client_gone, client_stalled
from trioroute.proxy.tap import aborted, error_in_events
from trioroute.proxy.upstream.error import UpstreamError
from trioroute.proxy.upstream.message import Answer, Outgoing
from trioroute.proxy.verdict import Trouble, of_error, of_error_event, of_status
from trioroute.router import UNLOGGED


class AttemptRun(Attempt):
    """Runs one attempt; ``run`` says whether the request moves on to another replica."""

    def __init__(self, passage: Passage, chosen: Chosen) -> None:
        super().__init__(passage, chosen)
        self.answer: RouterError | None = None

    async def run(self) -> bool:
        """The dispatch has its one end in the log when this returns or raises."""
        desk, ending = self.desk, self.ending
        relay: Relay | None = None
        try:
            with self.scope:
                relay = await self._open()
                if relay is not None:
                    await relay.run()
            if self.scope.cancelled_caught and not self.passage.answered:
                await self._over_a_limit(relay)
            if self.answer is not None:
                self.close()
                await self._give(self.answer)
            return ending.moves_on and not self.passage.answered
        except Exception:
            if not client_gone(self.passage.scope):
                ending.failed()
            raise
        finally:
            self.close()
            if not ending.settled:
                ending.cancelled(
                    client_gone=client_gone(self.passage.scope),
                    stalled=client_stalled(self.passage.scope),
                )
            desk.watch.close(self.watched)
            desk.end(ending)

    async def _open(self) -> Relay | None:
        """What passes the response on, with its first bytes; or None: then it moves on or
        ``answer`` is set."""
        if self.desk.settings.log.gate == "dispatch" and not await self._gate():
            return None
        try:
            response = await self._send()
            self.stream = response.stream
            self.ending.status = response.status
            self.event_stream, self.readable = is_event_stream(response), is_plain(response)
            trouble = self._status_trouble(response)
            if trouble is not None and self._moves_on(trouble):
                return None
            relay = Relay(self, response)  # its head is ready before the first byte comes
            relay.first = await read_first(self.stream, relay.tells_events)
        except UpstreamError as error:
            self._no_answer(of_error(error), str(error))
            return None
        if response.status == 200 and self.readable:
            trouble = self._trouble_inside(relay.first)
            if trouble is not None and self._moves_on(trouble):
                return None
        if trouble is not None:
            self._settle_trouble(trouble)
        return relay if await self._gate() else None

    async def _send(self) -> Answer:
        passage, desk = self.passage, self.desk
        scope = passage.scope
        upstream = desk.upstreams.of(self.replica, self.address)
        path: bytes = passage.raw_path or scope.get("raw_path") or scope["path"].encode()
        target = upstream.prefix + path
        query = desk.keys.without_keys(scope["query_string"])
        if query:
            target += b"?" + query
        client = scope.get("client")
        headers = to_upstream(
            passage.headers,
            host=upstream.host,
            request_id=passage.upstream_id(self.chosen.number),
            peer=client[0] if client else "unknown",
            scheme=scope.get("scheme", "http"),
            authorization=desk.upstreams.authorizations.get(self.replica),
            forward_client_auth=desk.settings.server.forward_client_auth and not desk.keys,
        )
        if passage.heartbeat is not None:  # between comments in plain text, a coding is noise
            headers = [pair for pair in headers if pair[0] != b"accept-encoding"]
        if passage.body or scope["method"] in ("POST", "PUT", "PATCH"):
            headers.append((b"content-length", str(len(passage.body)).encode("ascii")))
        request = Outgoing(scope["method"], target, headers, passage.body)
        if passage.attempt == 1:
            desk.measure_overhead(time.perf_counter_ns() - passage.started_ns)
        return await upstream.transport.exchange(request)

    def _status_trouble(self, response: Answer) -> Trouble | None:
        status = response.status
        own = self.replica in self.desk.upstreams.authorizations
        if status in (401, 403) and (own or self.desk.keys):
            why = "refused the key this router has for it" if own else "wants a key, and has none"
            self.answer = RouterError(
                "upstream_auth", f"replica {self.replica} {why} (api_key_env)"
            )
            return Trouble("status", "router", status, False)
        busy_ms = self.desk.settings.eject.busy_default_ms
        return of_status(status, response.headers, busy_ms)

    def _trouble_inside(self, first: bytes) -> Trouble | None:
        """RULES 6.12: errors inside a 200, as the status they stand for."""
        assert self.stream is not None
        code = error_in_events(first) if self.event_stream else None
        if code is not None:
            return of_error_event(code, self.desk.settings.eject.busy_default_ms)
        seen_whole = self.event_stream or self.stream.complete
        if seen_whole and self.passage.route.inference and aborted(first):
            return Trouble("abort", "replica", 200, True)
        return None

    def _moves_on(self, trouble: Trouble) -> bool:
        """Whether it is safe, allowed and possible to try another replica; then the end is said."""
        if self.answer is not None:
            self.ending.settle("upstream_error", trouble.cause, trouble.blame)
            return True
        passage = self.passage
        again_500 = trouble.status == 500 and passage.had_500
        passage.had_500 = passage.had_500 or trouble.status == 500
        safe = passage.route.repeatable or not trouble.sent
        if again_500 or not safe or trouble.blame == "router":
            return False
        was_busy = trouble.retry_after_ms is not None
        free = not (trouble.sent or trouble.sent_before)
        if not passage.next_attempt(self.chosen, free=free, was_busy=was_busy):
            return False
        ending = self.ending
        ending.moves_on = True
        ending.status = trouble.status
        ending.retry_after_ms = trouble.retry_after_ms
        ending.settle("unknown", trouble.cause, trouble.blame)
        return True

    def _no_answer(self, trouble: Trouble, message: str) -> None:
        """The replica gave no byte of an answer: move on, or tell the client."""
        if self._moves_on(trouble):
            return
        self.ending.settle("upstream_error", trouble.cause, trouble.blame)
        if trouble.blame == "router":
            self.answer = RouterError("overloaded", f"this router: {message}", None, 1)
        else:
            self.answer = RouterError(
                "upstream_failed",
                f"replica {self.replica} failed before it answered ({trouble.cause}): {message}",
            )

    def _settle_trouble(self, trouble: Trouble) -> None:
        """The trouble is passed on to the client as the replica told it."""
        self.ending.retry_after_ms = trouble.retry_after_ms
        self.ending.status = trouble.status
        busy = trouble.status == 429
        outcome: Outcome = "client_error" if busy else "upstream_error"
        if trouble.cause == "abort":
            outcome = "upstream_cut"
        self.ending.settle(outcome, trouble.cause, trouble.blame)

    async def _gate(self) -> bool:
        """No byte before the decision is durable; False when the log takes nothing any more.

        The wait is not on the replica's account. ``watch`` ends it when it takes too long: a timer
        of its own costs 3 % of a request.
        """
        journal, watched = self.desk.journal, self.watched
        number = self.chosen.number
        if journal.is_durable(number):
            return True
        log = self.desk.settings.log
        if log.on_failure == "serve" or number > UNLOGGED:
            return await self._gate_that_serves(number, log.gate_wait_ms)
        if log.gate == "off":
            self.desk.count_unlogged()
            return True
        phase = watched.phase
        watched.enter("log", self.desk.now_ms())
        try:
            await journal.durable(number)
        except LogError:
            await self._log_stalled()
            return False
        await self.heed_limits()
        watched.enter(phase, self.desk.now_ms())
        return True

    async def _give(self, answer: RouterError) -> None:
        """Answer for the router, behind the gate too; ``watch`` may be done with this attempt."""
        durable = False
        with trio.move_on_after(self.desk.settings.log.gate_wait_ms / 1000) as waiting:
            durable = await self._gate()
        if durable:
            await self.passage.answer(answer, self.own_headers())
        elif waiting.cancelled_caught:
            await self._log_stalled()

    async def _log_stalled(self) -> None:
        self.close()
        if not self.ending.settled:
            self.ending.settle("unknown", "timeout", "router")
        self.ending.moves_on = True
        self.answer = None
        self.desk.gate.give_up()
        await self.passage.refuse(LOG_STALLED)

    async def _gate_that_serves(self, number: int, wait_ms: int) -> bool:
        """The same with ``log.on_failure`` = ``serve``: what takes too long is counted, and goes
        out; while the store is known to fail, nothing waits for it."""
        journal, watched = self.desk.journal, self.watched
        if number > UNLOGGED or journal.failing is not None:
            return self._serve_unlogged()
        phase = watched.phase
        watched.enter("log", self.desk.now_ms())
        try:
            with trio.move_on_after(wait_ms / 1000) as waiting:
                await journal.durable(number)
        except LogError:
            await self._log_stalled()
            return False
        watched.enter(phase, self.desk.now_ms())
        return self._serve_unlogged() if waiting.cancelled_caught else True

    def _serve_unlogged(self) -> bool:
        self.desk.count_unlogged()
        self.desk.router.response_unlogged(self.desk.now_ms())
        return True

    async def _over_a_limit(self, relay: Relay | None) -> None:
        """A limit of time cancelled the attempt: say so, and end what had begun as broken."""
        ending, limit = self.ending, self.watched.broken
        self.close()
        if limit == "log":
            await self._log_stalled()
            return
        if limit == "client_stall":
            ending.settle_unless_settled("client_stall", "timeout", "client")
            raise BrokenEnding
        blame: Blame = "router" if limit == "total" else "replica"
        if relay is not None and relay.began:
            ending.settle_unless_settled("idle_timeout", "timeout", blame)
            await relay.end_early(f"the response ran into the router's {limit} limit")
        elif limit == "stream_grace":
            silent = "it refuses connections and sent no byte for eject.stream_grace"
            self._no_answer(Trouble("timeout", "replica", None, True), silent)
        else:
            ending.settle("first_byte_timeout", "timeout", blame)
            self.answer = RouterError(
                "first_byte_timeout",
                f"replica {self.replica} sent no byte in time (timeouts.{limit})",
            )
