"""OpenTelemetry spans: one of the server for a request, one of a client for each attempt."""

from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.proxy.replies import Recorder, chunk, reply, stream_head, token
from tests.proxy.scripted import Peer
from tests.proxy.serving import client
from tests.proxy.whole import CHAT, MODEL, Whole, chat, request, whole
from trioroute.tracing import Tracing

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = int("0af7651916cd43dd8448eb211c80319c", 16)
USAGE = b'{"usage":{"prompt_tokens":12,"completion_tokens":3}}'


class Spans:
    """The spans of a router under test, once it is quiet."""

    def __init__(self, rig: Whole) -> None:
        self._rig = rig
        self._kept = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracing = rig.desk.spans = Tracing(rig.router, provider)

    async def seen(self) -> tuple[ReadableSpan, list[ReadableSpan]]:
        """The one server's span, and those of attempts in order."""
        await self._rig.quiet()
        every = self._kept.get_finished_spans()
        (server,) = [one for one in every if one.kind is SpanKind.SERVER]
        return server, [one for one in every if one.kind is SpanKind.CLIENT]

    async def none(self) -> bool:
        await self._rig.quiet()
        return not self._kept.get_finished_spans()


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_request_is_a_span_with_its_decision_and_its_attempt_a_span_below_it() -> None:
    async with whole(made := Recorder(reply(USAGE))) as rig:
        spans = Spans(rig)
        asked = [f"traceparent: {PARENT}", "tracestate: a=1,b=2", "x-request-id: mine"]
        answer = await rig.ask(headers=asked)
        server, (attempt,) = await spans.seen()
    decision = answer.headers["x-trioroute-decision"]
    assert server.context.trace_id == attempt.context.trace_id == TRACE
    assert server.parent is not None
    assert server.parent.span_id == int(PARENT.split("-")[2], 16)
    assert attempt.parent is not None
    assert attempt.parent.span_id == server.context.span_id
    assert server.name == f"POST {CHAT}"
    assert attempt.name == f"chat {MODEL}"
    common = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 3,
        "http.response.status_code": 200,
        "trioroute.decision": decision,
        "trioroute.replica": "a",
        "trioroute.reason": "load",
        "trioroute.outcome": "ok",
    }
    assert common.items() <= told(server).items()
    assert common.items() <= told(attempt).items()
    assert told(server)["http.route"] == CHAT
    assert told(server)["trioroute.request_id"] == "mine"
    assert told(attempt)["server.port"] == rig.replicas[0].port
    assert told(attempt)["gen_ai.provider.name"] == "vllm"
    assert told(attempt)["gen_ai.response.time_to_first_chunk"] >= 0
    assert server.status.status_code is attempt.status.status_code is StatusCode.UNSET
    assert made.header("traceparent") == (f"00-{TRACE:032x}-{attempt.context.span_id:016x}-01"), (
        "the replica's spans hang below the attempt"
    )
    assert made.header("tracestate") == "a=1,b=2"


async def test_a_trace_begins_here_where_the_client_brings_none() -> None:
    async with whole(made := Recorder(reply(b"{}"))) as rig:
        spans = Spans(rig)
        await rig.ask()
        server, (attempt,) = await spans.seen()
    assert server.parent is None
    began = f"00-{server.context.trace_id:032x}-{attempt.context.span_id:016x}-"
    assert made.header("traceparent").startswith(began)


async def test_a_trace_that_is_not_sampled_goes_on_and_is_not_sent() -> None:
    async with whole(made := Recorder(reply(b"{}"))) as rig:
        spans = Spans(rig)
        await rig.ask(headers=[f"traceparent: {PARENT[:-2]}00"])
        assert await spans.none()
    assert made.header("traceparent").startswith(f"00-{TRACE:032x}-")
    assert made.header("traceparent").endswith("-00")


async def test_each_attempt_has_its_span_and_says_why_it_failed() -> None:
    async with whole(Recorder(reply(b"{}", 503)), Recorder(reply(b"{}", 503))) as rig:
        spans = Spans(rig)
        assert (await rig.ask()).status == 503
        server, attempts = await spans.seen()
    assert [told(one)["trioroute.attempt"] for one in attempts] == [1, 2]
    assert {told(one)["trioroute.replica"] for one in attempts} == {"a", "b"}
    assert {told(one)["error.type"] for one in attempts} == {"503"}
    assert {one.status.status_code for one in attempts} == {StatusCode.ERROR}
    assert told(server)["trioroute.attempts"] == 2
    assert (told(server)["error.type"], server.status.status_code) == ("503", StatusCode.ERROR)


async def test_a_refusal_is_a_span_without_an_attempt() -> None:
    async with whole(Recorder(reply(b"{}"))) as rig:
        spans = Spans(rig)
        assert (await rig.ask(chat(model="nobody"))).status == 404
        server, attempts = await spans.seen()
    assert attempts == []
    assert told(server)["trioroute.refused"] == "model_not_found"
    assert server.status.status_code is StatusCode.UNSET, "a 4xx is not the server's error"


async def test_a_cut_stream_is_an_error_although_its_status_was_200() -> None:
    async def cut(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head() + chunk(token("a")))

    async with whole(cut) as rig:
        spans = Spans(rig)
        await rig.broken(chat(stream=True))
        server, (attempt,) = await spans.seen()
    assert told(server)["http.response.status_code"] == 200
    assert (told(server)["trioroute.outcome"], told(server)["error.type"]) == (
        "upstream_cut",
        "fin",
    )
    assert attempt.status.status_code is StatusCode.ERROR


async def test_a_client_that_leaves_ends_its_spans() -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(stream_head() + chunk(token("a")))
        await peer.wait_gone()

    async with whole(endless) as rig:
        spans = Spans(rig)
        async with client(rig.port) as raw:
            await raw.send(request(chat(stream=True)))
            await raw.head()
        server, (attempt,) = await spans.seen()
    assert told(server)["trioroute.outcome"] == told(attempt)["trioroute.outcome"] == "client_gone"
    assert attempt.status.status_code is StatusCode.UNSET


async def test_requests_of_one_connection_and_at_once_keep_to_their_own_spans() -> None:
    async with whole(Recorder(reply(b"{}")), Recorder(reply(b"{}"))) as rig:
        spans = Spans(rig)
        async with client(rig.port) as one, client(rig.port) as other:
            for raw in (one, other, one, other):
                await raw.send(request(headers=["x-request-id: same"]))
                await raw.reply()
        await rig.quiet()
        every = spans._kept.get_finished_spans()
    servers = {one.context.span_id for one in every if one.kind is SpanKind.SERVER}
    parents = [one.parent.span_id for one in every if one.kind is SpanKind.CLIENT and one.parent]
    assert (len(servers), set(parents)) == (4, servers)


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/nowhere"])
async def test_probes_and_what_is_not_served_are_no_spans(path: str) -> None:
    async with whole(Recorder(reply(b'{"data":[]}'))) as rig:
        spans = Spans(rig)
        await rig.ask(b"", path, "GET")
        assert await spans.none()


async def test_no_secret_is_in_a_span() -> None:
    async with whole(Recorder(reply(b'{"error":"canary-7"}', 400))) as rig:
        spans = Spans(rig)
        hidden = ["authorization: Bearer canary-7", "cookie: canary-7"]
        body = chat(messages=[{"role": "user", "content": "canary-7"}])
        await rig.ask(body, f"{CHAT}?key=canary-7", headers=hidden)
        server, attempts = await spans.seen()
    assert "canary" not in "".join(one.to_json() for one in (server, *attempts))
