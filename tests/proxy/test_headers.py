"""Heads in both directions, without sockets."""

from typing import Any

import pytest

from trioroute.proxy.headers import (
    harmless_request_id,
    header_value,
    to_client,
    to_upstream,
)

Headers = list[tuple[bytes, bytes]]


def up(headers: Headers, **changes: Any) -> Headers:
    fields: dict[str, Any] = {
        "host": b"replica:8000",
        "request_id": "req-1",
        "peer": "10.1.1.1",
        "scheme": "http",
        "authorization": None,
        "forward_client_auth": True,
    }
    return to_upstream(headers, **{**fields, **changes})


def test_the_first_value_of_a_header_counts() -> None:
    assert header_value([(b"a", b"1"), (b"a", b"2")], b"a") == b"1"
    assert header_value([], b"a") is None


def test_the_least_a_replica_gets() -> None:
    assert up([]) == [
        (b"host", b"replica:8000"),
        (b"x-forwarded-for", b"10.1.1.1"),
        (b"x-forwarded-proto", b"http"),
        (b"via", b"1.1 trioroute"),
        (b"x-request-id", b"req-1"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"content-length",
        b"expect",
    ],
)
def test_what_belongs_to_one_hop_never_goes_on(name: bytes) -> None:
    assert name not in dict(up([(name, b"x")]))
    if name not in (b"content-length", b"expect"):
        assert name not in dict(to_client([(name, b"x")], [], event_stream=False))


def test_names_in_connection_go_with_it() -> None:
    headers = [(b"connection", b"close, X-One"), (b"connection", b" x-two "), (b"x-keep", b"1")]
    both = [*headers, (b"x-one", b"1"), (b"x-two", b"2")]
    for sent in (up(both), to_client(both, [], event_stream=False)):
        names = {name for name, _ in sent}
        assert b"x-keep" in names
        assert not names & {b"x-one", b"x-two", b"connection"}


def test_connection_cannot_take_away_what_the_router_adds() -> None:
    headers = [(b"connection", b"host, via, x-forwarded-for, x-request-id"), (b"host", b"h")]
    names = [name for name, _ in up(headers)]
    assert {b"host", b"via", b"x-forwarded-for", b"x-request-id"} <= set(names)
    assert names.count(b"host") == 1


def test_lists_grow_at_their_end() -> None:
    headers = [
        (b"via", b"a"),
        (b"x-forwarded-for", b"1"),
        (b"via", b"b"),
        (b"x-forwarded-for", b"2"),
    ]
    sent = dict(up(headers))
    assert sent[b"via"] == b"a, b, 1.1 trioroute"
    assert sent[b"x-forwarded-for"] == b"1, 2, 10.1.1.1"
    assert dict(to_client([(b"via", b"x")], [], event_stream=False))[b"via"] == b"x, 1.1 trioroute"


def test_credentials() -> None:
    headers = [(b"authorization", b"Bearer c"), (b"x-api-key", b"c"), (b"cookie", b"k")]
    assert dict(up(headers))[b"authorization"] == b"Bearer c"
    own = up(headers, authorization=b"Bearer own")
    assert [value for name, value in own if name == b"authorization"] == [b"Bearer own"]
    assert b"x-api-key" not in dict(own)
    none = dict(up(headers, forward_client_auth=False))
    assert not {b"authorization", b"x-api-key"} & none.keys()


@pytest.mark.parametrize("value", [b"a", b"A.z_0:-", b"x" * 128])
def test_harmless_ids(value: bytes) -> None:
    assert harmless_request_id([(b"x-request-id", value)]) == value.decode()


@pytest.mark.parametrize("value", [b"", b"x" * 129, b"a b", b"a\n", b"\xe4", b'"', b"a/b", b"\x1b"])
def test_other_ids(value: bytes) -> None:
    assert harmless_request_id([(b"x-request-id", value)]) is None


def test_no_id_is_none() -> None:
    assert harmless_request_id([]) is None


def test_ours_replace_what_another_router_behind_us_says_of_itself() -> None:
    inner = [(b"x-trioroute-%b" % name, b"inner") for name in (b"replica", b"decision", b"reason")]
    ours = [(b"x-trioroute-replica", b"a"), (b"x-request-id", b"mine")]
    sent = to_client([*inner, (b"x-request-id", b"theirs")], ours, event_stream=False)
    assert sent == [(b"via", b"1.1 trioroute"), *ours]


def test_event_streams_ask_not_to_be_buffered_unless_told_otherwise() -> None:
    sent = dict(to_client([], [], event_stream=True))
    assert (sent[b"cache-control"], sent[b"x-accel-buffering"]) == (b"no-cache", b"no")
    own = [(b"cache-control", b"x"), (b"x-accel-buffering", b"y")]
    assert to_client(own, [], event_stream=True)[:2] == own
    assert len(to_client(own, [], event_stream=True)) == 3
