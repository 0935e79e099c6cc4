"""Groups of commands that are imported one by one, so that ``--help`` is quick."""

import importlib
from typing import ClassVar

import click

Entries = dict[str, tuple[str, str, str]]
"""By name: the module, the command in it, and its line of help."""


class LazyGroup(click.Group):
    """Knows every command's name and line of help without importing it."""

    entries: ClassVar[Entries] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module, attribute, _ = entry
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[2]) for name, entry in self.entries.items()])
