"""Asking a replica for a model by its own name: the one value that is changed in a body.

An engine knows nothing of our aliases. All other bytes go on as they came; a compressed body goes
on inflated, for nothing can be changed inside it.
"""

import re
from collections.abc import Iterator

import orjson

from trioroute.proxy.body import is_json, multipart_model_span, plain_body
from trioroute.proxy.headers import RawHeaders

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\]]', re.DOTALL)
_VALUE = re.compile(rb'\s*:\s*("(?:[^"\\]|\\.)*+")', re.DOTALL)


def with_model(
    headers: RawHeaders, body: bytes, model: str, limit: int
) -> tuple[RawHeaders, bytes]:
    """Headers and body of a request that asks for ``model``; ``limit`` is that of ``plain_body``.

    Takes time in the length of the body: a large one is for a thread. What was read before is
    readable, so it raises nothing; a body without a model stays as it is.
    """
    plain = plain_body(headers, body, limit)
    if is_json(headers):
        spans = list(_json_spans(plain))
        told = orjson.dumps(model)
    else:
        span = multipart_model_span(headers, plain)
        spans, told = ([] if span is None else [span]), model.encode()
    if not spans:
        return headers, body
    parts: list[bytes] = []
    end = 0
    for start, after in spans:
        parts += (plain[end:start], told)
        end = after
    kept = [(name, value) for name, value in headers if name != b"content-encoding"]
    return kept, b"".join((*parts, plain[end:]))


def _json_spans(body: bytes) -> Iterator[tuple[int, int]]:
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
                if orjson.loads(token) == "model":
                    yield value.start(1), at
