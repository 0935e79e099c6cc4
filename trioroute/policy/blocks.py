"""A prompt as a chain of keyed digests, one a block of text, each standing for its whole prefix.

Prompt text stops here. A digest is made of the one before it and of 2048 bytes, under the log's
secret, so equal beginnings give equal digests and nobody without the secret can test a guess.
48 bits are kept: short in the log, and a clash costs one wrong estimate, never a wrong replay.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import cast

from trioroute.policy.profile import (
    BYTES_PER_TOKEN_ID,
    DEPTH_MAX,
    INNER_FIELDS,
    PROMPT_FIELDS,
    JsonObject,
)
from trioroute.projections.prompts import BLOCK_BYTES, BLOCKS_MAX

DIGEST_BYTES = 6
TEXT_MAX = BLOCK_BYTES * BLOCKS_MAX
FIRST_FIELDS = ("system", "instructions")
"""Engines put these before the messages, wherever they stand in the body."""

_FIELDS = (*FIRST_FIELDS, *(name for name in PROMPT_FIELDS if name not in FIRST_FIELDS))
_TOKEN_MASK = (1 << 8 * BYTES_PER_TOKEN_ID) - 1


def prompt_blocks(body: JsonObject, *, model: str, secret: bytes) -> tuple[int, ...]:
    """The digests of the prompt's full blocks, of its first 1 MiB. Never raises.

    Another model, cache salt (vLLM) or set of tools makes another chain from the start on.
    """
    text = bytearray()
    for piece in _prompt(body):
        text += piece
        if len(text) >= TEXT_MAX:
            break
    full = min(len(text), TEXT_MAX) // BLOCK_BYTES
    if not full:
        return ()
    last = _digest(_seed(body, model), secret)
    view = memoryview(text)
    found: list[int] = []
    for at in range(0, full * BLOCK_BYTES, BLOCK_BYTES):
        block = hashlib.blake2b(last, digest_size=DIGEST_BYTES, key=secret)
        block.update(view[at : at + BLOCK_BYTES])
        last = block.digest()
        found.append(int.from_bytes(last, "big") or 1)  # 0 means none
    return tuple(found)


def _seed(body: JsonObject, model: str) -> bytes:
    seed = bytearray(_encoded(model))
    for name in ("cache_salt", "tools", "functions"):
        for piece in _everything(body.get(name), DEPTH_MAX):
            seed += b"\0" + piece
    return bytes(seed)


def _digest(data: bytes, secret: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES, key=secret).digest()


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _prompt(body: JsonObject) -> Iterator[bytes]:
    for name in _FIELDS:
        value = body.get(name)
        if value is not None:
            yield from _pieces(value, DEPTH_MAX)


def _pieces(value: object, depth: int) -> Iterator[bytes]:
    """What ``profile.prompt_bytes`` counts, in order; a role begins a message."""
    if isinstance(value, str):
        yield _encoded(value)
    elif depth == 0:
        return
    elif isinstance(value, list):
        if value and type(value[0]) is int:
            yield _token_ids(value)
        else:
            for part in value:
                yield from _pieces(part, depth - 1)
    elif isinstance(value, Mapping):
        inner = cast("Mapping[str, object]", value)
        role = inner.get("role")
        if isinstance(role, str):
            yield _encoded(role)[:1]
        for name in INNER_FIELDS:
            if name in inner:
                yield from _pieces(inner[name], depth - 1)


def _token_ids(value: list[object]) -> bytes:
    most = TEXT_MAX // BYTES_PER_TOKEN_ID
    ids = [one & _TOKEN_MASK if isinstance(one, int) else 0 for one in value[:most]]
    return b"".join([one.to_bytes(BYTES_PER_TOKEN_ID, "little") for one in ids])


def _everything(value: object, depth: int) -> Iterator[bytes]:
    """All names, texts and numbers in a value."""
    if depth == 0 or value is None:
        return
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            yield _encoded(str(name))
            yield from _everything(inner, depth - 1)
    elif isinstance(value, list):
        for part in value:
            yield from _everything(part, depth - 1)
    else:
        yield _encoded(str(value))
