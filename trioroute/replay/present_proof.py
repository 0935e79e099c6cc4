"""The result of ``--verify`` on a screen."""

from rich.console import Console
from rich.text import Text

from trioroute.replay.followed import as_fields
from trioroute.replay.present import say, side_by_side, table
from trioroute.replay.proof import OtherToday, Verified
from trioroute.replay.words import plural


def present_verified(console: Console, verified: Verified) -> None:
    """The proof in one line, or the first difference."""
    found = verified.difference
    counts = (
        f"{plural(verified.events, 'event')}, {plural(verified.decisions, 'decision')}, "
        f"{plural(verified.digests, 'digest')}, {plural(verified.restarts, 'restart')}"
    )
    if verified.begins_at > 1:
        begins = verified.begins_at
        say(
            console, f"what went before seq {begins} was retired or its past was, and is not proved"
        )
    if found is None:
        say(console, f"verified: {counts}", "green")
        if verified.in_flight:
            say(console, f"{verified.in_flight} in flight where the log ends")
    else:
        say(console, f"{found.text}", "bold red")
        if found.recorded or found.recomputed:
            side_by_side(
                console,
                [as_fields(event) for event in found.recorded],
                [as_fields(event) for event in found.recomputed],
            )
        say(console, f"good up to there: {counts}")
    if verified.today is not None:
        _present_today(console, verified.today)
    if verified.gaps:
        say(
            console,
            f"{plural(verified.gaps, 'gap')}: what the store could not take is not in the log",
        )


def _present_today(console: Console, today: OtherToday) -> None:
    under = ", ".join(
        f"{count} under rules {rules}" for rules, count in sorted(today.decisions.items())
    )
    say(
        console,
        f"rules of today ({today.rules}): {today.differ} of {under or 'no decision'} would be "
        "decided otherwise, each taken again from its own recorded past",
        "bold",
    )
    if today.digests:
        say(console, f"{plural(today.digests, 'digest')} of another release: its states differ")
    if today.unexplained:
        text = f"{today.unexplained} were taken under these very rules: not deterministic"
        say(console, text, "bold red")
    if today.first is None:
        return
    made = table("decisions", "rules", "what today's code does", "first", right=("decisions",))
    for one in sorted(today.causes.values(), key=lambda cause: -cause.count):
        made.add_row(str(one.count), str(one.rules), Text(one.cause), Text(one.first))
    console.print(made)
    say(console, f"first     {today.first.text}", "bold")
    side_by_side(
        console,
        [as_fields(event) for event in today.first.recorded],
        [as_fields(event) for event in today.first.recomputed],
    )
