"""Keyed digests: how a session, a prefix or a response id is named in memory and in the log.

The secret lies beside the log (mode 0600), so ``replay --session KEY`` can find a session and
nobody without the secret can guess a prompt. Pins are per pool (RULES 4), so session and prefix
digests depend on the model; response ids do not, for a follow-up may name another.
"""

import hashlib
from typing import Literal

DIGEST_BYTES = 12

KeyKind = Literal["session", "prefix", "response"]


def digest_key(secret: bytes, kind: KeyKind, model: str, text: str) -> str:
    """24 hexadecimal digits; equal texts give equal digests under one secret."""
    data = f"{kind}\0{model}\0{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES, key=secret).hexdigest()
