"""``trioroute log snapshot``: what a running router starts from time to time, or by hand."""

import json
from pathlib import Path

import click

from trioroute.cli.log.words import Bar, failures, json_option, log_argument, warn
from trioroute.snapshot import make_snapshots

EPILOG = """\b
Example:
  trioroute log snapshot trioroute-log
"""


@click.command("snapshot", epilog=EPILOG)
@log_argument
@json_option
def snapshot_command(log: Path, as_data: bool) -> None:
    """Fold LOG and keep the state in LOG/snapshots, so that a restart folds only what follows.

    A running router does this by itself, in a process of its own. Snapshots may be deleted at any
    time, but without one at its beginning a segment cannot become the oldest one.
    """
    with failures(), Bar("folding") as bar:
        made = make_snapshots(log, warn=warn, progress=bar)
    if as_data:
        click.echo(json.dumps({"snapshots": list(made.seqs), "folded": made.folded}))
    else:
        places = ", ".join(str(seq) for seq in made.seqs) or "none: nothing is new"
        click.echo(f"folded {made.folded} rows; snapshots after rows: {places}")
