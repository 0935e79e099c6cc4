"""Points in time and spans as people write and read them. The only clock of this package."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, tzinfo

from trioroute.replay.read import BadQuestion
from trioroute.settings.errors import BadValue
from trioroute.settings.quantities import parse_duration_ms

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_IN_UTC = ContextVar("_IN_UTC", default=False)


@contextmanager
def times_in_utc(on: bool) -> Iterator[None]:
    """Within it, times are shown in UTC, and read as UTC where they have no offset."""
    token = _IN_UTC.set(on)
    try:
        yield
    finally:
        _IN_UTC.reset(token)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def local_iso(at_ms: int) -> str:
    """``2026-03-01T14:00:00.250+01:00``: local time, or UTC where that was asked, with offset."""
    at = EPOCH + timedelta(milliseconds=at_ms)
    return at.astimezone(_zone()).isoformat(timespec="milliseconds")


def _zone() -> tzinfo | None:
    return UTC if _IN_UTC.get() else None


def utc_iso(at_ms: int) -> str:
    """``2026-03-01T13:00:00.250Z``."""
    at = EPOCH + timedelta(milliseconds=at_ms)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def span(ms: int) -> str:
    """A length of time in at most two parts: "850 ms", "12.3 s", "4 min 10 s", "3 h", "2 d 4 h"."""
    if ms < 1000:
        return f"{ms} ms"
    seconds, rest = divmod(ms, 1000)
    if seconds < 60:
        return f"{seconds}.{rest // 100} s" if rest >= 100 else f"{seconds} s"
    for size, name, small, small_name in _PARTS:
        if seconds >= size:
            whole, left = divmod(seconds, size)
            more = f" {left // small} {small_name}" if left >= small else ""
            return f"{whole} {name}{more}"
    raise AssertionError("a minute is the smallest part")


_PARTS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def ago(at_ms: int, now: int) -> str:
    return f"{span(now - at_ms)} ago" if at_ms <= now else f"in {span(at_ms - now)}"


def parse_point(text: str, last_ms: int) -> int:
    """Milliseconds of ISO 8601 (without an offset: local time, or UTC where
    that was asked), or of ``-15m`` before ``last_ms``.

    Raises BadQuestion.
    """
    remedy = 'write ISO time such as 2026-03-01T14:00:00, or "-15m" for before the last event'
    try:
        if text.startswith("-"):
            return last_ms - parse_duration_ms(text[1:].strip())
        at = datetime.fromisoformat(text)
        at = at.replace(tzinfo=_zone()).astimezone() if at.tzinfo is None else at
    except (BadValue, ValueError, OverflowError) as error:
        raise BadQuestion(f"{text!r} is not a time: {remedy}") from error
    return (at - EPOCH) // timedelta(milliseconds=1)


def parse_span(text: str, last_ms: int) -> tuple[int, int]:
    """Both ends of ``FROM/TO``, milliseconds. TO may be a time of FROM's day, or is the last event
    where it is left out: ``2026-03-01T14:00/15:00``, ``-1h/-30m``, ``-1h``.

    Raises BadQuestion.
    """
    begin, _, end = text.partition("/")
    from_ms = parse_point(begin.strip(), last_ms)
    end = end.strip()
    if end and ":" in end and "-" not in end.split("+")[0] and "T" in begin:
        end = f"{begin.strip().partition('T')[0]}T{end}"
    to_ms = parse_point(end, last_ms) if end else last_ms
    if to_ms <= from_ms:
        raise BadQuestion(
            f"{text!r} is no span: FROM must be before TO, as in 2026-03-01T14:00/15:00 or -1h/-30m"
        )
    return from_ms, to_ms
