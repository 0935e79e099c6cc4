"""``trioroute log verify``: is every row what was written?"""

import json
import sys
from pathlib import Path
from typing import Any

import attrs
import click

from eventlog import Head, LogDamaged, LogError, Record
from eventlog.check import Bad, Checked, check_log, holds_at
from eventlog.reading import SqliteReader
from eventlog.snapshots import BadSnapshot, Snapshots
from trioroute import events as e
from trioroute.cli.log.words import CHECK_FAILED, Bar, failures, json_option, log_argument
from trioroute.projections.digest import digest
from trioroute.replay.present import console_for, say
from trioroute.replay.words import plural
from trioroute.snapshot import LogFold, begin_fold

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
    with failures(), Bar("verifying") as bar:
        digests = _Digests(log)
        found = check_log(log, start=digests.start, on_row=digests.take, progress=bar)
        missing = kept is not None and not holds_at(log, kept)
    told = _told(found, digests, head if missing else None)
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


@attrs.define
class _Digests:
    """Folds the rows that hold, and compares each ``Checked`` with the state that it tells of."""

    log: Path
    fold: LogFold | None = None
    start: Head | None = None
    good: int = 0
    bad: list[int] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.fold = LogFold()
        if not self.log.is_dir():
            return
        try:
            with SqliteReader.open(self.log) as reader:
                first = reader.read(0, 1)
                if first and first[0].seq > 1:
                    self.fold = begin_fold(reader, Snapshots(self.log), until=first[0].seq - 1)
                    at_border = self.fold.head.seq == first[0].seq - 1
                    self.start = self.fold.head if at_border else _border_head(self.log, first[0])
        except LogError:
            return  # told by the check

    def take(self, record: Record) -> None:
        if self.fold is None:
            return
        try:
            self._compare(record)
            self.fold.take(record)
        except (LogDamaged, e.UnreadableEvent):
            self.fold = None  # after damage there is no state to compare with

    def _compare(self, record: Record) -> None:
        fold = self.fold
        if fold is None or record.kind != "Checked" or record.stream in fold.inexact:
            return
        state = fold.states.get(record.stream)
        event = e.decode(record.kind, record.schema, record.body)
        assert isinstance(event, e.Checked)
        if state is not None and digest(state) == event.digest:
            self.good += 1
        else:
            self.bad.append(record.seq)


def _border_head(log: Path, first: Record) -> Head | None:
    """The head before the first row, from a snapshot whose fold is of another release."""
    try:
        return Snapshots(log).read(first.seq - 1).head
    except BadSnapshot:
        return None


def _told(found: Checked, digests: _Digests, missing_head: str | None) -> dict[str, Any]:
    bad = [attrs.asdict(one) for one in found.bad]
    return {
        "ok": not bad and not digests.bad and missing_head is None,
        "begins_at": found.begins_at,
        "anchored": found.anchored,
        "rows": found.rows,
        "head": {"seq": found.head.seq, "chain": found.head.chain.hex()},
        "digests": digests.good,
        "digests_bad": digests.bad[:SHOWN],
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
        say(console, f"holds: rows {places or 'none'}; {head}")
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
