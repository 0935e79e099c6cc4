"""OpenTelemetry spans: a server's for each proxied request, a client's for each of its attempts.

Imported only where the environment asks for spans (``settings.spans``). Attempts are heard of as
the router's own events, in the task of their request, so the data path knows nothing of spans but
one check. Spans are kept in the SDK's bounded queue and sent by its thread; what the queue cannot
hold is dropped.

No prompt, no header value, no address of a client is in any of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import attrs
import trio
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from trioroute.events import Dispatched, Failed, Refused, Released
from trioroute.proxy.access_log import PATH_MAX, Request
from trioroute.proxy.headers import RawHeaders
from trioroute.proxy.paths import INFERENCE
from trioroute.router import Decided, Router

OPERATIONS = {
    "/v1/chat/completions": "chat",
    "/v1/messages": "chat",
    "/v1/responses": "chat",
    "/v1/completions": "text_completion",
    "/v1/embeddings": "embeddings",
}
"""``gen_ai.operation.name`` of the semantic conventions; other paths have none."""

CONTEXT = ("traceparent", "tracestate")
SEND_LAST_S = 2.0
"""What the end of the router gives a collector to take the last spans."""

FINE = frozenset({"ok", "client_gone"})
"""Outcomes for which nothing behind the router is to blame, and no span is an error."""

_PROPAGATOR = TraceContextTextMapPropagator()
_FOLLOWED: ContextVar["_Followed | None"] = ContextVar("trioroute.followed", default=None)


@attrs.define(eq=False)
class _Followed:
    """One request under way; ``ended`` is how its last attempt ended."""

    request: Request
    span: Span
    attempts: dict[int, Span] = attrs.field(factory=dict)
    ended: Failed | Released | None = None
    refused: str = ""


@attrs.define(eq=False)
class Tracing:
    """``follow`` each request; ``listen`` to the router. ``close`` sends what is left."""

    router: Router
    provider: TracerProvider
    _running: dict[int, _Followed] = attrs.field(factory=dict)
    _tracer: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._tracer = self.provider.get_tracer("trioroute")
        self.router.listeners.append(self.listen)

    @contextmanager
    def follow(self, request: Request) -> Iterator[None]:
        """The time within is the server's span, if the request turns out to be a proxied one."""
        scope = request.scope
        path: str = scope["path"][:PATH_MAX]
        route = {"http.route": path} if path in INFERENCE else {}
        span = self._tracer.start_span(
            f"{scope['method']} {path}" if route else scope["method"],
            context=_PROPAGATOR.extract(_carrier(scope["headers"])),
            kind=SpanKind.SERVER,
            attributes={
                "http.request.method": scope["method"],
                "url.path": path,
                "url.scheme": scope["scheme"],
                "network.protocol.version": scope["http_version"],
                **route,
            },
        )
        followed = _Followed(request, span)
        token = _FOLLOWED.set(followed)
        try:
            yield
        finally:
            _FOLLOWED.reset(token)
            self._end_request(followed)

    def listen(self, decided: Decided) -> None:
        """Plain and quick: called inside each decision."""
        for number, event in enumerate(decided.events, decided.first):
            kind = type(event)
            if kind is Dispatched:
                assert isinstance(event, Dispatched)
                self._begin_attempt(number, event)
            elif kind is Released or kind is Failed:
                assert isinstance(event, Released | Failed)
                self._end_attempt(event)
            elif kind is Refused:
                assert isinstance(event, Refused)
                followed = _FOLLOWED.get()
                if followed is not None:
                    followed.refused = event.code

    async def close(self) -> None:
        """Give a collector two seconds for the last spans; its absence holds nobody up."""
        with trio.CancelScope(deadline=trio.current_time() + SEND_LAST_S, shield=True):
            await trio.to_thread.run_sync(self.provider.shutdown, abandon_on_cancel=True)

    def _begin_attempt(self, number: int, event: Dispatched) -> None:
        followed = _FOLLOWED.get()
        if followed is None or followed.request.passage is None:
            return
        passage = followed.request.passage
        operation = OPERATIONS.get(passage.scope["path"])
        replica = self.router.state.fleet.replicas[event.replica]
        span = self._tracer.start_span(
            f"{operation or passage.scope['method']} {event.model}",
            context=set_span_in_context(followed.span),
            kind=SpanKind.CLIENT,
            attributes={
                **_asked(operation, event.model),
                **self._decision(number, event),
                "gen_ai.provider.name": replica.engine,
                "trioroute.attempt": event.attempt,
                **dict(_place(replica.url)),
            },
        )
        followed.attempts[number] = span
        self._running[number] = followed
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, context=set_span_in_context(span))
        passage.headers = [
            *(pair for pair in passage.headers if pair[0].decode("latin-1") not in CONTEXT),
            *((name.encode(), value.encode("latin-1")) for name, value in carrier.items()),
        ]

    def _end_attempt(self, event: Failed | Released) -> None:
        followed = self._running.pop(event.dispatch, None)
        if followed is None:
            return
        followed.ended = event
        span = followed.attempts.pop(event.dispatch)
        span.set_attributes(_how_it_ended(event))
        why = _error_type(event)
        if why:
            span.set_attribute("error.type", why)
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def _end_request(self, followed: _Followed) -> None:
        request, span = followed.request, followed.span
        for number, attempt in followed.attempts.items():  # its end was not heard of
            self._running.pop(number, None)
            attempt.end()
        passage = request.passage
        if passage is None or not passage.route.proxied:
            return  # never ended, so never sent: probes and lists of models are no work
        chosen, ended = passage.chosen, followed.ended
        told: dict[str, Any] = {"trioroute.request_id": passage.request_id}
        if passage.profile is not None and passage.profile.model:
            told |= _asked(OPERATIONS.get(request.scope["path"]), passage.profile.model)
        if chosen is not None:
            told |= self._decision(chosen.number, chosen.event)
            told["trioroute.attempts"] = passage.attempt
        if ended is not None:
            told |= _how_it_ended(ended)
        if request.status is not None:
            told["http.response.status_code"] = request.status
        if followed.refused:
            told["trioroute.refused"] = followed.refused
        span.set_attributes(told)
        why = _error_type(ended) if ended is not None and (request.status or 500) < 400 else ""
        if request.status is not None and request.status >= 500:
            why = followed.refused or str(request.status)
        if why:
            span.set_attribute("error.type", why)
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def _decision(self, number: int, event: Dispatched) -> dict[str, Any]:
        told: dict[str, Any] = {
            "trioroute.replica": event.replica,
            "trioroute.reason": event.reason,
        }
        name = self.router.decision_name(number)
        if name is not None:
            told["trioroute.decision"] = name
        return told


