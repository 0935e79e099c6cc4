"""``trioroute log archive``: a consistent copy, also of a log that is being written."""

import json
from pathlib import Path

import click

from eventlog.reading import SqliteReader
from eventlog.sqlite_copy import copy_into_one_file, copy_log
from trioroute.cli.log.words import failures, json_option, log_argument
from trioroute.events.views import VIEWS
from trioroute.replay.words import plural

EPILOG = """\b
Examples:
  trioroute log archive trioroute-log /backup/trioroute-log
  trioroute log archive trioroute-log week.sqlite --one-file
"""


@click.command("archive", epilog=EPILOG)
@log_argument
@click.argument("target", metavar="TARGET", type=click.Path(path_type=Path))
@click.option("--one-file", is_flag=True, help="All segments in one new SQLite file.")
@json_option
def archive_command(log: Path, target: Path, one_file: bool, as_data: bool) -> None:
    """Copy LOG to TARGET, a directory that is a log then; run it again to bring it up to date.

    The open segment is copied as it is at one moment. With --one-file TARGET is one SQLite file,
    whose views cover all rows. The file `key` is not copied: keep it apart.
    """
    with failures():
        if one_file:
            rows = copy_into_one_file(log, target, VIEWS)
            told = {"rows": rows, "target": str(target)}
            text = f"{plural(rows, 'row')} copied into {target}"
        else:
            copied = copy_log(log, target)
            with SqliteReader.open(target) as reader:
                head = reader.head()
            told = {
                "copied": [path.name for path in copied.new],
                "there": [path.name for path in copied.there],
                "head": {"seq": head.seq, "chain": head.chain.hex()},
                "target": str(target),
            }
            text = (
                f"{plural(len(copied.new), 'segment')} copied to {target}, "
                f"{len(copied.there)} were there; "
                f"head seq {head.seq}, chain {head.chain.hex()}"
            )
    click.echo(json.dumps(told) if as_data else text)
