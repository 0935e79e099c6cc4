"""``trioroute log info``: what lies in a log directory."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from eventlog import LogMissing
from eventlog.lost_end import lost_end
from eventlog.reading import SqliteReader
from eventlog.retention import look
from eventlog.snapshots import Snapshots
from trioroute.archived import DIRECTORY, is_archived
from trioroute.cli.log.words import failures, json_option, log_argument
from trioroute.counted import plural
from trioroute.events import Stopped
from trioroute.replay.clock import local_iso
from trioroute.replay.log_end import end_words
from trioroute.replay.present import console_for, say, table
from trioroute.replay.read import Source
from trioroute.replay.silent import silent_words

EPILOG = """\b
Example:
  trioroute log info trioroute-log --json
"""
MEBIBYTE = 1 << 20


@click.command("info", epilog=EPILOG)
@log_argument
@json_option
def info_command(log: Path, as_data: bool) -> None:
    """Show the segments of LOG, its snapshots, its head and what is missing.

    Keep the head somewhere else from time to time: `log verify --head` proves with it that nothing
    before was changed.
    """
    with failures():
        told = _tell(log)
    if as_data:
        click.echo(json.dumps(told))
    else:
        _show(told)


def _tell(log: Path) -> dict[str, Any]:
    with SqliteReader.open(log) as reader:
        head = reader.head()
        source = Source(reader, snapshots=Snapshots(log), directory=log)
        ended = end_words(source) or silent_words(source)
    lost = lost_end(log, Stopped.__name__)
    found = look(log)
    if not found:
        raise LogMissing(log)
    have = Snapshots(log).seqs()
    archives = (log / DIRECTORY).is_dir()
    segments = [
        {
            "file": one.file.path.name,
            "first": one.file.first,
            "last": one.last_seq,
            "bytes": one.size_bytes,
            "first_at": _iso(one.first_at_ms),
            "last_at": _iso(one.last_at_ms),
            "closed": one.closed or (lost is not None and lost.closed(one.file.path)),
            "snapshot": one.file.first == 1 or one.file.first - 1 in have,
            "archived": is_archived(one.file.path) if archives else None,
        }
        for one in found
    ]
    gaps = [
        [before.last_seq + 1, after.file.first - 1]
        for before, after in pairwise(found)
        if after.file.first != before.last_seq + 1
    ]
    return {
        "log": str(log),
        "begins_at": found[0].file.first,
        "events": head.seq - found[0].file.first + 1,
        "bytes": sum(one.size_bytes for one in found),
        "head": {"seq": head.seq, "chain": head.chain.hex()},
        "snapshots": sorted(have),
        "snapshot_bytes": _sizes(Snapshots(log), have),
        "gaps": gaps,
        "ended": ended or None,
        "lost": None if lost is None else lost.words(head.seq),
        "segments": segments,
    }


def _sizes(snapshots: Snapshots, seqs: list[int]) -> int:
    return sum(path.stat().st_size for seq in seqs if (path := snapshots.path(seq)).exists())


def _iso(at_ms: int | None) -> str | None:
    return None if at_ms is None else local_iso(at_ms)


def _show(told: dict[str, Any]) -> None:
    console = console_for()
    made = table("segment", "events", "MiB", "from", "to", "state", right=("MiB",))
    for one in told["segments"]:
        words = ["closed" if one["closed"] else "open"]
        words += [] if one["snapshot"] else ["no snapshot at its beginning"]
        words += ["archived"] if one["archived"] else []
        made.add_row(
            one["file"],
            f"{one['first']} to {one['last']}",
            f"{one['bytes'] / MEBIBYTE:.1f}",
            (one["first_at"] or "")[:19],
            (one["last_at"] or "")[:19],
            ", ".join(words),
        )
    console.print(made)
    size = f"{told['bytes'] / MEBIBYTE:.1f} MiB"
    say(console, f"{plural(told['events'], 'event')} from {told['begins_at']} on, {size}")
    say(console, f"head       {told['head']['seq']}:{told['head']['chain']}")
    newest = f", the newest after {told['snapshots'][-1]}" if told["snapshots"] else ""
    say(console, f"snapshots  {len(told['snapshots'])}{newest}")
    if told["ended"] is not None:
        say(console, f"ended      {told['ended']}", "bold red")
    if told["lost"] is not None:
        say(console, f"lost?      {told['lost']}", "bold red")
    for first, last in told["gaps"]:
        say(console, f"missing    events {first} to {last}", "bold red")
