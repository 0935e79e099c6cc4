"""The standard variables of OpenTelemetry: when they ask for spans, and what is refused."""

import importlib.util
from collections.abc import Mapping

import pytest

from trioroute.settings import SettingsError, endpoint_named, load

COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
TRACES = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}


def refused(environ: Mapping[str, str]) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(None, environ=environ)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({}, ""),
        ({"OTEL_SERVICE_NAME": "x"}, ""),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, ""),
        (COLLECTOR, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({**COLLECTOR, **TRACES}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
        ({**COLLECTOR, "OTEL_SDK_DISABLED": "true"}, ""),
        ({**COLLECTOR, "OTEL_TRACES_EXPORTER": "none"}, ""),
    ],
)
def test_a_collector_that_is_named_asks_for_spans(environ: dict[str, str], named: str) -> None:
    assert endpoint_named(environ) == named
    load(None, environ=environ)


def test_another_protocol_or_exporter_is_refused_with_the_remedy() -> None:
    (told,) = refused({**COLLECTOR, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    assert told == (
        "OTEL_EXPORTER_OTLP_PROTOCOL: grpc: is not spoken here; set it to http/protobuf, and"
        " OTEL_EXPORTER_OTLP_ENDPOINT to the collector's HTTP port (4318),"
        " or set OTEL_SDK_DISABLED=true"
    )
    (told,) = refused({**COLLECTOR, "OTEL_TRACES_EXPORTER": "console"})
    assert told.endswith("set it to otlp or none")
    load(None, environ={**COLLECTOR, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"})


def test_packages_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "trioroute.settings.spans.find_spec",
        lambda name: None if name.startswith("opentelemetry") else find(name),
    )
    (told,) = refused(COLLECTOR)
    assert "pip install 'trioroute[otel]'" in told
    load(None, environ={})
