"""Two logs side by side on a screen."""

from rich.console import Console
from rich.text import Text

from trioroute.replay.clock import local_iso, span
from trioroute.replay.compare import Compared, RowTest, Side, Spread
from trioroute.replay.present import say, table

_OF_REQUESTS, _OF_DECISIONS = ("failed", "refused", "retried"), ("spills", "rebinds")


def present_compared(console: Console, told: Compared) -> None:
    say(console, told.sentence, "bold")
    say(
        console,
        "p: Welch's t-test over blocks of consecutive rows, each row of the table by itself; * is "
        "a difference that chance would not explain, however many rows are looked at",
    )
    console.print()
    made = table("", "log", "other log", "p", right=("log", "other log", "p"))
    tests = {one.name: one for one in told.tests}
    for name, was, now in _rows(told.log, told.other):
        one = tests.get(name.removesuffix(" p50"))
        made.add_row(Text(name), Text(was), Text(now), Text(_p(one)))
    console.print(made)


def _p(one: RowTest | None) -> str:
    if one is None:
        return ""
    return (f"{one.p:.4f}" if one.p >= 0.0001 else "<0.0001") + (" *" if one.differs else "")


def _rows(log: Side, other: Side) -> list[tuple[str, str, str]]:
    rows = [
        ("log", log.log, other.log),
        ("begins", local_iso(log.begin_ms)[:19], local_iso(other.begin_ms)[:19]),
        ("covers", _covers(log), _covers(other)),
        ("requests", f"{log.requests:,}", f"{other.requests:,}"),
        ("decisions", f"{log.decisions:,}", f"{other.decisions:,}"),
        ("ejects", str(log.ejects), str(other.ejects)),
    ]
    rows += [(name, _part(log, name), _part(other, name)) for name in _OF_REQUESTS]
    rows += [(name, _part(log, name), _part(other, name)) for name in _OF_DECISIONS]
    for title, was, now in (
        ("first byte", log.ttfb, other.ttfb),
        ("whole answer", log.duration, other.duration),
    ):
        rows += [
            (f"{title} {name}", _ms(was, name), _ms(now, name)) for name in ("p50", "p90", "p99")
        ]
    for title, mine, theirs in (
        ("to", log.replicas, other.replicas),
        ("reason", log.reasons, other.reasons),
    ):
        rows += [
            (
                f"{title} {name}",
                _share(mine.get(name, 0), log.decisions),
                _share(theirs.get(name, 0), other.decisions),
            )
            for name in sorted({*mine, *theirs})
        ]
    return rows


def _covers(side: Side) -> str:
    return span(max(0, side.end_ms - side.begin_ms))


def _part(side: Side, name: str) -> str:
    """A refused request is no decision."""
    count = getattr(side, name)
    whole = side.requests if name in _OF_REQUESTS else side.decisions
    return f"{count:,} ({_share(count, whole)})"


def _share(count: int, whole: int) -> str:
    return f"{count / whole:.1%}" if whole else "none"


def _ms(spread: Spread, name: str) -> str:
    value = getattr(spread, f"{name}_ms")
    return "unknown" if value is None else span(value)
