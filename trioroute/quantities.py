"""Durations, sizes and numbers with a fraction, as people write them and as integers.

Nothing here returns a float: the settings go into the log and below the waterline.
"""

import math
import re
from decimal import ROUND_HALF_EVEN, Decimal


class BadValue(ValueError):
    """A value that its key cannot take: what is wrong, and what to write instead."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}; {remedy}")
        self.message = message
        self.remedy = remedy


_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?(ms|s|m|h|d)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_DURATION_REMEDY = 'write seconds (3, 0.5) or text such as "3s", "250ms", "10m", "1h"'

_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([a-z]{0,3})")
_UNIT_BYTES = {
    "": 1,
    "b": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}
_SIZE_REMEDY = 'write bytes (65536) or text such as "64KiB", "64MiB", "1.5GiB", "64MB"'


def parse_duration_ms(value: object) -> int:
    """Milliseconds of a number of seconds, or of text such as ``3s``, ``250ms``, ``1h30m``.

    Rounded to the nearest millisecond, but never to 0, which switches limits off.
    Raises BadValue.
    """
    seconds = _number(value, _NUMBER, "is not a duration", _DURATION_REMEDY)
    if seconds is not None:
        exact_ms = seconds * 1000
    elif isinstance(value, str) and _DURATION.fullmatch(value.strip()):
        parts = _PART.findall(value)
        exact_ms = sum((Decimal(count) * _UNIT_MS[unit] for count, unit in parts), Decimal(0))
    else:
        raise BadValue("is not a duration", _DURATION_REMEDY)
    rounded = int(exact_ms.to_integral_value(ROUND_HALF_EVEN))
    if exact_ms > 0 and rounded == 0:
        raise BadValue("is shorter than a millisecond", _DURATION_REMEDY)
    return rounded


def parse_size_bytes(value: object) -> int:
    """Bytes of a whole number, or of text such as ``64MiB`` (2**20) or ``64MB`` (10**6).

    A bare ``64M`` is refused: programs do not agree on what it means. Raises BadValue.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise BadValue("is not a size", _SIZE_REMEDY)
    found = _SIZE.fullmatch(value.strip().lower())
    unit = None if found is None else _UNIT_BYTES.get(found[2])
    if found is None or unit is None:
        raise BadValue("is not a size", _SIZE_REMEDY)
    exact = Decimal(found[1]) * unit
    if exact != int(exact):
        raise BadValue("is not a whole number of bytes", _SIZE_REMEDY)
    return int(exact)


def parse_thousandths(value: object) -> int:
    """Thousandths of a number: 0.2 is 200. Raises BadValue for what has finer digits."""
    remedy = "write a number with at most three digits after the point, such as 0.2"
    number = _number(value, _NUMBER, "is not a number", remedy)
    if number is None:
        raise BadValue("is not a number", remedy)
    if number * 1000 != int(number * 1000):
        raise BadValue("is finer than a thousandth", remedy)
    return int(number * 1000)


def _number(value: object, text: re.Pattern[str], message: str, remedy: str) -> Decimal | None:
    """A number or a text of digits, exactly as written; None for any other text."""
    if isinstance(value, str):
        return Decimal(value.strip()) if text.fullmatch(value.strip()) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadValue(message, remedy)
    if isinstance(value, float) and not math.isfinite(value):
        raise BadValue(message, remedy)
    if abs(value) >= 10**15:
        raise BadValue("is too large", remedy)
    return Decimal(repr(value))


def duration_text(ms: int) -> str:
    """The shortest text that ``parse_duration_ms`` reads back as ``ms``."""
    if ms == 0:
        return "0"
    for unit in ("d", "h", "m", "s"):
        if ms % _UNIT_MS[unit] == 0:
            return f"{ms // _UNIT_MS[unit]}{unit}"
    return f"{ms}ms"


def size_text(size_bytes: int) -> str:
    """The shortest text that ``parse_size_bytes`` reads back as ``size_bytes``."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes and size_bytes % unit == 0:
            return f"{size_bytes // unit}{name}"
    return str(size_bytes)


def thousandths_text(thousandths: int) -> str:
    """The shortest text that ``parse_thousandths`` reads back as ``thousandths``."""
    whole, rest = divmod(thousandths, 1000)
    return f"{whole}.{rest:03d}".rstrip("0").rstrip(".")
