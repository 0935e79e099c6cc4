"""The worked postmortem of the README: its commands are run, and each line it shows is compared."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.house import pages
from trioroute.cli.root import main

SECTION = "A postmortem, worked"
LEFT_OUT = "..."


def shown() -> Iterator[tuple[str, list[str]]]:
    """The commands of the section, each with the lines it shows."""
    command, lines = "", list[str]()
    for line in pages.section(pages.page(pages.README), SECTION).splitlines():
        if line.startswith("    $ "):
            if command:
                yield command, lines
            command, lines = line.removeprefix("    $ "), []
        elif command and (line.startswith("    ") or not line):
            lines.append(line.removeprefix("    "))
        elif command:
            yield command, lines
            command = ""
    assert not command, "the section ends in words, so that a block cannot be cut off unseen"


def parts_of(lines: list[str]) -> Iterator[list[str]]:
    """Lines that must follow each other, cut where some were left out."""
    part: list[str] = []
    for line in [*lines, LEFT_OUT]:
        if line == LEFT_OUT:
            yield part
            part = []
        else:
            part.append(line)


def missing(lines: list[str], printed: str) -> str | None:
    """The first run of shown lines that was not printed in that order; None: all were."""
    rest, whole = printed.rstrip("\n") + "\n", LEFT_OUT not in lines
    for place, part in enumerate(parts_of(lines)):
        text = "".join(f"{line}\n" for line in part).strip("\n")
        if not text:
            continue
        found = re.search(rf"^{re.escape(text)}$", rest, re.MULTILINE)
        if found is None or (place == 0 and found.start() != 0):
            return text
        rest = rest[found.end() :]
    return rest.strip() or None if whole else None


def test_the_commands_of_the_readme_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = []
    for command, lines in shown():
        program, *arguments = shlex.split(command)
        assert program == "trioroute"
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, (command, result.output)
        assert missing(lines, result.stdout) is None, (command, result.stdout)
        ran.append(arguments)
    asked = {argument for arguments in ran for argument in arguments}
    assert {"--fault", "--incident", "--request", "--replica"} <= asked


@pytest.mark.parametrize(
    ("lines", "ok"),
    [
        (["a", "b", "c"], True),
        (["a", "..."], True),
        (["a", "...", "c"], True),
        (["a", "b"], False),
        (["a", "...", "d"], False),
        (["b", "..."], False),
        (["a", "...", "c", "b", "..."], False),
        (["a", "c", "..."], False),
    ],
)
def test_a_line_that_was_not_printed_is_found(lines: list[str], ok: bool) -> None:
    assert (missing(lines, "a\nb\nc\n") is None) is ok
