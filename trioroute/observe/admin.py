"""The admin port: metrics, health, state, events, decisions, changes, dashboard (METRICS.md)."""

import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

import attrs
from hypercorn.typing import (
    ASGIFramework,
    ASGIReceiveCallable,
    ASGISendCallable,
    HTTPResponseStartEvent,
    HTTPScope,
    Scope,
)

from eventlog.errors import LogError
from trioroute.observe.answer import Answer, error, json_answer, shown, text_answer
from trioroute.observe.change_paths import ChangeOffice, allowed_changes
from trioroute.observe.changes import Changes
from trioroute.observe.event_stream import EventStream, StreamDesk, WatcherLetGo
from trioroute.observe.exporter import Exporter, StateCollector
from trioroute.observe.feed import Feed
from trioroute.observe.guard import refuse, values
from trioroute.observe.page import dashboard
from trioroute.observe.pools import unserved
from trioroute.observe.state_view import view
from trioroute.observe.timings import LogView, Timings
from trioroute.projections import State

_DECISION = re.compile(r"/decisions/(?P<router>.+)/(?P<number>[^/]*)", re.DOTALL)
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_LOOK = ("GET", "HEAD")
_LOOKED_AT = ("/", "/metrics", "/healthz", "/readyz", "/state", "/events", "/decisions")
FIND_MAX = 256
"""Characters of what is looked for: a request's id has 128 at most."""
BODY_MAX = 1 << 20
_PLACES = (
    "/, /metrics, /healthz, /readyz, /state, /events, /decisions, /decisions/ROUTER/NUMBER, "
    "/replicas, /replicas/NAME, /replicas/NAME/drain, /reload"
)


@attrs.define(kw_only=True)
class AdminDesk:
    """What ``serve`` hands over. All calls are plain and quick but ``explain`` and ``find``.

    ``now_ms`` is the router's clock. ``ready`` says whether traffic should come here, and why not.
    ``explain(router, number)`` gives a decision's explanation as JSON values; if there is no such
    decision, a text that says what there is, or None. ``find(text)`` gives the newest decisions of
    a request or session, or a text that says why there is none. Both may raise a LogError, which is
    answered with 503, as those of ``changes`` are.
    ``broken`` is raised to end an event stream as cut, without an error in the process log.
    """

    state: Callable[[], State]
    now_ms: Callable[[], int]
    log: LogView
    feed: Feed
    timings: Timings
    ready: Callable[[], tuple[bool, str]]
    explain: Callable[[str, int], Awaitable[dict[str, Any] | str | None]]
    find: Callable[[str], Awaitable[dict[str, Any] | str]]
    changes: Changes
    version: str
    token: str = attrs.field(default="", repr=False)
    broken: type[Exception] = WatcherLetGo


def admin_app(desk: AdminDesk) -> ASGIFramework:
    """The admin port as an ASGI application."""
    collector = StateCollector(desk.state, desk.now_ms, desk.timings, desk.log, desk.version)
    changing = ChangeOffice(desk.changes, desk.state)
    office = _Office(desk, Exporter(collector), changing, StreamDesk(desk.feed, broken=desk.broken))

    async def app(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000, "reason": None})
        else:
            body = await _read(receive)
            found = await office.answer(scope, body) if body is not None else _TOO_LARGE
            stream = found if isinstance(found, EventStream) else None
            answer = found.answer if isinstance(found, EventStream) else found
            start: HTTPResponseStartEvent = {
                "type": "http.response.start",
                "status": answer.status,
                "headers": answer.head(endless=stream is not None),
            }
            await send(start)
            if stream is not None and scope["method"] != "HEAD":
                await stream.run(send)
                return
            answered = b"" if scope["method"] == "HEAD" else answer.body
            await send({"type": "http.response.body", "body": answered, "more_body": False})

    return app


async def _read(receive: ASGIReceiveCallable) -> bytes | None:
    """The body, which has to come off the connection in any case; None if it is too large."""
    parts: list[bytes] = []
    size = 0
    while size <= BODY_MAX:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        parts.append(message["body"])
        size += len(message["body"])
        if not message["more_body"]:
            return b"".join(parts) if size <= BODY_MAX else None
    return None


