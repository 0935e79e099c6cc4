"""What headers become on their way through, in both directions (RFC 9110 7.6, INTERFACE 4)."""

import re
from collections.abc import Iterable, Sequence

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
_OURS = frozenset({b"x-request-id", b"via"})
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
VIA = b"1.1 trioroute"


def header_value(headers: RawHeaders, name: bytes) -> bytes | None:
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


def _named_in_connection(headers: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    named: set[bytes] = set()
    for key, value in headers:
        if key == b"connection":
            named.update(token.strip().lower() for token in value.split(b","))
    return named


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
    drop = _NOT_UPSTREAM | _named_in_connection(headers)
    if authorization is not None or not forward_client_auth:
        drop = drop | {b"authorization", b"x-api-key"}
    via = VIA
    sent = [(b"host", host)]
    forwarded_for = peer.encode("ascii", "replace")
    client_host: bytes | None = None
    for key, value in headers:
        if key == b"host":
            client_host = value
        elif key == b"x-forwarded-for":
            forwarded_for = value + b", " + forwarded_for
        elif key == b"via":
            via = value + b", " + VIA
        elif key not in drop and key not in (b"x-forwarded-proto", b"x-forwarded-host"):
            sent.append((key, value))
    sent.append((b"x-forwarded-for", forwarded_for))
    sent.append((b"x-forwarded-proto", scheme.encode("ascii")))
    if client_host is not None:
        sent.append((b"x-forwarded-host", client_host))
    sent.append((b"via", via))
    sent.append((b"x-request-id", request_id.encode("ascii")))
    if authorization is not None:
        sent.append((b"authorization", authorization))
    return sent


def to_client(
    headers: RawHeaders, ours: list[tuple[bytes, bytes]], *, event_stream: bool
) -> list[tuple[bytes, bytes]]:
    """The head for the client; an event stream asks proxies in front not to buffer it."""
    drop = HOP_BY_HOP | _OURS | _named_in_connection(headers)
    sent = [(key, value) for key, value in headers if key not in drop]
    if event_stream:
        present = {key for key, _ in sent}
        if b"cache-control" not in present:
            sent.append((b"cache-control", b"no-cache"))
        if b"x-accel-buffering" not in present:
            sent.append((b"x-accel-buffering", b"no"))
    sent += ours
    return sent
