"""``trioroute log snapshot``: what a running router starts from time to time, or by hand."""

import json
from pathlib import Path

import click

from trioroute.cli.failures import warn
from trioroute.cli.log.words import Bar, failures, json_option, log_argument
from trioroute.counted import plural
from trioroute.row_index import make_index
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

    Index it in LOG/index, so that a request or a session is found without reading all of it.

    A running router does this by itself, in a process of its own. Both may be deleted at any time,
    but without one at its beginning a segment cannot become the oldest one.
    """
    with failures(), Bar("folding") as bar:
        made = make_snapshots(log, warn=warn, progress=bar)
    with failures(), Bar("indexing") as bar:
        indexed = make_index(log, progress=bar)
    if as_data:
        click.echo(
            json.dumps({"snapshots": list(made.seqs), "folded": made.folded, "indexed": indexed})
        )
    else:
        places = ", ".join(str(seq) for seq in made.seqs[-3:]) or "none: nothing is new"
        if len(made.seqs) > 3:
            places = f"{plural(len(made.seqs) - 3, 'place')}, {places}"
        click.echo(
            f"folded {plural(made.folded, 'row')}; snapshots after rows: {places}; "
            f"indexed {plural(indexed, 'row')}"
        )
