"""How sessions, prefixes and responses are named in the log."""

import re

import pytest

from trioroute.policy.keys import HEX_KEY_BYTES, KEY_BYTES, KeyKind, digest_key

SECRET, EARLY_SECRET = bytes(range(KEY_BYTES)), bytes(range(HEX_KEY_BYTES))


def test_a_name_has_sixteen_signs_and_all_of_its_96_bits() -> None:
    names = [digest_key(SECRET, "session", "m", f"s{n}") for n in range(2_000)]
    assert len(set(names)) == 2_000
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{16}", name) for name in names)


def test_an_early_secret_names_as_it_always_did() -> None:
    """So the pins of a log that was begun then are found again."""
    assert digest_key(EARLY_SECRET, "session", "m", "s") == "56b6330fc6477545eef2d9d2"


@pytest.mark.parametrize("secret", [SECRET, EARLY_SECRET])
def test_a_name_depends_on_the_secret_and_on_all_it_is_told(secret: bytes) -> None:
    told: list[tuple[KeyKind, str, str]] = [
        ("session", "m", "s"),
        ("prefix", "m", "s"),
        ("response", "m", "s"),
        ("session", "n", "s"),
        ("session", "m", "t"),
        ("session", "m", "\ud800"),
    ]
    names = {digest_key(secret, *one) for one in told}
    names |= {digest_key(secret[::-1], *one) for one in told}
    assert len(names) == 2 * len(told)
