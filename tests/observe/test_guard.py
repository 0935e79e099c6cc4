"""Strangers' pages in a browser of this machine get nothing from the admin port."""

import pytest

from trioroute.observe.guard import refuse


def verdict(method: str = "GET", **headers: str) -> int | None:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    refusal = refuse(method, raw)
    return None if refusal is None else refusal.status


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:9090", "localhost", "LOCALHOST:80", "[::1]", "[::1]:9090"],
)
def test_names_of_this_machine_are_welcome(host: str) -> None:
    assert verdict(host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:9090",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "evil.example/127.0.0.1",
        "10.0.0.1",
        "0.0.0.0",
        "[::]",
        "::1",
        "",
        "127.0.0.1:port",
        "127.0.0.1 evil.example",
    ],
)
def test_any_other_name_may_be_a_rebound_one(host: str) -> None:
    assert verdict(host=host) == 403


def test_no_host_or_two_hosts_are_refused() -> None:
    assert refuse("GET", []) is not None
    assert refuse("GET", [(b"host", b"localhost"), (b"Host", b"localhost")]) is not None


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_probe_may_name_the_port_as_it_likes(path: str) -> None:
    """HAProxy's checks send no Host, Envoy's the name of the cluster."""
    assert refuse("GET", [], path=path) is None
    assert refuse("GET", [(b"host", b"trioroute")], path=path) is None
    assert refuse("GET", [(b"host", b"trioroute")], path="/state") is not None


def test_a_program_without_an_origin_may_post() -> None:
    assert verdict("POST", host="127.0.0.1:9090") is None


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_own_page_may_post(scheme: str) -> None:
    origin = f"{scheme}://localhost:9090"
    assert (
        verdict("POST", host="localhost:9090", origin=origin, sec_fetch_site="same-origin") is None
    )


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost:3000",
        "http://localhost",
        "http://127.0.0.1:9090",
        "null",
        "",
        "localhost:9090",
        "file://localhost:9090",
    ],
)
def test_no_other_origin_may_post(origin: str) -> None:
    assert verdict("POST", host="localhost:9090", origin=origin) == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_browser_that_says_cross_site_may_not_post(site: str) -> None:
    assert verdict("POST", host="localhost:9090", sec_fetch_site=site) == 403


def test_a_refusal_says_what_it_saw_and_how_to_ask() -> None:
    refusal = refuse("GET", [(b"host", b"evil.example")])
    assert refusal is not None
    assert b"evil.example" in refusal.body
    assert b"http://127.0.0.1:PORT" in refusal.body
