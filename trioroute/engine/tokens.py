"""Tokens without a tokenizer: four bytes of text are one token, and answers are made of such words.

Words of exactly four bytes make an answer of n tokens count as n tokens again when a client sends
it back as history, so a second turn finds the first turn's blocks in the prefix cache.
"""

import hashlib
import random

BYTES_PER_TOKEN = 4

_WORDS = (
    " the and for are but not you all any can had her was one our out day get has him his how man "
    "new now old see two way who boy did its let put say she too use air ask big box car cat dog"
)
VOCABULARY = tuple(f" {word}" for word in _WORDS.split())


def count_tokens(text: bytes) -> int:
    """Tokens of a text, rounded up; an empty text is one token (vLLM always adds a start token)."""
    return max(1, -(-len(text) // BYTES_PER_TOKEN))


def block_digests(text: bytes, block_tokens: int) -> tuple[bytes, ...]:
    """One digest per full block; each covers all the text before it, as vLLM's block hashes do."""
    size = block_tokens * BYTES_PER_TOKEN
    running = hashlib.blake2b(digest_size=16)
    digests = []
    for start in range(0, len(text) - size + 1, size):
        running.update(text[start : start + size])
        digests.append(running.digest())
    return tuple(digests)


def token_ids(text: bytes) -> list[int]:
    """Made-up but stable ids below 2^16, for `/tokenize`."""
    pieces = (text[at : at + BYTES_PER_TOKEN] for at in range(0, len(text), BYTES_PER_TOKEN))
    return [int.from_bytes(hashlib.blake2b(piece, digest_size=2).digest()) for piece in pieces]


def answer_text(seed: int, prompt: bytes, tokens: int) -> str:
    """The answer to a prompt: same seed and prompt, same words, on every replica."""
    salted = hashlib.blake2b(prompt, key=str(seed).encode()[:64], digest_size=8)
    rng = random.Random(int.from_bytes(salted.digest()))
    return "".join(rng.choices(VOCABULARY, k=tokens))
