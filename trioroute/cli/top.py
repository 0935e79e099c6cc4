"""``trioroute top``: a running router in a terminal, as the dashboard shows it in a browser."""

import json
import sys
from typing import Any

import click
import httpx
import trio
from rich.console import Console
from rich.live import Live

from trioroute.cli.admin_port import UNAUTHORIZED, about_token, admin_options, asking, no_answer
from trioroute.cli.failures import fail
from trioroute.cli.top_view import frame
from trioroute.cli.top_watch import Refused, Watched, follow, follow_for_ever, look
from trioroute.terminal import Terminal

WIDTH_OF_A_PIPE = 140
EPILOG = """\b
Examples:
  trioroute top
  trioroute top --once --admin http://10.0.0.9:9090
  trioroute top --json | jq .state.imbalance_index
"""


@click.command("top", epilog=EPILOG)
@admin_options
@click.option("--once", is_flag=True, help="Print one frame and end; so does a pipe.")
@click.option("--json", "as_json", is_flag=True, help="Frames as JSON, one a line.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(0.2, 3600),
    default=1.0,
    show_default=True,
    help="Seconds between two frames.",
)
def top_command(
    admin: str, token_env: str, ca_file: str | None, once: bool, as_json: bool, every_s: float
) -> None:
    """Show a running router: replicas, traffic share, decisions, incidents.

    Per replica its state, load, queue, KV use, score, share of the last five minutes (and over
    time) and cooldown. It follows the event log, and goes on when the router comes back. Ctrl-C
    ends it.
    """
    once = once or (not as_json and not sys.stdout.isatty())
    console = Terminal(width=None if sys.stdout.isatty() else WIDTH_OF_A_PIPE)
    try:
        trio.run(_top, console, asking(admin, token_env, ca_file), once, as_json, every_s)
    except* (httpx.HTTPError, httpx.InvalidURL, json.JSONDecodeError) as group:
        fail(no_answer(admin, _first(group)))
    except* Refused as group:
        refused = _first(group)
        asks_token = isinstance(refused, Refused) and refused.status == UNAUTHORIZED
        fail(f"{refused}{about_token(token_env) if asks_token else ''}")
    except* KeyboardInterrupt:
        sys.exit(0)
    except* BrokenPipeError:
        raise BrokenPipeError from None  # alone, as of every command


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Exception)
    return error


async def _top(
    console: Console, how: dict[str, Any], once: bool, as_json: bool, every_s: float
) -> None:
    watched = Watched()
    async with httpx.AsyncClient(**how) as client:
        await look(client, watched)
        await follow(client, watched, until=watched.state["durable_position"])
        if once:
            _print(console, watched, as_json=as_json)
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow_for_ever, client, watched)
            with Live(console=console, auto_refresh=False, screen=False) as live:
                while True:
                    if as_json:
                        _print(console, watched, as_json=True)
                    else:
                        live.update(frame(watched), refresh=True)
                    await trio.sleep(every_s)
                    await _look_again(client, watched)


async def _look_again(client: httpx.AsyncClient, watched: Watched) -> None:
    try:
        await look(client, watched)
    except (httpx.HTTPError, json.JSONDecodeError, Refused) as error:
        watched.trouble = f"no answer from the router: {error}; what you see is old"


def _print(console: Console, watched: Watched, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(watched.as_json()))
    else:
        console.print(frame(watched))
