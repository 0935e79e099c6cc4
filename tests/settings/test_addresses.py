"""``HOST:PORT`` and replica URLs."""

import pytest

from trioroute.settings import BadValue, is_loopback, parse_address
from trioroute.settings.addresses import host_and_port, parse_replica_url, same_place


@pytest.mark.parametrize(
    "written, host, port",
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        ("0.0.0.0:0", "0.0.0.0", 0),
        ("[::1]:80", "::1", 80),
        ("[::]:65535", "::", 65535),
        ("localhost:9090", "localhost", 9090),
        ("gpu-1.lan:8000", "gpu-1.lan", 8000),
    ],
)
def test_an_address_is_host_and_port(written: str, host: str, port: int) -> None:
    assert parse_address(written) == (host, port)


@pytest.mark.parametrize(
    "written, why",
    [
        (8080, "is not an address"),
        ("8080", "no host or no port"),
        (":8080", "no host or no port"),
        ("localhost", "no host or no port"),
        ("localhost:", "port that is not"),
        ("localhost:65536", "port that is not"),
        ("localhost:-1", "port that is not"),
        ("localhost:٨٠", "port that is not"),
        ("::1:80", "IPv6 address without brackets"),
        ("[::1", "port that is not|without brackets"),
        ("[localhost]:80", "no IPv6 address between"),
        ("999.1.1.1:80", "neither a name nor an address"),
        ("a b:80", "neither a name nor an address"),
        ("*:80", "neither a name nor an address"),
    ],
)
def test_what_is_no_address_is_refused_with_the_reason(written: object, why: str) -> None:
    with pytest.raises(BadValue, match=why) as caught:
        parse_address(written)
    assert "write HOST:PORT" in caught.value.remedy


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"])
def test_loopback_hosts_are_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.evil.example", "gpu1"])
def test_other_hosts_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "written, url, name",
    [
        ("http://gpu1:8000", "http://gpu1:8000", "gpu1:8000"),
        ("HTTP://GPU1:8000/", "http://gpu1:8000", "gpu1:8000"),
        ("https://gpu1", "https://gpu1", "gpu1:443"),
        ("http://10.0.0.1/engine-a/", "http://10.0.0.1/engine-a", "10.0.0.1:80"),
        ("http://[::1]:8000", "http://[::1]:8000", "[::1]:8000"),
    ],
)
def test_a_replica_url_is_brought_to_one_form(written: str, url: str, name: str) -> None:
    assert parse_replica_url(written) == url
    assert host_and_port(url) == name


@pytest.mark.parametrize(
    "written, why",
    [
        (None, "is not a URL"),
        ("", "is not a URL"),
        ("gpu1:8000", "does not start with http"),
        ("ftp://gpu1", "does not start with http"),
        ("http:gpu1", "does not start with http"),
        ("http://", "cannot be read"),
        ("http://gpu1:0", "cannot be read"),
        ("http://gpu1:99999", "cannot be read"),
        ("http://gpu1:x", "cannot be read"),
        ("http://[::1", "cannot be read"),
        ("http://1.2.3:80", "cannot be read"),
        ("http://gpu1 :80", "holds a blank"),
        ("http://gpü1", "holds a blank or a character"),
        ("http://gpu1\n", "holds a blank or a character"),
        ("http://gpu1/v1", "ends in /v1"),
        ("http://gpu1/a/../b", "not a plain prefix"),
        ("http://gpu1/a//b", "not a plain prefix"),
        ("http://gpu1/a%2fb", "not a plain prefix"),
        ("http://me:secret@gpu1", "user-info"),
        ("http://gpu1?key=secret", "a query or a fragment"),
        ("http://gpu1#secret", "a query or a fragment"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_secrets(written: object, why: str) -> None:
    with pytest.raises(BadValue, match=why) as caught:
        parse_replica_url(written)
    assert "secret" not in str(caught.value)


def test_the_remedy_for_a_url_with_v1_is_the_url_without_it() -> None:
    with pytest.raises(BadValue, match=r'leave /v1 off: "http://gpu1:8000"'):
        parse_replica_url("http://gpu1:8000/v1/")


def test_default_ports_do_not_make_another_place() -> None:
    assert same_place("http://gpu1") == same_place("http://gpu1:80")
    assert same_place("http://gpu1") != same_place("https://gpu1")
    assert same_place("http://gpu1/a") != same_place("http://gpu1/b")
