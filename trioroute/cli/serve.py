"""``trioroute serve``: the router."""

import logging
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

import trioroute
from eventlog import LogDamaged, LogError, NewerLog
from trioroute.cli.failures import end_in_words, fail, fail_for_all
from trioroute.cli.lazy import importing
from trioroute.counted import plural
from trioroute.events import UnreadableEvent
from trioroute.process_log import take_over_stderr
from trioroute.settings import Settings, SettingsError, load

if TYPE_CHECKING:
    from trioroute import assembly

FAILURES = (LogError, UnreadableEvent, ValueError, OSError)
"""What an operator can cause and mend; anything else is a fault of ours and shows its trace."""

IN_VAIN = (LogDamaged, NewerLog, ValueError)
"""What another start meets again until somebody has changed something: a log that is damaged or of
a newer release (UnreadableEvent is a ValueError), a key that is none."""

NEEDS_HANDS = 2
"""The exit code of wrong settings and of IN_VAIN: a supervisor is not to start it again
(RestartPreventExitStatus in deploy/systemd). 1 is all that may pass by itself: a port in use,
a log that another router still owns, a full disk."""

EPILOG = """\b
Examples:
  trioroute serve --replica http://gpu1:8000 --replica http://gpu2:8000
  trioroute serve --replica big=http://10.0.0.1:8000 --listen 0.0.0.0:8080
  trioroute serve --config trioroute.toml
"""


@click.command("serve", epilog=EPILOG)
@click.option("--config", type=click.Path(path_type=Path), help="Settings file (TOML).")
@click.option(
    "--replica",
    "replicas",
    multiple=True,
    metavar="[NAME=]URL",
    help="A replica; repeat for more. The name is host:port if not given.",
)
@click.option("--listen", metavar="HOST:PORT", help="API port (127.0.0.1:8080).")
@click.option("--admin", metavar="HOST:PORT", help="Admin port (127.0.0.1:9090).")
@click.option("--log", "log_path", metavar="DIR", help="Event log (./trioroute-log).")
def serve_command(
    config: Path | None,
    replicas: tuple[str, ...],
    listen: str | None,
    admin: str | None,
    log_path: str | None,
) -> None:
    """Route OpenAI-compatible traffic over LLM replicas, and log why.

    Everything that is decided goes to the event log; ask it with `trioroute replay`.
    """
    with importing():  # here, so that wrong usage is told without the whole server
        from trioroute import serve

    overrides: dict[str, object] = {
        "server.listen": listen,
        "server.admin": admin,
        "log.path": log_path,
        "replicas": replicas or None,
    }
    reread = partial(load, config, environ=os.environ, overrides=overrides)
    try:
        settings = reread()
    except SettingsError as error:
        fail_for_all(error.problems, NEEDS_HANDS)
    if settings.no_replica:
        raise click.UsageError(_no_replica(config))
    take_over_stderr()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # Hypercorn announces each port through it; the line below says all there is to say.
    logging.getLogger("trioroute.proxy").setLevel(logging.WARNING)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the router heeds it
    serve.raise_file_limit()
    end_in_words(partial(_open_and_run, settings, reread), FAILURES)


def _no_replica(config: Path | None) -> str:
    said = (
        "no replica: name at least one with --replica http://HOST:PORT or a [[replica]] "
        "section in --config FILE, or have them found by a [discovery.*] section in it"
    )
    if config is None and Path("trioroute.toml").is_file():
        said += "; trioroute.toml lies here, but is read only with --config trioroute.toml"
    return said


def _open_and_run(settings: Settings, reread: Callable[[], Settings]) -> None:
    from trioroute import assembly
    from trioroute.free_ports import check_ports

    server = settings.in_force.server
    check_ports({"--listen": server.listen, "--admin": server.admin})
    with ExitStack() as opened:
        try:
            store = opened.enter_context(closing(assembly.open_log(settings.in_force)))
            parts = assembly.assemble(settings, store, os.environ)
        except IN_VAIN as error:
            fail(str(error), NEEDS_HANDS)
        _run(parts, reread)


def _run(parts: "assembly.Parts", reread: Callable[[], Settings]) -> None:
    from trioroute import serve

    position = parts.router.state.position
    path = parts.settings.in_force.log.path
    begun = f"continued after event {position}" if position else "new"

    def announce(api: str, admin: str) -> None:
        count = len(parts.router.state.fleet.replicas)  # with those that were found
        pid = os.getpid()
        click.echo(
            f"trioroute {trioroute.__version__}: API {api}/v1, admin {admin}, log {path} "
            f"({begun}), {plural(count, 'replica')}, pid {pid}; dashboard {admin}/, "
            f"reload: kill -HUP {pid}, stop: kill {pid}",
            err=True,
        )

    for number in (signal.SIGTERM, signal.SIGINT):
        # What holds when the router does not heed signals any more: the last steps of its end.
        signal.signal(number, signal.SIG_IGN)
    trio.run(serve.run, parts, os.environ, announce, reread)
