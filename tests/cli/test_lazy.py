"""Groups of commands: a mistyped name is answered with the nearest."""

import pytest
from click.testing import CliRunner

from trioroute.cli.root import main


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["replya"], "there is no command 'replya'; did you mean replay?"),
        (["log", "verfy"], "there is no command 'verfy'; did you mean verify?"),
        (["zzzzzz"], "there are serve, check, replica"),
    ],
)
def test_a_mistyped_command_is_wrong_usage_that_names_the_nearest(
    typed: list[str], told: str
) -> None:
    done = CliRunner().invoke(main, typed)
    assert done.exit_code == 2
    assert told in done.output
