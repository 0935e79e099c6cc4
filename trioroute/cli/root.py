"""``trioroute``: the group of all commands, loaded one by one when they are asked for."""

import importlib

import click

import trioroute

COMMANDS = {
    "serve": ("trioroute.cli.serve", "serve_command", "Route traffic over LLM replicas."),
    "check": ("trioroute.cli.check", "check_command", "Validate a settings file."),
    "replay": ("trioroute.cli.replay", "replay_command", "Explain and prove past decisions."),
    "simulate": ("trioroute.cli.simulate", "simulate_command", "Compare policies on traffic."),
    "alerts": ("trioroute.cli.alerts", "alerts_command", "Alert rules for Prometheus."),
    "engine": ("trioroute.cli.engine", "engine_command", "One simulated vLLM replica."),
    "demo": ("trioroute.cli.demo", "demo_command", "Four replicas, the router, some traffic."),
}


class LazyGroup(click.Group):
    """Knows every command's name and line of help without importing it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, attribute, _ = entry
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[2]) for name, entry in COMMANDS.items()])


@click.command(
    cls=LazyGroup,
    epilog="Try it without a GPU: trioroute demo",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(trioroute.__version__, prog_name="trioroute")
def main() -> None:
    """An LLM-aware router for vLLM replicas that can explain every decision it ever took."""
