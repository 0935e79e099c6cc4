"""Damaged copies of good bytes, the same for the same seed, and how many of them a run tries.

``FUZZ_CASES=100000 .venv/bin/python -m pytest -q tests/proxy -k fuzz`` is the long run.
"""

import os
import random
from collections.abc import Iterator, Sequence

CASES = int(os.environ.get("FUZZ_CASES", "2500"))
SOCKET_CASES = min(3000, max(300, CASES // 8))
"""Cases that go over real sockets: each costs a connection."""

TIMEOUT_S = 60 + CASES // 100
"""For a long run on a machine that has other work too."""


def mutated(chance: random.Random, data: bytes, spice: Sequence[bytes]) -> bytes:
    """One to four random changes; ``spice`` is what is put in, or in place of something."""
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(data) + 1)
        to = min(len(data), at + chance.choice((1, 1, 2, 5, 20, 100)))
        match chance.randrange(7):
            case 0:
                data = data[:at] + bytes((chance.randrange(256),)) + data[at + 1 :]
            case 1 | 2:
                data = data[:at] + chance.choice(spice) + data[at:]
            case 3:
                data = data[:at] + chance.choice(spice) + data[to:]
            case 4:
                data = data[:at] + data[to:]
            case 5:
                data = data[:to] + data[at:]
            case _:
                old = chance.choice(spice)
                data = data.replace(old, chance.choice(spice), 1)
    return data


def cases(
    seed: str, samples: Sequence[bytes], spice: Sequence[bytes], count: int
) -> Iterator[bytes]:
    """Good ones now and then, two in a row sometimes, mostly damaged ones, and some noise."""
    chance = random.Random(seed)
    for number in range(count):
        data = chance.choice(samples)
        if chance.random() < 0.3:
            data += chance.choice(samples)
        if number % 50 == 49:
            data = chance.randbytes(chance.randrange(200))
        yield data if number % 20 == 0 else mutated(chance, data, spice)


def cut(chance: random.Random, data: bytes) -> list[bytes]:
    """The same bytes in random pieces."""
    borders = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(6)))
    return [data[a:b] for a, b in zip([0, *borders], [*borders, len(data)], strict=True)]
