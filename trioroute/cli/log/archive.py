"""``trioroute log archive``: a consistent copy, also of a log that is being written."""

import json
from pathlib import Path

import click

from eventlog.lost_end import lost_end
from eventlog.reading import SqliteReader
from eventlog.sqlite_copy import copy_log
from eventlog.sqlite_one_file import copy_into_one_file
from eventlog.word_index import DIRECTORY as INDEX
from trioroute.archived import DIRECTORY as MARKS
from trioroute.cli.failures import warn
from trioroute.cli.log.words import failures, json_option, log_argument
from trioroute.events import Stopped
from trioroute.events.views import VIEWS
from trioroute.recovery import KEY_FILE
from trioroute.replay.words import plural

EPILOG = """\b
Examples:
  trioroute log archive trioroute-log /backup/trioroute-log
  trioroute log archive trioroute-log week.sqlite --one-file
"""

_ONLY_ROWS = (
    "replay --verify proves nothing in it before the next Gap; a copy made without --one-file "
    "can be verified"
)


@click.command("archive", epilog=EPILOG)
@log_argument
@click.argument("target", metavar="TARGET", type=click.Path(path_type=Path))
@click.option("--one-file", is_flag=True, help="All segments in one new SQLite file.")
@json_option
def archive_command(log: Path, target: Path, one_file: bool, as_data: bool) -> None:
    """Copy LOG to TARGET, a directory that is a log then; run it again to bring it up to date.

    The open segment is copied as it is at one moment, and with them the snapshots at the beginning
    of each and the newest. With --one-file TARGET is one SQLite file, whose views cover all rows.
    The file `key` is not copied: keep it apart.
    """
    with failures():
        lost = lost_end(log, Stopped.__name__)
        last_seq, told, text = (_into_one_file if one_file else _as_it_is)(log, target)
        if lost is not None:
            warn(lost.words(last_seq))
    click.echo(json.dumps(told) if as_data else text)


Done = tuple[int, dict[str, object], str]
"""The last row copied, and what to say as data and in words."""


def _into_one_file(log: Path, target: Path) -> Done:
    rows = copy_into_one_file(log, target, VIEWS)
    with SqliteReader.open(target) as reader:
        first = next((row.seq for row in reader.read(0, 1)), 1)
        last_seq = reader.head().seq
    if first > 1:
        warn(f"{target} begins at seq {first} and holds no snapshot: {_ONLY_ROWS}")
    told = {"rows": rows, "target": str(target)}
    return last_seq, told, f"{plural(rows, 'row')} copied into {target}"


def _as_it_is(log: Path, target: Path) -> Done:
    copied = copy_log(log, target)
    with SqliteReader.open(target) as reader:
        head = reader.head()
    told = {
        "copied": [path.name for path in copied.new],
        "there": [path.name for path in copied.there],
        "snapshots": list(copied.snapshots),
        "retired": [path.name for path in copied.retired],
        "head": {"seq": head.seq, "chain": head.chain.hex()},
        "target": str(target),
    }
    text = (
        f"{plural(len(copied.new), 'segment')} copied to {target}, "
        f"{len(copied.there)} were there, {plural(len(copied.snapshots), 'snapshot')} with "
        f"them; head seq {head.seq}, chain {head.chain.hex()}\n"
        f"not copied: {log / KEY_FILE}, without which sessions are not found: keep it "
        f"apart; {log / INDEX} and {log / MARKS}, which are made anew"
    )
    if copied.retired:
        text += (
            f"\nretired meanwhile, and in the copy all the same: "
            f"{', '.join(path.name for path in copied.retired)}"
        )
    if not copied.tells_of_its_beginning:
        warn(
            f"{target} begins at seq {copied.begins_at}, and {log} has no whole snapshot "
            "of what went before: a router on it starts without the pins and cooldowns "
            "of that time, and replay --verify proves nothing before the next Gap"
        )
    return head.seq, told, text
