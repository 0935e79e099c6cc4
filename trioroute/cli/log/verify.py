"""``trioroute log verify``: is every row what was written?"""

import json
import sys
from pathlib import Path
from typing import Any

import attrs
import click

from eventlog import Head
from eventlog.check import Bad, Checked, check_log, holds_at
from eventlog.lost_end import PARTS, lost_end
from trioroute.cli.failures import warn
from trioroute.cli.log.digests import Digests
from trioroute.cli.log.parts import InParts, check_in_parts
from trioroute.cli.log.words import CHECK_FAILED, Bar, failures, json_option, log_argument
from trioroute.cli.replay_source import being_written, give_way
from trioroute.events import Stopped
from trioroute.replay.present import console_for, say
from trioroute.replay.words import plural

EPILOG = """\b
Examples:
  trioroute log verify trioroute-log
  trioroute log verify trioroute-log --head 510:3f0c2b9e0d5c4b7a8e9f0a1b2c3d4e5f
"""
SHOWN = 20


@click.command("verify", epilog=EPILOG)
@log_argument
@click.option("--head", metavar="SEQ:CHAIN", help="A head that was kept elsewhere.")
@json_option
def verify_command(log: Path, head: str | None, as_data: bool) -> None:
    """Check every row of LOG: chain, order, gaps, and the digests of the state.

    Names the first bad row with its file and byte, what is lost, and what still holds. Exit code 1
    if anything is bad. Decisions are taken again by `trioroute replay LOG --verify`.
    """
    kept = None if head is None else _head_of(head)
    with failures():
        digests = _checked(log)
        found = digests.checked
        missing = kept is not None and not holds_at(log, kept)
        lost = lost_end(log, Stopped.__name__)
    told = _told(found, digests, head if missing else None)
    told |= {f"{part}_missing": lost is not None and lost.part == part for part in PARTS}
    if lost is not None:
        warn(f"{lost.words(found.head.seq)} (--head)")
    if as_data:
        click.echo(json.dumps(told))
    else:
        _show(told, found)
    if not told["ok"]:
        sys.exit(CHECK_FAILED)


def _head_of(text: str) -> Head:
    try:
        return Head.parse(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not SEQ:CHAIN, as `log info` shows it") from error


def _checked(log: Path) -> InParts:
    """By several processes where the log is long and all of it good, else in one walk."""
    written = being_written(log)
    if written:
        give_way()
    with Bar("verifying") as bar:
        found = check_in_parts(log, bar, spared_cores=int(written))
        if found is not None:
            return found
        digests = Digests(log)
        checked = check_log(log, start=digests.start, on_row=digests.take, progress=bar)
    return InParts(checked, digests.good, digests.bad)


def _told(found: Checked, digests: InParts, missing_head: str | None) -> dict[str, Any]:
    bad = [attrs.asdict(one) for one in found.bad]
    return {
        "ok": not bad and not digests.bad and missing_head is None,
        "begins_at": found.begins_at,
        "anchored": found.anchored,
        "rows": found.rows,
        "head": {"seq": found.head.seq, "chain": found.head.chain.hex()},
        "digests": digests.good,
        "digests_bad": list(digests.bad[:SHOWN]),
        "bad": bad,
        "holds": found.holds,
        "missing_head": missing_head,
    }


def _show(told: dict[str, Any], found: Checked) -> None:
    console = console_for()
    head = f"head seq {told['head']['seq']}, chain {told['head']['chain']}"
    if told["ok"]:
        counts = f"{plural(told['rows'], 'row')}, {plural(told['digests'], 'digest')}"
        say(console, f"verified: {counts}; {head}", "green")
    for one in found.bad[:SHOWN]:
        say(console, _bad(one), "bold red")
    if len(found.bad) > SHOWN:
        say(console, f"and {len(found.bad) - SHOWN} more", "bold red")
    for seq in told["digests_bad"]:
        say(console, f"bad: the digest of row {seq} is not that of the state before it", "bold red")
    if told["missing_head"]:
        kept = told["missing_head"]
        why = "it was rewritten, or cut off before it"
        if found.bad:
            why = "that row is damaged, or it was rewritten"
        if Head.parse(kept).seq < told["begins_at"]:
            why = f"that row was retired, the log begins at {told['begins_at']}"
        say(console, f"bad: the head {kept} is not in this log: {why}", "bold red")
    if not told["ok"]:
        places = ", ".join(f"{first} to {last}" for first, last in found.holds[:SHOWN])
        end = f"; {head}" if told["head"]["seq"] else ""  # none where the end cannot be read
        say(console, f"holds: rows {places or 'none'}{end}")
    if told["begins_at"] > 1:
        link = "follows the head that its snapshot tells" if told["anchored"] else "is on trust"
        say(
            console,
            f"what went before row {told['begins_at']} was retired and is not proved; "
            f"the first row kept {link}",
        )


def _bad(one: Bad) -> str:
    rows = f"row {one.first}" if one.first == one.last else f"rows {one.first} to {one.last}"
    place = f", byte {one.offset} of {one.part}" if one.offset is not None else ""
    return f"bad: {rows} of {one.file}{place}: {one.reason}"
