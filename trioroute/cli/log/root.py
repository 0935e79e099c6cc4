"""``trioroute log``: the group, whose commands are loaded one by one when they are asked for."""

import click

from trioroute.cli.lazy import Entries, LazyGroup

COMMANDS: Entries = {
    "info": ("trioroute.cli.log.info", "info_command", "Segments, snapshots, head, gaps."),
    "verify": ("trioroute.cli.log.verify", "verify_command", "Is every row what was written?"),
    "export": ("trioroute.cli.log.export", "export_command", "Events as JSON lines."),
    "prune": ("trioroute.cli.log.prune", "prune_command", "Unlink old segments."),
    "archive": ("trioroute.cli.log.archive", "archive_command", "Copy it, also while written."),
    "snapshot": ("trioroute.cli.log.snapshot", "snapshot_command", "Keep what was folded so far."),
}

EPILOG = """\b
Examples:
  trioroute log info trioroute-log
  trioroute log verify trioroute-log
  trioroute log export trioroute-log --since -1h > events.jsonl
"""


class LogGroup(LazyGroup):
    """The commands of ``trioroute log``."""

    entries = COMMANDS


@click.command(cls=LogGroup, epilog=EPILOG)
def log_group() -> None:
    """Look after an event log, also while a router writes it."""
