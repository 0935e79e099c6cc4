"""Makes hypercorn's own connections (TLS, HTTP/2, upgrades) look like lean ones to the application.

The application is written once: it gets http scopes only, the whole body in one message, is
cancelled when the client is gone, and its failures become a JSON 500 or a visibly broken ending.
Hypercorn itself only queues a disconnect message and lets later sends vanish without a word.
"""

import logging
from contextlib import suppress

import attrs
import h11
import trio

from trioroute.proxy.serving.asgi import (
    ASGIApp,
    Receive,
    Scope,
    Send,
    broken_on_purpose,
)
from trioroute.proxy.serving.chunked import too_large_body
from trioroute.proxy.serving.gathering import Gathered
from trioroute.proxy.serving.guarded import GuardedExchange, StreamEnds
from trioroute.proxy.serving.hangup import EXTENSION, Client
from trioroute.proxy.serving.hub import Hub
from trioroute.proxy.serving.pace import Pace
from trioroute.proxy.serving.parser import KnownHead, check_fields
from trioroute.proxy.serving.refusal import FAILED, NO_WEBSOCKET, Refusal

logger = logging.getLogger("trioroute.proxy")

DRAIN_S = 10.0
STOP_S = 1.0
"""For a client that was refused to end its request by itself."""


class GuardedApp:
    """An ASGI application for hypercorn around the one of the server."""

    def __init__(
        self,
        hub: Hub,
        app: ASGIApp,
        ends: StreamEnds,
    ) -> None:
        self._hub = hub
        self._app = app
        self._ends = ends
        self._limit_s = hub.limits.client_stall_ms / 1000

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope: http by the application, lifespan and websocket here."""
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            self._hub.refused(NO_WEBSOCKET.code)
            refusal = self._hub.addressed(NO_WEBSOCKET, _known(scope))
            with suppress(h11.ProtocolError):  # hypercorn refused first what came behind the head
                await _answer(send, refusal, "websocket.http.response")
        else:
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_h2 = scope["http_version"] == "2"
        waits = is_h2 and _waits_for_word(scope)
        try:
            length = self._check(scope) if is_h2 else 0
            if self._hub.door is not None:
                turned_away = self._hub.door(scope["raw_path"], scope["headers"])
                if turned_away is not None:
                    raise turned_away
            self._check_length(length)
            if waits:
                waits = False
                await self._ends.go_on(send)
            body = await self._read_body(receive)
        except Refusal as refusal:
            self._hub.refused(refusal.code)
            await self._answer(send, self._hub.addressed(refusal, _known(scope)))
            if waits:
                # Its body does not come, nor the end that its stream would else wait for. Not in
                # one go with the answer, which curl 7.88 takes for lost then.
                await trio.sleep(STOP_S)
                await self._ends.stop_sending(send)
            await _drain(receive)
            return
        if body is None:
            return
        client = Client()
        scope["extensions"][EXTENSION] = client
        session = GuardedExchange(body, send, client, self._hub, self._ends, is_h2)
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            session.scope = nursery.cancel_scope
            nursery.start_soon(self._watch, receive, session, client, nursery.cancel_scope)
            self._hub.keep_time(session)
            try:
                await self._app(scope, session.receive, session.send)
            except Exception as error:
                failure = error
            finally:
                self._hub.forget(session)
            nursery.cancel_scope.cancel()
        await self._settle(scope, session, failure, client.gone)

    def _check(self, scope: Scope) -> int:
        """Of a head, h2 looks only at what HTTP/2 forbids. Returns the length it tells, or 0."""
        target, query = scope["raw_path"], scope["query_string"]
        if query:
            target = b"%b?%b" % (target, query)
        method = scope["method"].encode()
        return check_fields(method, target, scope["headers"], self._hub.limits)

    def _check_length(self, told: int) -> None:
        limits = self._hub.limits
        if told > limits.body_bytes:
            raise too_large_body(limits.body_bytes, str(told), limits.body_setting)

    async def _read_body(self, receive: Receive) -> bytes | None:
        limit_s = self._hub.limits.body_timeout_s
        coming = _Coming(limit_s, self._hub.deadline(limit_s))
        self._hub.keep_time(coming)
        try:
            with coming.scope:
                return await self._gather(receive, coming)
        finally:
            self._hub.forget(coming)
        raise Refusal(408, "request_timeout", coming.too_slow())

    async def _gather(self, receive: Receive, pace: Pace) -> bytes | None:
        limits = self._hub.limits
        gathered = Gathered()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            data: bytes = message.get("body", b"")
            gathered.add(data)
            pace.brought(len(data), trio.current_time())
            if gathered.size > limits.body_bytes:
                size = f"at least {gathered.size}"
                raise too_large_body(limits.body_bytes, size, limits.body_setting)
            if not message.get("more_body", False):
                return gathered.whole()

    async def _watch(
        self,
        receive: Receive,
        session: GuardedExchange,
        client: Client,
        scope: trio.CancelScope,
    ) -> None:
        """Hypercorn says the same of a client that has its answer and of one that is gone; and it
        would wait for the window of one that is gone to open."""
        while (await receive())["type"] != "http.disconnect":
            pass
        if not session.complete or self._ends.undelivered(session.raw_send):
            client.gone = True
            client.stalled = client.stalled or self._ends.stalled(session.raw_send)
            scope.cancel()

    async def _settle(
        self, scope: Scope, session: GuardedExchange, failure: Exception | None, gone: bool
    ) -> None:
        """End what the application did not end."""
        on_purpose = failure is not None and broken_on_purpose(failure)
        if failure is not None and not on_purpose:
            logger.error(
                "the application failed on %s %r", scope["method"], scope["path"], exc_info=failure
            )
        if session.stalled:
            await self._ends.break_stream(session.raw_send)
        if session.delivered or gone:
            return
        if failure is None:
            logger.error("the application left %s %r unended", scope["method"], scope["path"])
        if session.started or on_purpose:
            await self._ends.break_stream(session.raw_send)
        else:
            await self._answer(session.raw_send, self._hub.addressed(FAILED, _known(scope)))

    async def _answer(self, send: Send, refusal: Refusal) -> None:
        with trio.move_on_after(self._limit_s) as waiting:
            await _answer(send, refusal)
        if waiting.cancelled_caught:
            await self._ends.break_stream(send)


@attrs.define(eq=False)
class _Coming(Pace):
    """Timed by the hub, which forgives a body what the server itself stood still."""

    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    def expire(self) -> None:
        """It came too slowly."""
        self.deadline = float("inf")
        self.scope.cancel()


async def _answer(send: Send, refusal: Refusal, kind: str = "http.response") -> None:
    headers = refusal.headers()
    await send({"type": f"{kind}.start", "status": refusal.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": refusal.body(), "more_body": False})


def _waits_for_word(scope: Scope) -> bool:
    """Whether the client sends its body when it is told to (RFC 9110 section 10.1.1)."""
    return any(
        name == b"expect" and value.lower() == b"100-continue" for name, value in scope["headers"]
    )


def _known(scope: Scope) -> KnownHead:
    return KnownHead(scope["raw_path"], scope["headers"])


async def _drain(receive: Receive) -> None:
    """Take the rest of a refused body, or hypercorn's reader would wait for us for ever."""
    with trio.move_on_after(DRAIN_S):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect" or not message.get("more_body", False):
                return
