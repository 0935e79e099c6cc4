"""What answers say about their replica."""

import pytest

from trioroute.proxy.upstream.error import Cause, UpstreamError
from trioroute.proxy.verdict import Trouble, of_error, of_error_event, of_status


@pytest.mark.parametrize("status", [200, 204, 301, 400, 401, 403, 404, 408, 422, 499, 501, 505])
def test_a_proper_word_is_no_trouble(status: int) -> None:
    assert of_status(status, [], 1000) is None


@pytest.mark.parametrize("status", [500, 502, 504])
def test_faults_count_against_the_replica(status: int) -> None:
    headers = [(b"retry-after", b"5")]
    assert of_status(status, headers, 1000) == Trouble("status", "replica", status, True)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("value", "wait_ms"),
    [
        (None, 1000),
        (b"7", 7000),
        (b"0", 0),
        (b"999999999", 300_000),
        (b"9999999999", 1000),
        (b"-1", 1000),
        (b"1.5", 1000),
        (b"", 1000),
        (b"Wed, 21 Oct 2026 07:28:00 GMT", 1000),
        (b"\xb2", 1000),
    ],
)
def test_busy_is_nobodys_fault(status: int, value: bytes | None, wait_ms: int) -> None:
    headers = [] if value is None else [(b"retry-after", value)]
    assert of_status(status, headers, 1000) == Trouble("status", "none", status, True, wait_ms)


@pytest.mark.parametrize("code", [400, 401, 404, 422, 499])
def test_a_client_error_in_an_event_is_the_clients(code: int) -> None:
    assert of_error_event(code, 1000) is None


@pytest.mark.parametrize("code", [500, 501, 502, 504, 599])
def test_other_errors_in_an_event_are_the_replicas(code: int) -> None:
    assert of_error_event(code, 1000) == Trouble("error_event", "replica", code, True)


@pytest.mark.parametrize("code", [429, 503])
def test_busy_in_an_event(code: int) -> None:
    assert of_error_event(code, 1000) == Trouble("error_event", "none", code, True, 1000)


@pytest.mark.parametrize("cause", ["refused", "dns", "tls", "fin", "reset", "timeout", "protocol"])
def test_errors_of_the_wire(cause: Cause) -> None:
    assert of_error(UpstreamError(cause, "x")) == Trouble(cause, "replica", None, False)
    assert of_error(UpstreamError(cause, "x", sent=True)).sent
    assert of_error(UpstreamError(cause, "x", local=True)).blame == "router"
