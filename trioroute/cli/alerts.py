"""``trioroute alerts``: the alert rules as a file for Prometheus, and the board for Grafana."""

import os
from importlib.resources import files
from pathlib import Path

import click

from trioroute.cli.check import WRONG_CONFIG
from trioroute.cli.failures import fail_for_all
from trioroute.events.sections import Eject
from trioroute.observe.alerts import rules_file
from trioroute.settings import SettingsError, load


@click.command("alerts")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="The router's settings file, if its cooldowns are not the defaults.",
)
@click.option("--grafana", is_flag=True, help="Print the Grafana board instead, to be imported.")
def alerts_command(config: Path | None, grafana: bool) -> None:
    """Print Prometheus alert rules for this router.

    Each rule says in its description what to look at. They suit a scrape interval of 5 to 30 s.

    \b
    Examples:
      trioroute alerts > /etc/prometheus/trioroute.rules.yml
      trioroute alerts --grafana > trioroute-board.json
    """
    if grafana:
        click.echo(files("trioroute.observe").joinpath("grafana.json").read_text("utf-8"), nl=False)
        return
    eject = Eject()
    if config is not None:
        try:
            eject = load(config, environ=os.environ).in_force.eject
        except SettingsError as error:
            fail_for_all(error.problems, WRONG_CONFIG)
    click.echo(rules_file(eject), nl=False)
