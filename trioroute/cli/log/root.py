"""``trioroute log``: the group, whose commands are loaded one by one when they are asked for."""

import click

from trioroute.cli.lazy import Entries, LazyGroup

COMMANDS: Entries = {
    "snapshot": ("trioroute.cli.log.snapshot", "snapshot_command", "Keep what was folded so far."),
}


class LogGroup(LazyGroup):
    """The commands of ``trioroute log``."""

    entries = COMMANDS


@click.command(cls=LogGroup)
def log_group() -> None:
    """Look after an event log, also while a router writes it."""
