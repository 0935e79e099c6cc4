"""Every command that a page prints can be pasted: its name and its options are there."""

import shlex
from collections.abc import Iterator

import click
import pytest

from tests.cli.test_help import until_shell
from tests.house import pages
from trioroute.cli.root import main

TOOLS = {f"{here}tools/{name}": name for here in ("", "./") for name in ("replay", "demo")}
SHORTENED = ("...", "…", "[")


def commands_on(page: str) -> Iterator[str]:
    """Lines of code that run one of our commands."""
    fenced = False
    for line in page.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            command = line.strip().removeprefix("$ ")
            name = command.partition(" ")[0]
            if (name == "trioroute" or name in TOOLS) and not any(s in command for s in SHORTENED):
                yield command


def parse(command: str) -> None:
    first, *words = until_shell(shlex.split(command, comments=True))
    words = [TOOLS[first], *words] if first in TOOLS else words
    found: click.Command = main
    while isinstance(found, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        inner = found.get_command(click.Context(found), name)
        assert inner is not None, f"no command {name}"
        found = inner
    found.make_parser(click.Context(found)).parse_args([*words])


@pytest.mark.parametrize("where", sorted({*pages.ALL, *pages.shipped(), "deploy/README.md"}))
def test_the_commands_of_a_page_can_be_pasted(where: str) -> None:
    for command in commands_on(pages.page(where)):
        try:
            parse(command)
        except (click.UsageError, AssertionError, ValueError) as trouble:
            raise AssertionError(f"{where}: {command}: {trouble}") from trouble


def test_a_command_that_is_not_there_is_found() -> None:
    page = "    $ trioroute serve --new\n    other --x\n"
    assert [*commands_on(page)] == ["trioroute serve --new"]
    with pytest.raises(click.NoSuchOption):
        parse("trioroute serve --new")
    with pytest.raises(AssertionError, match="no command serves"):
        parse("trioroute serves")
