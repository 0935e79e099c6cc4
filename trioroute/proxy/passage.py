"""One request on its way through the router: read, choose, attempt, and choose again if it failed.

read body -> profile -> handle(Arrive) -> Dispatched | Refused | wait in line
                          ^                  |
                          |                  v
                          +-- Fail ----- one attempt (dispatch.py) -> Released
"""

import time
from contextlib import suppress
from typing import Any

import attrs
import trio

from eventlog import JournalFull, LogError
from trioroute.events import Dispatched, Refused
from trioroute.events.words import RefusalCode
from trioroute.policy.commands import Arrive, Refuse
from trioroute.policy.keys import digest_key
from trioroute.policy.profile import Profile, profile
from trioroute.proxy.body import (
    JsonObject,
    UnusableBody,
    is_json,
    multipart_model,
    plain_body,
    read_json,
)
from trioroute.proxy.desk import Desk
from trioroute.proxy.errors import RouterError
from trioroute.proxy.headers import RawHeaders, harmless_request_id, header_value
from trioroute.proxy.paths import Route
from trioroute.proxy.reply import send_error
from trioroute.proxy.serving.asgi import Receive, Scope, Send
from trioroute.proxy.tap import Tap

MODEL_NAME_MAX = 256


@attrs.frozen(slots=True)
class Chosen:
    """A decision that was applied; ``number`` is the version of its event."""

    number: int
    event: Dispatched


