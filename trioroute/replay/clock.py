"""Points in time and spans as people write and read them. The only clock of this package."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, date, datetime, timedelta, tzinfo

from trioroute.quantities import BadValue, parse_duration_ms
from trioroute.replay.calendar import nearest_shown
from trioroute.replay.read import BadQuestion

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ONE_DAY = timedelta(days=1)

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
    """``2026-03-01T14:00:00.250+01:00``: local time, or UTC where that was asked, with offset; of a
    time beyond the calendar, which damage can leave in a log, the calendar's end."""
    return _at(at_ms).astimezone(_zone()).isoformat(timespec="milliseconds")


def _at(at_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=nearest_shown(at_ms))


def _zone() -> tzinfo | None:
    return UTC if _IN_UTC.get() else None


def time_heading() -> str:
    """Over a column of times without their offset."""
    return "time (UTC)" if _IN_UTC.get() else "time"


def utc_iso(at_ms: int) -> str:
    """``2026-03-01T13:00:00.250Z``."""
    return _at(at_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def span(ms: int) -> str:
    """A length of time in at most two parts: "850 ms", "12.3 s", "4 min 10 s", "3 h", "2 d 4 h".
    What is less than its last part is cut: of an upper bound write ``at_most``."""
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


def at_most(ms: int) -> str:
    """``span`` of an upper bound: what would be cut rounds it up."""
    for step, until in ((1, 1000), (100, 60_000), (1000, 3_600_000), (60_000, 86_400_000)):
        if (up := -(-ms // step) * step) < until:
            return span(up)
    return span(-(-ms // 3_600_000) * 3_600_000)


_PARTS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def ago(at_ms: int, now: int) -> str:
    return f"{span(now - at_ms)} ago" if at_ms <= now else f"in {span(at_ms - now)}"


_REMEDY = (
    "write ISO time such as 2026-03-01T14:00:00, a time of the log's last day such as 14:00, "
    '"-15m" for before the last event, or "15 min ago" for before now'
)
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?")
_WORDS = re.compile(r"(\d)\s*(ms|[smhd])[a-z]*\s*", re.IGNORECASE)


def parse_point(text: str, last_ms: int, first_ms: int = 0) -> int:
    """Milliseconds of a point in time: ISO 8601 (without an offset: local time, or UTC where that
    was asked), a time of day (of the day of ``last_ms``, or of the day before where it would be
    later and that is not before ``first_ms``), ``-15m`` before ``last_ms``, ``15 min ago`` or
    ``now``.

    Raises BadQuestion.
    """
    text = text.strip()
    try:
        if text == "now":
            return now_ms()
        if text.startswith("-"):
            return last_ms - parse_duration_ms(_short(text[1:]))
        if text.endswith(" ago"):
            return now_ms() - parse_duration_ms(_short(text.removesuffix(" ago")))
        if _CLOCK.fullmatch(text):
            day = _date_of(last_ms)
            at_ms = _on_day(day, text, _zone())
            before_ms = _on_day(day - ONE_DAY, text, _zone())
            return at_ms if at_ms <= last_ms or before_ms < first_ms else before_ms
        return _ms_of(_in_zone(datetime.fromisoformat(text), _zone()))
    except (BadValue, ValueError, OverflowError) as error:
        raise BadQuestion(f"{text!r} is not a time: {_REMEDY}") from error


def _short(text: str) -> str:
    """``1 hour 30 min`` as ``1h30m``."""
    return _WORDS.sub(lambda found: found[1] + found[2].lower(), text.strip())


def _in_zone(at: datetime, zone: tzinfo | None) -> datetime:
    """With an offset: its own, else that of ``zone``, None being this place's."""
    return at.replace(tzinfo=zone).astimezone() if at.tzinfo is None else at


def _date_of(at_ms: int) -> date:
    return _at(at_ms).astimezone(_zone()).date()


def _on_day(day: date, clock: str, zone: tzinfo | None) -> int:
    """That time of a day, which may have an offset of its own."""
    hours, _, rest = clock.partition(":")
    return _ms_of(_in_zone(datetime.fromisoformat(f"{day}T{int(hours):02}:{rest}"), zone))


def _ms_of(at: datetime) -> int:
    return (at - EPOCH) // timedelta(milliseconds=1)


def parse_span(text: str, last_ms: int, first_ms: int = 0) -> tuple[int, int]:
    """Both ends of ``FROM/TO``, milliseconds. TO may be a time of FROM's day, or is the last event
    where it is left out: ``2026-03-01T14:00/15:00``, ``14:00/15:00``, ``-1h/-30m``, ``-1h``.

    Raises BadQuestion.
    """
    begin, _, end = (part.strip() for part in text.partition("/"))
    from_ms = parse_point(begin, last_ms, first_ms)
    if not end:
        to_ms = last_ms
    elif _CLOCK.fullmatch(end):
        to_ms = _end_of_span(begin, end, from_ms, last_ms)
    else:
        to_ms = parse_point(end, last_ms, first_ms)
    if to_ms <= from_ms:
        raise BadQuestion(
            f"{text!r} is no span: FROM must be before TO, as in 2026-03-01T14:00/15:00 or -1h/-30m"
            + (f"; did you mean {end}/{begin}?" if end and to_ms < from_ms else "")
        )
    return from_ms, to_ms


REQUESTS_AROUND_MS, INCIDENT_AROUND_MS = 60_000, 900_000
"""``around`` a time: so long before it and after it."""

_AROUND = "around "


def parse_time(text: str, around_ms: int, last_ms: int, first_ms: int = 0) -> tuple[int, int]:
    """Of ``around TIME``: ``around_ms`` before it and after it; else as ``parse_span``.

    Raises BadQuestion.
    """
    if text.startswith(_AROUND):
        at_ms = parse_point(text.removeprefix(_AROUND), last_ms, first_ms)
        return at_ms - around_ms, at_ms + around_ms
    if text.strip() == _AROUND.strip():
        raise BadQuestion('around which time? write it in quotes: "around 14:03"')
    return parse_span(text, last_ms, first_ms)


def _end_of_span(begin: str, end: str, from_ms: int, last_ms: int) -> int:
    """A time of day as TO: of FROM's day and in its offset; after a time of day over midnight, if
    the last event is of a later day too."""
    try:
        if not _CLOCK.fullmatch(begin) and begin[:1].isdigit() and not begin.endswith("ago"):
            day = datetime.fromisoformat(begin)
            return _on_day(day.date(), end, day.tzinfo or _zone())
        to_ms = _on_day(_date_of(from_ms), end, _zone())
        if to_ms >= from_ms or _date_of(last_ms) <= _date_of(from_ms):
            return to_ms
        return _on_day(_date_of(from_ms) + ONE_DAY, end, _zone())
    except ValueError as error:
        raise BadQuestion(f"{end!r} is not a time: {_REMEDY}") from error
