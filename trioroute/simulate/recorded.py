"""Requests of an event log as traffic.

A log holds no prompt, so contents are supposed: a session's prompts go on from one another, and
prompts of one prefix key share their first 1024 tokens (4096 characters, RULES 5.2). Where the log
knows blocks (it was written under ``least-work``) they are taken. A length it does not tell is
taken from bytes: a quarter of the prompt's, and of the answer's as many a token as in those answers
of its sort (streamed or at once) whose tokens it tells.
"""

from collections.abc import Sequence
from statistics import median

import attrs

from trioroute.simulate.profiles import BLOCK_TOKENS
from trioroute.simulate.script import BYTES_PER_TOKEN, Request, Script, Turn

SHARED_TOKENS = 1024
ANSWER_TOKENS = 200
"""An answer's length where a log knows neither tokens nor bytes (chosen)."""

STREAM_BYTES, WHOLE_BYTES = 220.0, 5.0
"""Bytes of an answer a token, where a log tells the tokens of none of its sort: a chunk of vLLM's
stream with a short model name, and plain text with some JSON around it (chosen). A fitted engine
makes up for what is wrong with them, as they are the same for all answers."""


@attrs.define(slots=True)
class Recorded:
    """One request, as far as a log told of it; None is unknown.

    ``replica`` is where it went last, ``ttfb_ms`` and ``duration_ms`` are of a good answer only,
    ``blocks`` the prompt's full blocks under ``least-work``.
    """

    name: str
    at_ms: int
    prompt_bytes: int
    session: str | None
    prefix: str | None
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    model: str = ""
    replica: str = ""
    blocks: tuple[int, ...] = ()
    retried: bool = False
    ttfb_ms: int | None = None
    duration_ms: int | None = None
    answer_bytes: int | None = None

    @property
    def end_ms(self) -> int | None:
        return None if self.duration_ms is None else self.at_ms + self.duration_ms

    @property
    def streamed(self) -> bool:
        """Whether its first byte came apart from its last: at least a millisecond a token, as no
        engine is faster."""
        if self.ttfb_ms is None or self.duration_ms is None:
            return False
        return self.duration_ms - self.ttfb_ms >= max(2, self.answer_tokens or 0)


def answer_lengths(seen: Sequence[Recorded]) -> list[int]:
    """Tokens of every answer, as far as the log tells or lets suppose."""
    known = [one.answer_tokens for one in seen if one.answer_tokens]
    mean = round(sum(known) / len(known)) if known else ANSWER_TOKENS
    rates = {}
    for streamed, chosen in ((True, STREAM_BYTES), (False, WHOLE_BYTES)):
        told = [
            one.answer_bytes / one.answer_tokens
            for one in seen
            if one.answer_bytes and one.answer_tokens and one.streamed == streamed
        ]
        rates[streamed] = median(told) if told else chosen
    return [
        one.answer_tokens
        or (max(1, round(one.answer_bytes / rates[one.streamed])) if one.answer_bytes else mean)
        for one in seen
    ]


def supposed(seen: Sequence[Recorded]) -> list[Request]:
    """Give every request its lengths and its blocks; the order stays."""
    lengths = answer_lengths(seen)
    texts: dict[str, list[int]] = {}
    before: dict[str, tuple[int, int]] = {}
    next_block = 0
    requests: list[Request] = []
    for one, length in zip(seen, lengths, strict=True):
        prompt = one.prompt_tokens or max(1, one.prompt_bytes // BYTES_PER_TOKEN)
        shared = texts.setdefault(f"prefix {one.prefix}", []) if one.prefix else []
        text = texts.setdefault(f"session {one.session}", []) if one.session else []
        for grown, tokens in ((shared, SHARED_TOKENS), (text, prompt)):
            if grown is text and not text:
                text.extend(shared)
            while len(grown) < min(tokens, prompt) // BLOCK_TOKENS:
                grown.append(next_block)
                next_block += 1
        full = one.blocks or tuple(text[: prompt // BLOCK_TOKENS])
        follows = before.get(one.session or "", (0, 0))
        requests.append(Request(one.name, prompt, length, full, one.session, one.prefix, follows))
        if one.session is not None:
            before[one.session] = (prompt // BLOCK_TOKENS, prompt + length)
    return requests


def one_by_one(seen: Sequence[Recorded]) -> tuple[Script, ...]:
    """Every request at its time, whatever became of the one before (open loop)."""
    begin_ms = min((one.at_ms for one in seen), default=0)
    return tuple(
        Script(one.at_ms - begin_ms, (Turn(request),))
        for one, request in zip(seen, supposed(seen), strict=True)
    )


def one_after_another(seen: Sequence[Recorded]) -> tuple[Script, ...]:
    """A session's next request comes as long after the answer before as it came in the log (closed
    loop): a client that waits for its answers asks less where they are slow. What came before the
    answer was there, or has no session, comes at its time."""
    begin_ms = min((one.at_ms for one in seen), default=0)
    scripts: list[tuple[int, list[Turn]]] = []
    ended: dict[str, tuple[int, list[Turn]]] = {}
    for one, request in zip(seen, supposed(seen), strict=True):
        before = ended.get(one.session) if one.session is not None else None
        if before is not None and one.at_ms >= before[0]:
            turns = before[1]
            turns.append(Turn(request, one.at_ms - before[0]))
        else:
            turns = [Turn(request)]
            scripts.append((one.at_ms - begin_ms, turns))
        if one.session is not None:
            ended.pop(one.session, None)
            if one.end_ms is not None:
                ended[one.session] = (one.end_ms, turns)
    return tuple(Script(start_ms, tuple(turns)) for start_ms, turns in scripts)
