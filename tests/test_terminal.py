"""Names and errors of replicas and clients on a terminal: shown, and never obeyed."""

from io import StringIO

import pytest
from rich.table import Table
from rich.text import Text

from trioroute.cli.failures import fail, warn
from trioroute.printable import UNSHOWN, printable
from trioroute.replay.present import console_for
from trioroute.terminal import Terminal

HOSTILE = "a\x1b[2Jb\x07c\u2028d\x85e\u202ef\x9bg\x7fh\rI\ud800"
HARMLESS = UNSHOWN.join(["a", "[2Jb", "c", "d", "e", "f", "g", "h", "I", ""])


def test_what_is_no_sign_is_replaced_and_lines_stay() -> None:
    assert printable(HOSTILE) == HARMLESS
    assert printable("two\nlines, größer — ✓") == "two\nlines, größer — ✓"


@pytest.mark.parametrize("colours", [False, True])
def test_a_console_shows_names_and_keeps_its_own_colours(colours: bool) -> None:
    sink = StringIO()
    console = Terminal(
        file=sink, width=80, force_terminal=colours, color_system="standard" if colours else None
    )
    made = Table("replica", box=None)
    name = HOSTILE.replace("\r", "")  # rich itself takes CR and BEL out of a text
    made.add_row(Text(name, style="red"))
    console.print(made)
    console.print(Text(name, style="green"))
    console.print(Text("x\ny"))
    shown = sink.getvalue()
    assert ("\x1b[31m" in shown) == colours
    own = shown.replace("\x1b[31m", "").replace("\x1b[32m", "").replace("\x1b[1m", "")
    own = own.replace("\x1b[0m", "")
    assert own.replace("\n", "").isprintable()
    assert own.count(f"a{UNSHOWN}[2Jb") == 2
    assert own.endswith("x\ny\n")


def test_what_replay_prints_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    console = console_for()
    console.print(Text(f"gpu1 serves m\x1b[31m{HOSTILE[:-1]}"))
    shown = capsys.readouterr().out
    assert shown.strip("\n").isprintable()
    assert "gpu1 serves m" in shown


def test_errors_and_warnings_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    warn(f"the replica says {HOSTILE}")
    with pytest.raises(SystemExit):
        fail(f"it says {HOSTILE}")
    told = capsys.readouterr().err
    assert told == f"Warning: the replica says {HARMLESS}\nError: it says {HARMLESS}\n"
