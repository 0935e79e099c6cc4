"""``trioroute``: the group of all commands, loaded one by one when they are asked for."""

from typing import Any

import click

import trioroute
from trioroute.cli.failures import heard, interrupted
from trioroute.cli.lazy import Entries, LazyGroup

COMMANDS: Entries = {
    "serve": ("trioroute.cli.serve", "serve_command", "Route traffic over LLM replicas."),
    "check": ("trioroute.cli.check", "check_command", "Validate a settings file."),
    "replica": ("trioroute.cli.replica", "replica_command", "See and change a running fleet."),
    "top": ("trioroute.cli.top", "top_command", "Watch a running router in a terminal."),
    "key": ("trioroute.cli.key", "key_command", "Make an API key for a client."),
    "replay": ("trioroute.cli.replay", "replay_command", "Explain and prove past decisions."),
    "log": ("trioroute.cli.log.root", "log_group", "Look after an event log."),
    "simulate": ("trioroute.cli.simulate", "simulate_command", "Compare policies on traffic."),
    "alerts": ("trioroute.cli.alerts", "alerts_command", "Alert rules for Prometheus."),
    "engine": ("trioroute.cli.engine", "engine_command", "One simulated vLLM replica."),
    "demo": ("trioroute.cli.demo", "demo_command", "Four replicas, the router, some traffic."),
}

EPILOG = """\b
Examples:
  trioroute demo                                    try it, without a GPU
  trioroute serve --replica http://gpu1:8000 --replica http://gpu2:8000
  trioroute replay trioroute-log --last 20
"""


class Commands(LazyGroup):
    """All commands."""

    entries = COMMANDS

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 - click's own
    ) -> click.Context:
        with heard():  # what --help and --version print
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with heard(), interrupted():
            return super().invoke(ctx)


@click.command(
    cls=Commands,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(trioroute.__version__, prog_name="trioroute")
def main() -> None:
    """An LLM-aware router for vLLM replicas that can explain every decision it ever took."""
