"""What headers become on their way through, in both directions (RFC 9110 7.6, HTTP.md)."""

import re
from collections.abc import Sequence

RawHeaders = Sequence[tuple[bytes, bytes]]

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_NOT_UPSTREAM = HOP_BY_HOP | {b"host", b"content-length", b"expect", b"x-request-id"}
_OURS = frozenset(
    {
        b"x-request-id",
        b"x-trioroute-decision",
        b"x-trioroute-attempts",
        b"x-trioroute-replica",
        b"x-trioroute-reason",
    }
)
_NOT_TO_CLIENT = HOP_BY_HOP | _OURS
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
VIA = b"1.1 trioroute"


def header_value(headers: RawHeaders, name: bytes) -> bytes | None:
    """The first value of a header; ``name`` in lower case."""
    for key, value in headers:
        if key == name:
            return value
    return None


def harmless_request_id(headers: RawHeaders) -> str | None:
    """The client's ``x-request-id`` if it may go into the log and be echoed, else None."""
    value = header_value(headers, b"x-request-id")
    if value is None or _REQUEST_ID.fullmatch(value) is None:
        return None
    return value.decode("ascii")


def _with_named(drop: frozenset[bytes], headers: RawHeaders) -> frozenset[bytes]:
    """``drop`` and what the Connection headers name (RFC 9110 7.6.1)."""
    for key, value in headers:
        if key == b"connection":
            drop |= {token.strip().lower() for token in value.split(b",")}
    return drop


def to_upstream(
    headers: RawHeaders,
    *,
    host: bytes,
    request_id: str,
    peer: str,
    scheme: str,
    authorization: bytes | None,
    forward_client_auth: bool,
) -> list[tuple[bytes, bytes]]:
    """The head for a replica. The client's credentials go on only where that is set.

    ``authorization`` is the replica's own key; it replaces what the client sent.
    """
    drop = _with_named(_NOT_UPSTREAM, headers)
    if authorization is not None or not forward_client_auth:
        drop = drop | {b"authorization", b"x-api-key", b"api-key"}
    sent = [(b"host", host)]
    via: list[bytes] = []
    forwarded_for: list[bytes] = []
    client_host: bytes | None = None
    for key, value in headers:
        if key == b"host":
            client_host = value
        elif key == b"x-forwarded-for":
            forwarded_for.append(value)
        elif key == b"via":
            via.append(value)
        elif key not in drop and key not in (b"x-forwarded-proto", b"x-forwarded-host"):
            sent.append((key, value))
    forwarded_for.append(peer.encode("ascii", "replace"))
    sent.append((b"x-forwarded-for", b", ".join(forwarded_for)))
    sent.append((b"x-forwarded-proto", scheme.encode("ascii")))
    if client_host is not None:
        sent.append((b"x-forwarded-host", client_host))
    sent.append((b"via", b", ".join([*via, VIA])))
    sent.append((b"x-request-id", request_id.encode("ascii")))
    if authorization is not None:
        sent.append((b"authorization", authorization))
    return sent


def to_client(
    headers: RawHeaders, ours: list[tuple[bytes, bytes]], *, event_stream: bool
) -> list[tuple[bytes, bytes]]:
    """The head for the client; an event stream asks proxies in front not to buffer it.

    What another router of this kind behind us told of its own decision is not ours to show.
    """
    drop = _with_named(_NOT_TO_CLIENT, headers)
    sent: list[tuple[bytes, bytes]] = []
    via: list[bytes] = []
    present: set[bytes] = set()
    for key, value in headers:
        if key == b"via":
            via.append(value)
        elif key not in drop:
            sent.append((key, value))
            present.add(key)
    if event_stream:
        if b"cache-control" not in present:
            sent.append((b"cache-control", b"no-cache"))
        if b"x-accel-buffering" not in present:
            sent.append((b"x-accel-buffering", b"no"))
    sent.append((b"via", b", ".join([*via, VIA])))
    sent += ours
    return sent
