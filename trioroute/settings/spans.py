"""OpenTelemetry: whether its standard variables ask for spans, and what stands in the way.

There are no keys of our own: operators set ``OTEL_*`` for every program at once.
"""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from trioroute.settings.errors import Problem

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SPOKEN = "http/protobuf"
NEEDED = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter")


def endpoint_named(environ: Mapping[str, str]) -> str:
    """The variable that names a collector, empty if spans are not asked for."""
    off = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if off or environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return ""
    return next((name for name in ENDPOINTS if environ.get(name)), "")


def spans_hindered(environ: Mapping[str, str]) -> Iterator[Problem]:
    """Why the spans that are asked for cannot be sent."""
    named = endpoint_named(environ)
    if not named:
        return
    off = "or set OTEL_SDK_DISABLED=true"
    if not all(_is_there(name) for name in NEEDED):
        why = "asks for OpenTelemetry spans, and the packages for them are not installed"
        yield Problem(named, "", "", why, f"pip install 'trioroute[otel]', {off}")
    exporter = environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower()
    if exporter not in ("", "otlp"):
        why = "is not known here; spans go out by OTLP"
        yield Problem("OTEL_TRACES_EXPORTER", "", exporter, why, "set it to otlp or none")
    for name in PROTOCOLS:
        protocol = environ.get(name, "").strip().lower()
        if protocol not in ("", SPOKEN):
            remedy = f"set it to {SPOKEN}, and {named} to the collector's HTTP port (4318), {off}"
            yield Problem(name, "", protocol, "is not spoken here", remedy)
            return


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # of a package above it
        return False