_TOO_LARGE = error(
    413, "body_too_large", f"at most {BODY_MAX} bytes are read here", (b"connection", b"close")
)


async def _lifespan(receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    while (await receive())["type"] != "lifespan.shutdown":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})


@attrs.frozen
class _Office:
    """Finds the answer to a request."""

    desk: AdminDesk
    exporter: Exporter
    changing: ChangeOffice
    streams: StreamDesk

    async def answer(self, scope: HTTPScope, body: bytes) -> Answer | EventStream:
        method, path, headers = scope["method"], scope["path"], list(scope["headers"])
        refusal = refuse(method, headers, self.desk.token, path)
        if refusal is not None:
            return refusal
        allowed = _allowed(path)
        if not allowed:
            return error(404, "not_found", f"nothing is at {shown(path)}; there is {_PLACES}")
        if method not in allowed:
            allow = ", ".join(allowed)
            message = f"{shown(method)} does not work at {shown(path)}; use {allow}"
            return error(405, "method_not_allowed", message, (b"allow", allow.encode()))
        try:
            if path == "/metrics":
                page = await self.exporter.page(", ".join(values(headers, b"accept")))
                return Answer(200, page.content_type, page.body)
            if path == "/events":
                return self.streams.open(headers, scope["query_string"])
            if path == "/decisions":
                return await self._found(scope["query_string"])
            decision = _DECISION.fullmatch(path)
            if decision is not None:
                return await self._decision(decision["router"], decision["number"])
            if method in _LOOK:
                return self._plain(path, scope["query_string"])
            return await self.changing.answer(path, scope["query_string"], body)
        except LogError as trouble:
            retry = (b"retry-after", b"1")
            return error(503, "log_stalled", f"the event log: {trouble}", retry)

    def _plain(self, path: str, query: bytes) -> Answer:
        desk = self.desk
        if path == "/":
            return dashboard()
        if path == "/healthz":
            return text_answer("ok")
        if path == "/readyz":
            ready, reason = desk.ready()
            told = {"ready": ready, "reason": reason, "unserved": unserved(desk.state())}
            return json_answer(told, 200 if ready else 503)
        assert path == "/state", "no other path can be looked at"
        asked = query.split(b"&")
        return json_answer(
            view(
                desk.state(),
                desk.now_ms(),
                desk.log,
                ready=desk.ready(),
                with_share=b"with=traffic_share" in asked,
                with_score=b"with=score" in asked,
                restart_needed=desk.changes.restart_needed,
                discovery=desk.timings.discovery,
            )
        )

    async def _decision(self, router: str, number: str) -> Answer:
        hint = "the x-trioroute-decision header of a response names its decision"
        explanation: dict[str, Any] | str | None = None
        if _NUMBER.fullmatch(number):
            explanation = await self.desk.explain(router, int(number))
            newest = f"{self.desk.state().router}/{self.desk.log.position}"
            hint = f"the newest event of this router is {newest}; {hint}"
            if isinstance(explanation, str):
                hint, explanation = explanation, None
        if explanation is None:
            message = f"no decision is named {shown(f'{router}/{number}')}; {hint}"
            return error(404, "decision_not_found", message)
        return json_answer(explanation)

    async def _found(self, query: bytes) -> Answer:
        asked = parse_qs(query.decode("latin-1"), max_num_fields=8).get("find", [])
        if len(asked) != 1 or len(asked[0]) > FIND_MAX:
            message = f"ask /decisions?find=TEXT: an x-request-id or a session, at most {FIND_MAX}"
            return error(400, "bad_request", f"{message} characters")
        found = await self.desk.find(asked[0])
        if isinstance(found, str):
            return error(404, "decision_not_found", found)
        return json_answer(found)


def _allowed(path: str) -> tuple[str, ...]:
    """The methods of a path; none: nothing is there."""
    if path in _LOOKED_AT or _DECISION.fullmatch(path):
        return _LOOK
    return allowed_changes(path)
