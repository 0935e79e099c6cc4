"""Requests of an event log as traffic.

A log holds no prompt, so contents are supposed: a session's prompts go on from one another, and
prompts of one prefix key share their first 1024 tokens (4096 characters, RULES 5.2). Where the log
knows blocks (it was written under ``least-work``) they are taken. Lengths it does not tell: a
quarter of the bytes, and the mean answer.
"""

from collections.abc import Sequence

import attrs

from trioroute.simulate.profiles import BLOCK_TOKENS
from trioroute.simulate.script import BYTES_PER_TOKEN, Request, Script, Turn

SHARED_TOKENS = 1024
ANSWER_TOKENS = 200
"""An answer's length where a log knows none at all (chosen)."""


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


def supposed(seen: Sequence[Recorded]) -> list[Request]:
    """Give every request its lengths and its blocks; the order stays."""
    known = [one.answer_tokens for one in seen if one.answer_tokens]
    answer = round(sum(known) / len(known)) if known else ANSWER_TOKENS
    texts: dict[str, list[int]] = {}
    next_block = 0
    requests: list[Request] = []
    for one in seen:
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
        length = one.answer_tokens or answer
        requests.append(Request(one.name, prompt, length, full, one.session, one.prefix))
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