@attrs.define(slots=True, eq=False)
class Passage:
    """Everything about one request that outlives an attempt."""

    desk: Desk
    scope: Scope
    send: Send
    route: Route
    headers: RawHeaders
    request_id: str
    body: bytes = b""
    profile: Profile | None = None
    attempt: int = 0
    tried: tuple[str, ...] = ()
    earlier: tuple[int, ...] = ()
    had_500: bool = False
    answered: bool = False
    started_ns: int = attrs.field(factory=time.perf_counter_ns)

    async def read(self, receive: Receive) -> bool:
        """Read body and profile; False when the request was answered with an error."""
        message = await receive()
        self.started_ns = time.perf_counter_ns()
        self.body = message.get("body", b"")
        try:
            self.profile = self._profile()
        except UnusableBody as unusable:
            await self.refuse(unusable.error)
            return False
        return True

    def _profile(self) -> Profile:
        parsed = self._parsed_body()
        model = self._model(parsed)
        settings = self.desk.settings
        project = self._header(settings.pins.project_header) or ""
        found = profile(
            parsed,
            self._header,
            model=model,
            project=project,
            settings=settings.pins,
            secret=self.desk.secret,
        )
        if self.route.response_id is not None:
            digest = digest_key(self.desk.secret, "response", "", self.route.response_id)
            found = attrs.evolve(found, response=digest)
        return found

    def _parsed_body(self) -> JsonObject:
        if not self.body and not self._must_be_json():
            return {}
        limit = self.desk.settings.server.max_body_bytes
        if is_json(self.headers):
            plain = plain_body(self.headers, self.body, limit)
            try:
                return read_json(plain)
            except UnusableBody:
                if self._must_be_json() or self._several_pools():
                    raise
                return {}
        model = multipart_model(self.headers, self.body)
        return {} if model is None else {"model": model}

    def _must_be_json(self) -> bool:
        return self.route.repeatable and self.scope["method"] == "POST" and is_json(self.headers)

    def _several_pools(self) -> bool:
        return self.desk.router.state.fleet.only_model() is None

    def _model(self, parsed: JsonObject) -> str:
        """The model that names the pool; "" while no replica has told its models."""
        named = self.route.model or parsed.get("model")
        fleet = self.desk.router.state.fleet
        if isinstance(named, str) and named:
            if len(named) > MODEL_NAME_MAX:
                raise UnusableBody(
                    RouterError("model_not_found", "the model's name is too long", "model")
                )
            return named
        if named is not None:
            raise UnusableBody(
                RouterError("invalid_request", "model must be a string", param="model")
            )
        only = fleet.only_model()
        if only is not None:
            return only
        if not fleet.pools:
            return ""
        if self.scope["method"] == "OPTIONS":
            return next(iter(fleet.pools))
        raise UnusableBody(
            RouterError(
                "invalid_request",
                "this router serves several models: name one in the field model; "
                "GET /v1/models lists them",
                "model",
            )
        )

    def _header(self, name: str) -> str | None:
        value = header_value(self.headers, name.encode("latin-1"))
        return None if value is None else value.decode("latin-1")

    async def choose(self) -> Chosen | None:
        """Take the decision; None when the request was refused and answered instead."""
        self.attempt += 1
        deadline_ms: int | None = None
        ticket: int | None = None
        served = False
        line = self.desk.line
        limits = self.desk.settings.admission
        try:
            while True:
                decided = self._decide()
                if isinstance(decided, Chosen):
                    served = True
                    return decided
                if isinstance(decided, RouterError):
                    await self.answer(decided)
                    return None
                now_ms = self.desk.now_ms()
                if ticket is None:
                    ticket = line.join(limits.max_waiting)
                    deadline_ms = now_ms + limits.max_wait_ms
                if ticket is None or deadline_ms is None or now_ms >= deadline_ms:
                    await self.refuse(
                        RouterError(
                            "overloaded",
                            "every replica that may take this request is full",
                            retry_after_s=1,
                        )
                    )
                    return None
                with trio.move_on_after((deadline_ms - now_ms) / 1000):
                    await line.called(ticket)
        finally:
            if ticket is not None:
                line.leave(ticket, served=served)

    def next_attempt(self, failed: Chosen, *, free: bool) -> bool:
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
        if desk.could_move(arrive) and (
            free or desk.budget.try_again(arrive.at_ms, retries.budget_m)
        ):
            return True
        self.tried, self.earlier = before
        return False

    def upstream_id(self, number: int) -> str:
        """The request id for a replica: engines break on two live requests of one id."""
        if self.desk.in_use.get(self.request_id, 0) > 1:
            return f"{self.request_id}-{number}"
        return self.request_id

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
            draw=self.desk.draw(),
            attempt=attempt,
            tried=self.tried,
            earlier=self.earlier,
        )

    def _decide(self) -> Chosen | RouterError | None:
        """None: nothing decided, for every replica that may take it is full."""
        desk = self.desk
        if desk.stopping:
            return RouterError("shutting_down", "this router is shutting down", retry_after_s=1)
        arrive = self._arrive(self.attempt)
        if self.attempt == 1:
            desk.budget.request(arrive.at_ms)
        begin = time.perf_counter_ns()
        try:
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

    def _refusal(self, code: RefusalCode) -> RouterError:
        assert self.profile is not None
        model = self.profile.model
        if code == "model_not_found":
            message = f"no replica ever served the model {model!r}; GET /v1/models lists them"
            return RouterError(code, message, "model")
        message = f"no replica that serves the model {model!r} is routable"
        return RouterError(code, message, retry_after_s=self.desk.retry_after_s())

    async def refuse(self, error: RouterError) -> None:
        """Log that this request is not dispatched (again), and answer it."""
        code: Any = error.code
        self.log_refusal(code)
        await self.answer(error)

    def log_refusal(self, code: RefusalCode) -> None:
        model = self.profile.model if self.profile is not None else None
        command = Refuse(
            at_ms=self.desk.now_ms(), request_id=self.request_id, code=code, model=model
        )
        with suppress(JournalFull, LogError):  # answered all the same; readiness shows the trouble
            self.desk.router.handle(command)

    async def answer(self, error: RouterError, extra: RawHeaders = ()) -> None:
        self.answered = True
        await send_error(self.send, error, self.request_id, extra)


def new_passage(desk: Desk, scope: Scope, send: Send, route: Route) -> Passage:
    headers = scope["headers"]
    request_id = harmless_request_id(headers) or f"req-{desk.draw():016x}"
    return Passage(desk, scope, send, route, headers, request_id)
