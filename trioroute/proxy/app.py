"""The data port as an ASGI application: sorts paths, and walks a request through its attempts."""

from contextlib import nullcontext
from functools import partial

import trio

from trioroute.proxy.access_log import Request
from trioroute.proxy.cors import answer_preflight, is_preflight, with_cors
from trioroute.proxy.desk import Desk
from trioroute.proxy.dispatch import AttemptRun
from trioroute.proxy.door import CHALLENGE, HEALTH_PATHS, Door
from trioroute.proxy.errors import RouterError
from trioroute.proxy.heartbeat import Heartbeat
from trioroute.proxy.models import models_list
from trioroute.proxy.passage import Passage
from trioroute.proxy.paths import route
from trioroute.proxy.reply import named, send_error, send_whole
from trioroute.proxy.serving.asgi import ASGIApp, Receive, Scope, Send

READING = ("GET", "HEAD")


def proxy_app(desk: Desk) -> ASGIApp:
    """The application; the server cancels it when its client is gone."""
    door = Door(desk)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        origins = desk.settings.server.cors_origins
        if origins:
            if is_preflight(scope["method"], scope["headers"]):
                request_id = desk.request_id(scope["headers"])
                await answer_preflight(send, scope["headers"], origins, request_id)
                return
            send = with_cors(send, scope["headers"], origins)
        if desk.access_log is None and desk.spans is None:
            await _sort(desk, door, Request(scope), receive, send)
            return
        request = Request(scope)
        spans = nullcontext() if desk.spans is None else desk.spans.follow(request)
        with spans:
            try:
                await _sort(desk, door, request, receive, request.watching(send))
            finally:
                if desk.access_log is not None:
                    desk.access_log.note(request)

    return app


async def _sort(desk: Desk, door: Door, request: Request, receive: Receive, send: Send) -> None:
    scope = request.scope
    path: str = scope["path"]
    method: str = scope["method"]
    headers = scope["headers"]
    request_id = desk.request_id(headers)
    key = desk.keys.whose(headers) if desk.keys else None
    if path in HEALTH_PATHS:
        await _health(desk, method, send, request_id)
    elif key is None and desk.keys:
        error = door.turn_away(headers, request_id)
        desk.count_refusal(error.code, None)
        anthropic = route(method, path).anthropic
        await send_error(send, error, request_id, [CHALLENGE], anthropic=anthropic)
    elif path == "/v1/models" and method in READING:
        models = await models_list(desk)
        await send_whole(send, 200, models, b"application/json", [named(request_id)])
    else:
        passage = Passage(desk, scope, send, route(method, path), headers, request_id, key)
        request.passage = passage
        await _pass_through(passage, receive)


async def _pass_through(passage: Passage, receive: Receive) -> None:
    desk, key = passage.desk, passage.key
    if not passage.route.proxied:
        path = passage.scope["path"][:200]
        await passage.answer(RouterError("not_found", f"{path} is not served here; /v1/... is"))
        return
    if key is not None:
        too_many = desk.keys.enter(key, desk.now_ms())
        if too_many is not None:
            await passage.refuse(too_many)
            return
    request_id = passage.request_id
    in_time = not desk.stopping
    desk.running += in_time
    desk.in_use[request_id] = desk.in_use.get(request_id, 0) + 1
    try:
        if not await passage.read(receive):
            return
        if passage.streams and desk.settings.server.heartbeat_ms:
            await _attempts_under_heartbeats(passage)
        else:
            await _attempts(passage)
    finally:
        desk.running -= in_time
        if key is not None:
            desk.keys.leave(key)
        left = desk.in_use[request_id] - 1
        if left:
            desk.in_use[request_id] = left
        else:
            del desk.in_use[request_id]


async def _attempts(passage: Passage) -> None:
    while True:
        chosen = await passage.choose()
        if chosen is None or not await AttemptRun(passage, chosen).run():
            return


async def _attempts_under_heartbeats(passage: Passage) -> None:
    """The same, with a task beside it that speaks while nothing else is there to be said."""
    failure: Exception | None = None
    heartbeat = passage.heartbeat = Heartbeat(
        passage.send,
        passage.request_id,
        passage.desk.settings.server.heartbeat_ms / 1000,
        partial(_may_begin, passage),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(heartbeat.run)
        try:
            await _attempts(passage)
        except Exception as error:
            failure = error  # raised outside the nursery, as what it is
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _may_begin(passage: Passage) -> bool:
    """Whether a byte may go to the client: the decision in force is in the log."""
    desk, chosen = passage.desk, passage.chosen
    if chosen is None:
        return False
    return desk.settings.log.gate == "off" or desk.journal.is_durable(chosen.number)


async def _health(desk: Desk, method: str, send: Send, request_id: str) -> None:
    """200 if some replica is routable, else 503 (HTTP.md)."""
    if method not in READING:
        error = RouterError("method_not_allowed", f"{method} is not allowed here; use GET or HEAD")
        await send_error(send, error, request_id, [(b"allow", b"GET, HEAD")])
        return
    state = desk.router.state
    if state.anyone_routable():
        await send_whole(send, 200, b"", b"text/plain", [named(request_id)])
    else:
        text = f"no routable replica: {', '.join(state.standings()) or 'none known'}\n"
        await send_whole(send, 503, text.encode("ascii"), b"text/plain", [named(request_id)])
