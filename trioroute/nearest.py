"""The name that somebody meant who wrote another one: alike, or one slip of the hand away."""

import string
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from itertools import islice

EDITS_MAX = 6000
"""Texts that are tried for one slip; of a very long name fewer than all."""

_SIGNS = string.digits + string.ascii_lowercase + "-_.:/"
_PART_MIN = 3
"""Signs of a name that are enough to mean it: the rest is left out."""


def nearest(name: str, names: Collection[str], cutoff: float = 0.6) -> str | None:
    """The one of ``names`` that is most like ``name``, whatever its case and the order of signs;
    None if none is. The first of those that are as good."""
    by_case = dict[str, str]()
    for one in names:
        by_case.setdefault(one.lower(), one)
    wanted = name.lower()
    if wanted in by_case:
        return by_case[wanted]
    if len(wanted) >= _PART_MIN:
        for fits in (str.startswith, str.endswith):
            part = next((one for one in by_case if fits(one, wanted)), None)
            if part is not None:
                return by_case[part]
    close = get_close_matches(wanted, by_case, 1, cutoff)
    if close:
        return by_case[close[0]]
    mixed = next((one for one in by_case if sorted(one) == sorted(wanted)), None)
    if mixed is None and len(wanted) >= _PART_MIN:
        mixed = next((one for one in by_case if wanted in one), None)
    return None if mixed is None else by_case[mixed]


def hint(name: str, names: Collection[str], of: str = "", cutoff: float = 0.6) -> str:
    """``; did you mean 'gpu1'?``, or nothing; ``of`` is what stands before the name."""
    found = nearest(name, names, cutoff)
    if found is None:
        return ""
    return f"; did you mean {f'{of}{found}' if of else repr(found)}?"


def slips(text: str) -> Iterator[str]:
    """What may have been meant where one sign is too many, missing, wrong, or in its neighbour's
    place, or the case is wrong: for names of which only digests are known, or that are very many.
    """
    return islice(_slips(text), EDITS_MAX)


def _slips(text: str) -> Iterator[str]:
    signs = _SIGNS + (string.ascii_uppercase if text != text.lower() else "")
    yield from {text.strip(), text.lower(), text.upper()} - {text}
    for at in range(len(text)):
        yield text[:at] + text[at + 1 :]
        if at and text[at] != text[at - 1]:
            yield text[: at - 1] + text[at] + text[at - 1] + text[at + 1 :]
    for at in range(len(text) + 1):
        for sign in signs:
            yield text[:at] + sign + text[at:]
            if at < len(text) and text[at] != sign:
                yield text[:at] + sign + text[at + 1 :]