def otlp_tracing(router: Router, name: str, version: str) -> Tracing:
    """Spans of the router ``name``, sent where OpenTelemetry's standard variables say."""
    resource = Resource.create({"service.version": version})
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        named = {SERVICE_NAME: "trioroute", "service.instance.id": name}
        resource = resource.merge(Resource(named))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(router, provider)


def _carrier(headers: RawHeaders) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers:
        if name in (b"traceparent", b"tracestate"):
            known, text = name.decode(), value.decode("latin-1")
            found[known] = f"{found[known]},{text}" if known in found else text
    return found


def _asked(operation: str | None, model: str) -> dict[str, Any]:
    model = model.encode("utf-8", "backslashreplace").decode()
    told = {"gen_ai.request.model": model}
    return told | {"gen_ai.operation.name": operation} if operation else told


def _how_it_ended(event: Failed | Released) -> dict[str, Any]:
    told: dict[str, Any] = {"trioroute.cause": event.cause, "trioroute.blame": event.blame}
    if event.status is not None:
        told["http.response.status_code"] = event.status
    if isinstance(event, Failed):
        return told
    told["trioroute.outcome"] = event.outcome
    if event.prompt_tokens is not None:
        told["gen_ai.usage.input_tokens"] = event.prompt_tokens
    if event.completion_tokens is not None:
        told["gen_ai.usage.output_tokens"] = event.completion_tokens
    if event.ttfb_ms is not None:
        told["gen_ai.response.time_to_first_chunk"] = event.ttfb_ms / 1000
    return told


def _error_type(event: Failed | Released) -> str:
    """What an attempt failed of, empty if it did not."""
    if isinstance(event, Released) and event.outcome in FINE:
        return ""
    if event.cause == "status" and event.status is not None:
        return str(event.status)
    if event.cause != "none":
        return event.cause
    return event.outcome if isinstance(event, Released) else "unknown"


@lru_cache(maxsize=1024)
def _place(url: str) -> tuple[tuple[str, Any], ...]:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return (("server.address", parts.hostname or ""), ("server.port", port))
