"""Asking a replica for a model by its own name: the one value that is changed in a body.

An engine knows nothing of our aliases. All other bytes go on as they came; a compressed body goes
on inflated, for nothing can be changed inside it.
"""

import json
import re
from collections.abc import Iterator, Sequence

import orjson

from trioroute.proxy.body import JsonObject, UnusableBody, is_json, multipart_model_span
from trioroute.proxy.errors import RouterError
from trioroute.proxy.headers import RawHeaders

Span = tuple[int, int]

_TOKEN = re.compile(rb'[{}\[\]]|"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_VALUE = re.compile(rb'\s*:\s*("[^"\\]*+(?:\\.[^"\\]*+)*+")', re.DOTALL)
_KEY = b'"model"'
_ESCAPED = b"\\u006"
"""What an escaped letter of ``model`` begins with: m, o, d, e and l are U+006D to U+006C."""

SPANS_MAX = 100
PIECE_BYTES = 512 * 1024


def model_spans(headers: RawHeaders, plain: bytes, parsed: JsonObject) -> tuple[Span, ...]:
    """Where in the body, inflated and as parsed, the values stand that name its model.

    Raises UnusableBody where there are over SPANS_MAX: a field named twice is damage already.
    """
    if not is_json(headers):
        span = multipart_model_span(headers, plain)
        return () if span is None else (span,)
    if not isinstance(parsed.get("model"), str):
        return ()
    only = _only_span(plain)
    if only is not None:
        return (only,)
    spans: list[Span] = []
    for span in _json_spans(plain):
        spans.append(span)
        if len(spans) > SPANS_MAX:
            error = "invalid_request", f"the field model is there more than {SPANS_MAX} times"
            raise UnusableBody(RouterError(*error, "model"))
    return tuple(spans)


def pieces_with_model(
    headers: RawHeaders, plain: bytes, spans: Sequence[Span], model: str
) -> Iterator[bytes | memoryview]:
    """The body that asks for ``model``, in pieces of at most PIECE_BYTES."""
    told = orjson.dumps(model) if is_json(headers) else model.encode()
    view = memoryview(plain)
    end = 0
    for start, after in spans:
        yield from _cut(view[end:start])
        yield told
        end = after
    yield from _cut(view[end:])


def _cut(view: memoryview) -> Iterator[memoryview]:
    for at in range(0, len(view), PIECE_BYTES):
        yield view[at : at + PIECE_BYTES]


def _only_span(body: bytes) -> Span | None:
    """Found ten times faster, where ``"model"`` is in the body once: then that is the key.

    In valid JSON its first quote begins a text, unless that is escaped and stands inside of one.
    """
    if _ESCAPED in body:
        return None
    ends: list[int] = []
    at = body.find(_KEY)
    while at >= 0:
        if body[at - 1 : at] != b"\\":
            ends.append(at + len(_KEY))
            if len(ends) > 1:
                return None
        at = body.find(_KEY, at + 1)
    value = _VALUE.match(body, ends[0]) if ends else None
    return None if value is None else value.span(1)


def _json_spans(body: bytes) -> Iterator[Span]:
    """The text values of the keys ``model`` of the outermost object, quotes included."""
    depth = 0
    at = 0
    while (found := _TOKEN.search(body, at)) is not None:
        token, at = found[0], found.end()
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        elif depth == 1:
            value = _VALUE.match(body, at)
            if value is not None:
                at = value.end(1)
                if token == _KEY or (b"\\" in token and json.loads(token) == "model"):
                    yield value.span(1)
