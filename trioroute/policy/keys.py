"""Keyed digests: how a session, a prefix or a response id is named in memory and in the log.

The secret lies beside the log (mode 0600), so ``replay --session KEY`` can find a session and
nobody without the secret can guess a prompt. Pins are per pool (RULES 4), so session and prefix
digests depend on the model; response ids do not, for a follow-up may name another.
"""

import hashlib
from base64 import urlsafe_b64encode
from typing import Literal

DIGEST_BYTES = 12

KEY_BYTES = 40
"""The length of a secret that is made today."""

HEX_KEY_BYTES = 32
"""A secret of at most this length names by hexadecimal digits, as all once did: so each log keeps
the names it began with, and its pins across an upgrade. The digits of one dispatch were 16 bytes
more."""

KeyKind = Literal["session", "prefix", "response"]


def digest_key(secret: bytes, kind: KeyKind, model: str, text: str) -> str:
    """96 bits as 16 signs of base64url, or as 24 hexadecimal digits where the secret is an early
    one; equal texts give equal digests under one secret."""
    data = f"{kind}\0{model}\0{text}".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(data, digest_size=DIGEST_BYTES, key=secret)
    if len(secret) <= HEX_KEY_BYTES:
        return digest.hexdigest()
    return urlsafe_b64encode(digest.digest()).decode()
