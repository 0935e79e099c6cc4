"""``trioroute demo``: everything at once, without a GPU."""

from functools import partial
from pathlib import Path

import click
import trio

from eventlog import LogError
from trioroute.cli.failures import end_in_words
from trioroute.demo.run import DemoOptions, run_demo

EPILOG = """\b
Examples:
  trioroute demo
  trioroute demo --replicas 2 --no-traffic
"""


@click.command("demo", epilog=EPILOG)
@click.option(
    "--log",
    type=click.Path(path_type=Path),
    default=Path("trioroute-demo-log"),
    show_default=True,
    help="Event log; a second start continues it.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1, 30),
    default=4,
    show_default=True,
    help="Simulated vLLM replicas.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="API port, if it is free.",
)
@click.option(
    "--admin-port",
    type=click.IntRange(0, 65535),
    default=9090,
    show_default=True,
    help="Admin port, if it is free.",
)
@click.option("--traffic/--no-traffic", default=True, help="A trickle of agent-like requests.")
def demo_command(log: Path, replicas: int, port: int, admin_port: int, traffic: bool) -> None:
    """Start simulated vLLM replicas, the router and a little traffic; Ctrl-C stops all.

    A second one beside it takes other ports and another log by itself, and says which.
    """
    options = DemoOptions(log, replicas, port, admin_port, traffic)
    end_in_words(partial(_run, options), (RuntimeError, OSError, LogError))


def _run(options: DemoOptions) -> None:
    try:
        trio.run(run_demo, options)
    except* BrokenPipeError:
        raise BrokenPipeError from None  # alone, as of every command
