"""Groups of commands that are imported one by one, so that ``--help`` is quick."""

import difflib
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import click

from trioroute.cli.start import end_at_once, end_in_order

Entries = dict[str, tuple[str, str, str]]
"""By name: the module, the command in it, and its line of help."""


@contextmanager
def importing() -> Iterator[None]:
    """Around the slow imports of a command that has begun, but holds nothing yet."""
    end_at_once()
    try:
        yield
    finally:
        end_in_order()


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
        if not isinstance(command, LazyGroup):  # whose own command is to be imported yet
            end_in_order()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, but a mistyped name is answered with the nearest."""
        if args and not args[0].startswith("-") and args[0] not in self.entries:
            near = difflib.get_close_matches(args[0], self.entries, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.entries)}"
            ctx.fail(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[2]) for name, entry in self.entries.items()])
