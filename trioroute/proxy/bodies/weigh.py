"""How long a body takes to read, told before it is read: who reads it depends on it.

The looking is done by the router for whatever a client sends, so it is bounded as well.
"""

import attrs

from trioroute.proxy.bodies.facts import Question
from trioroute.proxy.body import UnusableBody, is_json_type, plain_body

PACKED_BYTES = 16 * 1024
"""Of a longer compressed body the router inflates nothing: a kilobyte of empty zstd frames takes
60 µs, one of gzip's tables without a text as long."""

SURE_BYTES = 4 * 1024
"""A shorter body takes under 2 ms, whatever is in it: 0.3 ms a KB of arrays in arrays."""

CONTAINERS_MAX = 2000
"""Arrays and objects, at most, of a longer body that is read by the router. Each takes 0.5 µs; a
chat with the schemas of 50 tools has some 1000. Brackets inside of texts count as well."""

QUOTES_MAX = 20_000
"""Quotation marks, at most, of the same: 10,000 names of an object take 2 ms, 28,000 up to 9 ms.
Source code of that size has 3,000 to 14,000 of them, escaped ones included."""

FEW_QUOTES = 200
"""Leaping from one to the next is quicker than counting, which looks at each byte, up to here:
200 KB of a few long texts take 60 µs to count and under 10 to leap through."""

UNBOUNDED = b"br"
"""Brotli fills its whole window, up to 16 MB, before it gives a byte: 20 ms for a body of 158."""


@attrs.frozen(slots=True)
class Weight:
    """``size``: bytes of text that take as long to read. ``plain``: the body, where that had to be
    inflated to tell, and was."""

    size: int
    plain: bytes | None = attrs.field(default=None, repr=False)


def weigh(question: Question, body: bytes, enough: int, dense_below: int = 0) -> Weight:
    """Of no weight is an upload that is a mere file.

    What is not worth looking at, as it is over ``enough`` for certain, counts as the largest. So
    does what is full of brackets or quotation marks and shorter than ``enough`` or ``dense_below``.
    """
    if b"content-encoding" in question.first:
        return _packed(question, body, enough)
    if len(body) < max(enough, dense_below) and _is_dense(question, body):
        return _largest(question, enough)
    if len(body) < enough:
        return Weight(len(body))
    kind = question.first.get(b"content-type")
    form = kind is not None and kind.lower().startswith(b"multipart/")
    return Weight(len(body) if form or is_json_type(kind) else 0)


def _packed(question: Question, body: bytes, enough: int) -> Weight:
    body_max = question.settings.server.max_body_bytes
    largest = _largest(question, enough)
    if len(body) > PACKED_BYTES or UNBOUNDED in question.first[b"content-encoding"].lower():
        return largest
    try:
        plain = plain_body(question.headers, body, min(enough, body_max))
    except UnusableBody as unusable:
        return largest if unusable.error.code == "body_too_large" else Weight(len(body))
    return largest if _is_dense(question, plain) else Weight(len(plain), plain)


def _largest(question: Question, enough: int) -> Weight:
    return Weight(max(enough, question.settings.server.max_body_bytes))


def _is_dense(question: Question, body: bytes) -> bool:
    """Looks for one bracket after the other: counting them takes half as long as reading prose."""
    if len(body) < SURE_BYTES or not is_json_type(question.first.get(b"content-type")):
        return False
    left = CONTAINERS_MAX
    for bracket in (b"[", b"{"):
        left -= _count(body, bracket, left)
    if not left:
        return True
    if len(body) <= 2 * QUOTES_MAX or _count(body, b'"', FEW_QUOTES + 1) <= FEW_QUOTES:
        return False
    return body.count(b'"') > QUOTES_MAX


def _count(body: bytes, sought: bytes, most: int) -> int:
    """How many there are, ``most`` at most, by leaping from one to the next."""
    at, found = -1, 0
    while found < most and (at := body.find(sought, at + 1)) >= 0:
        found += 1
    return found
