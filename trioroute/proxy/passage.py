"""One request on its way through the router: read, choose, attempt, and choose again if it failed.

read body -> profile -> handle(Arrive) -> Dispatched | Refused | wait in line
                          ^                  |
                          |                  v
                          +-- Fail ----- one attempt (dispatch.py) -> Released
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast
from urllib.parse import quote

import attrs
import trio

from eventlog import JournalFull, LogError
from trioroute.events import Dispatched, Refused
from trioroute.events.words import RefusalCode
from trioroute.policy.commands import DRAWS, Arrive, Refuse
from trioroute.policy.keys import digest_key
from trioroute.policy.profile import Profile
from trioroute.policy.weigh import weight_m
from trioroute.proxy.alias import PIECE_BYTES, Span, pieces_with_model
from trioroute.proxy.bodies.facts import Facts, Nameless
from trioroute.proxy.body import UnusableBody, plain_body
from trioroute.proxy.desk import SHUTTING_DOWN, Desk
from trioroute.proxy.errors import RouterError
from trioroute.proxy.headers import RawHeaders, header_value
from trioroute.proxy.heartbeat import Heartbeat
from trioroute.proxy.intake import Intake
from trioroute.proxy.paths import Route
from trioroute.proxy.reply import send_error
from trioroute.proxy.serving.asgi import Receive, Scope, Send
from trioroute.proxy.serving.gathering import Gathered
from trioroute.proxy.tap import Tap
from trioroute.settings import ApiKey

FULL = RouterError("overloaded", "every replica that may take this request is full", None, 1)


@attrs.frozen(slots=True)
class Chosen:
    """A decision that was applied; ``number`` is the version of its event."""

    number: int
    event: Dispatched


@attrs.define(slots=True, eq=False)
class Passage:
    """Everything about one request that outlives an attempt; ``waited_ms``: in line for this."""

    desk: Desk
    scope: Scope
    send: Send
    route: Route
    headers: RawHeaders
    request_id: str
    key: ApiKey | None = None
    raw_path: bytes = b""
    """The path for the replica, where it is not that of the request."""
    chosen: Chosen | None = None
    """The last decision taken for it."""
    body: bytes = b""
    profile: Profile | None = None
    attempt: int = 0
    tried: tuple[str, ...] = ()
    earlier: tuple[int, ...] = ()
    had_500: bool = False
    waited_ms: int = 0
    answered: bool = False
    streams: bool = False
    heartbeat: Heartbeat | None = None
    started_ns: int = attrs.field(factory=time.perf_counter_ns)

    @property
    def key_name(self) -> str | None:
        return None if self.key is None else self.key.name

    async def read(self, receive: Receive) -> bool:
        """Read body and profile; False when the request was answered with an error."""
        message = await receive()
        self.body = message.get("body", b"")
        try:
            await self._read_profile()
        except UnusableBody as unusable:
            await self.refuse(unusable.error)
            return False
        return True

    async def _read_profile(self) -> None:
        self.started_ns = time.perf_counter_ns()
        desk, body = self.desk, self.body
        intake = Intake(
            desk.router.state,
            desk.secret,
            self.scope["method"],
            self.route,
            self.headers,
            self.key.project if self.key is not None else "",
        )
        facts = await desk.bodies.facts(intake.question(), body)
        if isinstance(facts, Nameless):
            facts = await desk.bodies.facts(intake.question(intake.model_of(facts)), body)
            assert isinstance(facts, Facts)
        self.profile, self.streams = facts.profile, facts.streams
        if facts.spans:
            await self._name_the_model(facts.profile.model, facts.spans)
        elif self.route.model not in (None, facts.profile.model):
            self.raw_path = b"/v1/models/" + quote(facts.profile.model, safe="").encode("ascii")

    async def _name_the_model(self, model: str, spans: Sequence[Span]) -> None:
        """A replica is asked for a model by its own name, whatever alias the client used."""
        plain = self.body
        if header_value(self.headers, b"content-encoding") is not None:
            limit = self.desk.settings.server.max_body_bytes
            plain = await trio.to_thread.run_sync(plain_body, self.headers, plain, limit)
        renamed = Gathered(len(plain) + len(spans) * len(model))
        for piece in pieces_with_model(self.headers, plain, spans, model):
            renamed.add(piece)
            if len(piece) == PIECE_BYTES:
                await trio.lowlevel.checkpoint()
        self.body = renamed.whole()
        self.headers = [pair for pair in self.headers if pair[0] != b"content-encoding"]

    async def choose(self) -> Chosen | None:
        """Take the decision; None when the request was refused and answered instead.

        Who finds others waiting for the same model stands behind them (RULES 4.7).
        """
        assert self.profile is not None
        desk = self.desk
        self.attempt, self.waited_ms = self.attempt + 1, 0
        if (turned_away := desk.turned_away(begun=self.attempt > 1)) is not None:
            await self.refuse(turned_away)
            return None
        if self.attempt == 1:
            desk.budget.request(desk.now_ms())
        decided = None if desk.line.forms(self.profile.model) else self._decide()
        if decided is None:
            decided = await self._wait_in_line(self.profile.model)
        if isinstance(decided, RouterError):
            await self.answer(decided)
            return None
        self.chosen = decided
        return decided

    async def _wait_in_line(self, model: str) -> Chosen | RouterError:
        """Decide anew at each call. Nothing suspends between a decision and this one's return."""
        line, limits, joined_ms = self.desk.line, self.desk.settings.admission, self.desk.now_ms()
        ticket = line.join(model, limits.max_waiting, **self._claim(model))
        if ticket is not None:
            try:
                with trio.move_on_after(limits.max_wait_ms / 1000):
                    while True:
                        await line.called(ticket)
                        self.waited_ms = max(0, self.desk.now_ms() - joined_ms)
                        if ticket.turned_away or self.desk.grace_over:
                            break
                        decided = self._decide()
                        if decided is not None:
                            return decided
                        if self.tried:
                            line.call_after(ticket)
            finally:
                line.leave(ticket)
            self.waited_ms = max(0, self.desk.now_ms() - joined_ms)
        error = SHUTTING_DOWN if self.desk.grace_over else FULL
        self.log_refusal(error.code)
        return error

    def _claim(self, model: str) -> dict[str, Any]:
        """By what a place in the line is given: the key, and the weight of what it asks."""
        assert self.profile is not None
        cost_m = weight_m(self.desk.router.state, model, self.profile.prompt_bytes)
        if self.key is None:
            return {"cost_m": cost_m}
        return {"key": self.key.name, "cost_m": cost_m, "weight": self.key.weight}

    def next_attempt(self, failed: Chosen, *, free: bool, was_busy: bool) -> bool:
        """Whether the request may move on and would find a replica; then ``failed`` is noted.

        ``free``: the failed replica cannot have worked on it, so no budget is asked.
        """
        desk = self.desk
        retries = desk.settings.retries
        if self.attempt > retries.max:
            return False
        before = (self.tried, self.earlier)
        self.tried += (failed.event.replica,)
        self.earlier += (failed.number,)
        arrive = self._arrive(self.attempt + 1)
        if desk.could_move(arrive, was_busy=was_busy) and (
            free or desk.budget.try_again(arrive.at_ms, retries.budget_m)
        ):
            return True
        self.tried, self.earlier = before
        return False

    def upstream_id(self, number: int) -> str:
        """The request id for a replica: engines break on two live requests of one id."""
        again = self.desk.in_use.get(self.request_id, 0) > 1
        return f"{self.request_id}-{number}" if again else self.request_id

    def response_digest(self, tap: Tap) -> str | None:
        """The digest of the response's id, where a follow-up may name it (RULES 5.11)."""
        if self.scope["path"] != "/v1/responses":
            return None
        found = tap.response_id()
        return None if found is None else digest_key(self.desk.secret, "response", "", found)

    def _arrive(self, attempt: int) -> Arrive:
        assert self.profile is not None
        return Arrive(
            at_ms=self.desk.now_ms(),
            request_id=self.request_id,
            model=self.profile.model,
            prompt_bytes=self.profile.prompt_bytes,
            session=self.profile.session,
            prefix=self.profile.prefix,
            response=self.profile.response,
            draw=self.desk.draw() % DRAWS,
            attempt=attempt,
            tried=self.tried,
            earlier=self.earlier,
            blocks=self.profile.blocks,
            key=self.key_name,
            waited_ms=self.waited_ms,
        )

    def _decide(self) -> Chosen | RouterError | None:
        """None: nothing decided, for every replica that may take it is full."""
        desk, arrive = self.desk, self._arrive(self.attempt)
        begin = time.perf_counter_ns()
        try:
            if not self._known(arrive.model):
                return self._unknown_model(arrive)
            decided = desk.router.handle(arrive)
        except (JournalFull, LogError) as error:
            return RouterError("log_stalled", f"the event log takes no entry: {error}", None, 1)
        desk.measure_decision(time.perf_counter_ns() - begin)
        if not decided.events:
            if desk.router.look(arrive).verdict == "wait":
                return None
            return RouterError("upstream_failed", "every replica was tried and failed")
        first = decided.events[0]
        if isinstance(first, Dispatched):
            return Chosen(decided.first, first)
        assert isinstance(first, Refused)
        return self._refusal(first.code)

    def _known(self, model: str) -> bool:
        fleet = self.desk.router.state.fleet
        return model in fleet.pools or model in fleet.seen_models

    def _unknown_model(self, arrive: Arrive) -> RouterError:
        """Refused here and not by the rules: what a client made up does not go into the log."""
        unknown = self.desk.router.look(arrive).verdict == "unknown_model"
        code: RefusalCode = "model_not_found" if unknown else "no_healthy_instances"
        self.log_refusal(code)
        return self._refusal(code)

    def _refusal(self, code: RefusalCode) -> RouterError:
        assert self.profile is not None
        model = self.profile.model
        if code == "model_not_found":
            message = f"no replica ever served the model {model!r}; GET /v1/models lists them"
            return RouterError(code, message, "model")
        message = f"no replica that serves the model {model!r} is routable"
        return RouterError(code, message, None, self.desk.retry_after_s(model))

    async def refuse(self, error: RouterError) -> None:
        """Log that this request is not dispatched (again), and answer it."""
        self.log_refusal(error.code)
        await self.answer(error)

    def log_refusal(self, code: str) -> None:
        model = self.profile.model if self.profile is not None else None
        if model is not None and not self._known(model):
            model = None
        command = Refuse(
            at_ms=self.desk.now_ms(),
            request_id=self.request_id,
            code=cast("RefusalCode", code),
            model=model,
            key=self.key_name,
            waited_ms=self.waited_ms,
        )
        with suppress(JournalFull, LogError):  # answered all the same; readiness shows the trouble
            self.desk.router.handle(command)

    async def answer(self, error: RouterError, extra: RawHeaders = ()) -> None:
        """Raises BrokenEnding behind it where a heartbeat has begun the answer."""
        self.answered = True
        self.desk.count_refusal(error.code, self.key_name)
        if self.heartbeat is not None and await self.heartbeat.hush():
            await self.heartbeat.break_off(error.event(anthropic=self.route.anthropic))
        await send_error(self.send, error, self.request_id, extra, anthropic=self.route.anthropic)
