"""``trioroute check``: is this configuration fit to start with?"""

import json
import os
from pathlib import Path

import attrs
import click

from trioroute.counted import plural
from trioroute.settings import Settings, SettingsError, load

WRONG_CONFIG = 2
NO_REPLICA = "note: no replica in it; serve will not start without --replica or TRIOROUTE_REPLICAS"


@click.command("check")
@click.argument("file", metavar="F", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def check_command(context: click.Context, file: Path, as_json: bool) -> None:
    """Check the configuration file F.

    Reads F and the TRIOROUTE_ variables as `serve` would, and prints every problem with file, key,
    value and remedy. Exit code 2 if there is one, else 0.

    \b
    Example:
      trioroute check trioroute.toml
    """
    try:
        settings = load(file, environ=os.environ)
    except SettingsError as error:
        if as_json:
            problems = [attrs.asdict(problem) for problem in error.problems]
            click.echo(json.dumps({"file": str(file), "ok": False, "problems": problems}))
        else:
            click.echo(str(error), err=True)
        context.exit(WRONG_CONFIG)
    if as_json:
        click.echo(json.dumps({"file": str(file), "ok": True, "problems": []}))
    else:
        click.echo(_summary(file, settings))
        if settings.no_replica:
            click.echo(NO_REPLICA, err=True)


def _summary(file: Path, settings: Settings) -> str:
    count = len(settings.replicas)
    return f"{file}: ok, {plural(count, 'replica')}, policy {settings.in_force.policy.name}"
