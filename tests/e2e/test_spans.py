"""OpenTelemetry spans of a real router, sent to a collector that speaks OTLP over HTTP."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.e2e.fleet import Fleet, RouterProcess, chat, wait_for
from tests.loop_time import HELD_UP

COMPLETIONS = "/v1/chat/completions"
QUICK = {"OTEL_BSP_SCHEDULE_DELAY": "100"}


class Collector:
    """Keeps the spans and the resources that it is sent."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        kept = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                assert self.path == "/v1/traces"
                for one in ExportTraceServiceRequest.FromString(body).resource_spans:
                    told = {each.key: each.value.string_value for each in one.resource.attributes}
                    kept.resources.append(told)
                    for scope in one.scope_spans:
                        kept.spans += scope.spans
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with closing(Collector()) as made:
        yield made


def traced(fleet: Fleet, endpoint: str, **more: str) -> RouterProcess:
    for engine in fleet.engines:
        engine.ready()
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "TRIOROUTE_SCRAPE_INTERVAL": "200ms"}
    router = RouterProcess(fleet.directory, fleet.engines, env={**env, **QUICK, **more})
    fleet.routers.append(router)
    return router.ready()


def attributes(span: Any) -> dict[str, Any]:
    told = {}
    for one in span.attributes:
        told[one.key] = getattr(one.value, one.value.WhichOneof("value"))
    return told


def test_a_collector_gets_the_spans_of_each_request_and_the_last_ones_at_the_end(
    fleet: Fleet, collector: Collector
) -> None:
    fleet.engine()
    router = traced(fleet, collector.url)
    decisions = set()
    for _ in range(5):
        answer = httpx.post(router.url + COMPLETIONS, json=chat())
        decisions.add(answer.headers["x-trioroute-decision"])
    wait_for("the first spans", lambda: len(collector.spans) >= 10)
    answer = httpx.post(router.url + COMPLETIONS, json=chat())
    decisions.add(answer.headers["x-trioroute-decision"])
    assert router.stop() == 0
    assert len(collector.spans) == 12
    told = [attributes(one) for one in collector.spans]
    assert {one["trioroute.decision"] for one in told} == decisions
    assert {one["gen_ai.request.model"] for one in told} == {"tiny"}
    assert all(one["gen_ai.usage.output_tokens"] == 8 for one in told)
    assert collector.resources[0]["service.name"] == "trioroute"
    assert collector.resources[0]["service.instance.id"] == "r1"
    errors = [line for line in router.text().splitlines() if "ERROR" in line]
    assert not [line for line in errors if HELD_UP not in line], errors
    router.verify()


@pytest.mark.parametrize("kind", ["refuses", "hangs"])
def test_a_collector_that_is_away_costs_no_request_and_no_end(fleet: Fleet, kind: str) -> None:
    """The queue is bounded: what it cannot hold is dropped."""
    fleet.engine()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if kind == "hangs":
            silent.listen(1)
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        small = {"OTEL_BSP_MAX_QUEUE_SIZE": "16", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8"}
        small["OTEL_EXPORTER_OTLP_TIMEOUT"] = "80"  # so long the SDK alone would try
        router = traced(fleet, endpoint, **small)
        with httpx.Client() as client:
            for _ in range(40):
                assert client.post(router.url + COMPLETIONS, json=chat()).status_code == 200
        assert router.stop(within_s=40) == 0
    router.verify()


def test_without_the_packages_a_router_says_how_to_have_them(fleet: Fleet, tmp_path: Path) -> None:
    """A package of the same name in front stands for one that is not installed."""
    hidden = tmp_path / "hidden" / "opentelemetry"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").touch()
    run = [sys.executable, "-m", "trioroute", "serve", "--replica", "http://127.0.0.1:1"]
    env = {
        **os.environ,
        "PYTHONPATH": str(hidden.parent),
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
    }
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, env=env, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "Error: OTEL_EXPORTER_OTLP_ENDPOINT: asks for OpenTelemetry spans, and the packages for"
        " them are not installed; pip install 'trioroute[otel]', or set OTEL_SDK_DISABLED=true\n"
    )
    assert not (tmp_path / "trioroute-log").exists()


def test_a_router_that_is_not_asked_for_spans_loads_none_of_it(fleet: Fleet) -> None:
    look = (
        "import sys, trioroute.serve, trioroute.cli;"
        "print([name for name in sys.modules if 'opentelemetry' in name])"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
