"""How fast an answer was made, so that long answers and short ones can be compared.

Of an answer in pieces: the time from its first byte on, a token where the engine told how many they
were, else a byte. Of a whole one: all of its time, a token; of one without tokens of its own, as
embeddings are, a token of its prompt. A whole answer that tells no tokens has no pace: most of its
bytes are its envelope.
"""

from math import log2

from trioroute.events import Released

PIECE_MS = 10
"""An answer whose end comes so soon after its first byte is in one piece. So is one that brought
more tokens than a millisecond each since then: no engine makes those of one request so fast, and
the two segments of a whole answer may come a busy moment apart."""

NO_PACE = -1

DOUBLING = 8
"""Steps of a pace in a doubling: each is 9 % slower than the one before."""

_NANO = DOUBLING * (log2(1_000_000) - 5)
"""From milliseconds to nanoseconds, of which 32 are the least that is told apart."""

_STREAM_BYTES, _STREAM_TOKENS, _WHOLE, _ASKED = 0, 1 << 8, 2 << 8, 66 << 8
"""Kinds; those of whole answers by the doubling of their tokens, for all have the time to first
byte in them."""


def pace_of(end: Released) -> int:
    """Kind and step of the pace in one number (``parted``); NO_PACE where it is not told. Asked of
    every answer of a span, so without a call more than it needs."""
    ttfb_ms, ms, tokens = end.ttfb_ms, end.duration_ms, end.completion_tokens
    if ttfb_ms is None or ms <= 0:
        return NO_PACE
    after_ms = ms - ttfb_ms
    if after_ms > PIECE_MS and not (tokens and after_ms < tokens):
        ms -= ttfb_ms
        kind, units = (_STREAM_TOKENS, tokens) if tokens else (_STREAM_BYTES, end.bytes)
    elif tokens:
        kind, units = _WHOLE + (tokens.bit_length() << 8), tokens
    elif tokens == 0 and end.prompt_tokens:
        kind, units = _ASKED + (end.prompt_tokens.bit_length() << 8), end.prompt_tokens
    else:
        return NO_PACE
    if units <= 0:
        return NO_PACE
    step = int(DOUBLING * log2(ms / units) + _NANO)
    return kind + (step if 0 < step < 256 else 0 if step <= 0 else 255)


def in_one_piece(ttfb_ms: int | None, took_ms: int, tokens: int | None) -> bool:
    """Whether an answer came whole, as far as its row tells; not where no byte came."""
    if ttfb_ms is None:
        return False
    after_ms = took_ms - ttfb_ms
    return after_ms <= PIECE_MS or (tokens is not None and after_ms < tokens)


def is_whole(pace: int, ttfb_ms: int, took_ms: int) -> bool:
    """The same where the pace is known instead of the tokens."""
    return took_ms - ttfb_ms <= PIECE_MS if pace == NO_PACE else pace >= _WHOLE


def parted(pace: int) -> tuple[int, int]:
    """Kind and step."""
    return pace >> 8, pace & 255


def is_stream(kind: int) -> bool:
    return kind < _WHOLE >> 8


def times_of(steps: int) -> float:
    """How many times as long that many steps more are."""
    return float(2 ** (steps / DOUBLING))
