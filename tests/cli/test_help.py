"""``--help`` of every command: examples that can be pasted."""

import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from trioroute.cli.root import main


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


def help_of(path: tuple[str, ...]) -> str:
    done = CliRunner().invoke(main, [*path, "--help"], prog_name="trioroute")
    assert done.exit_code == 0, done.output
    return done.output


def examples_in(text: str) -> list[list[str]]:
    """The examples, each as its words without what a shell does with its output."""
    _, _, told = text.partition("\n  Example")
    lines = [line.strip() for line in told.splitlines() if line.strip().startswith("trioroute ")]
    words = [shlex.split(line.partition("   ")[0], comments=True) for line in lines]
    return [list(until_shell(one)) for one in words]


def until_shell(words: list[str]) -> Iterator[str]:
    """The words of a command without what a shell does with its output."""
    for word in words:
        if word in (">", ">>", "|", "&&"):
            return
        yield word


ALL = [*commands(main)]


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_help_has_an_example_of_its_own_command(path: tuple[str, ...]) -> None:
    examples = examples_in(help_of(path))
    assert examples
    assert all(example[1 : 1 + len(path)] == [*path] for example in examples)


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_example_names_commands_and_options_that_are_there(path: tuple[str, ...]) -> None:
    for example in examples_in(help_of(path)):
        command: click.Command = main
        rest = example[1:]
        while isinstance(command, click.Group):
            name, *rest = rest
            found = command.get_command(click.Context(command), name)
            assert found is not None, example
            command = found
        command.make_parser(click.Context(command)).parse_args([*rest])
