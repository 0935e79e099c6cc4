"""``trioroute replica``: see and change the fleet of a running router."""

import json
import sys
from typing import Any

import click
import httpx
from rich.table import Table
from rich.text import Text

from trioroute.cli.admin_port import (
    UNAUTHORIZED,
    about_token,
    admin_options,
    asking,
    no_answer,
    refusal,
)
from trioroute.cli.failures import fail, warn
from trioroute.cli.named import Named
from trioroute.printable import printable
from trioroute.settings import BadValue, parse_replica_option
from trioroute.terminal import Terminal

VERBS = ("list", "add", "remove", "drain", "undrain", "eject")
EPILOG = """\b
Examples:
  trioroute replica list
  trioroute replica add gpu3=http://10.0.0.3:8000 --why "more load"
  trioroute replica drain gpu1 --why "new driver"   # and undrain
  trioroute replica eject gpu2
  trioroute replica remove gpu3 --admin http://10.0.0.9:9090
"""


@click.command("replica", epilog=EPILOG)
@click.argument("verb", type=Named(VERBS))
@click.argument("name", required=False, metavar="[NAME | [NAME=]URL]")
@admin_options
@click.option("--why", default="", help="A reason, for the event log.")
@click.option("--now", is_flag=True, help="remove: do not wait until nothing runs there.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def replica_command(
    verb: str,
    name: str | None,
    admin: str,
    token_env: str,
    ca_file: str | None,
    why: str,
    now: bool,
    as_json: bool,
) -> None:
    """List, add, remove, drain, undrain or eject replicas of a running router.

    Every change is an event in its log, with the reason given. A removed replica is drained first
    and leaves when nothing runs there any more. An ejected one comes back by itself after its
    cooldown; a drained one when it is undrained.
    """
    if (name is None) != (verb == "list"):
        raise click.UsageError("list takes no name" if verb == "list" else f"{verb} whom? NAME")
    with httpx.Client(**asking(admin, token_env, ca_file)) as client:
        try:
            answer = _ask(client, verb, name or "", why, now=now)
            told: Any = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL, json.JSONDecodeError) as error:
            fail(no_answer(admin, error))
    if answer.is_error:
        hint = about_token(token_env) if answer.status_code == UNAUTHORIZED else ""
        fail(refusal(told, answer.status_code) + hint)
    if as_json:
        click.echo(json.dumps(told["replicas"] if verb == "list" else told))
    elif verb == "list":
        _show(told["replicas"])
    else:
        told_of = f"{told['replica']}: {told['state']}, {told['in_flight']} in flight"
        click.echo(printable(told_of))
        if "note" in told:
            warn(told["note"])


def _ask(client: httpx.Client, verb: str, name: str, why: str, *, now: bool) -> httpx.Response:
    asked = {"why": why} if why else {}
    if verb == "list":
        return client.get("/state")
    if verb == "add":
        try:
            replica = parse_replica_option(name)
        except BadValue as bad:
            raise click.UsageError(f"{bad}, with or without NAME= before it") from None
        body = {"name": replica.name, "url": replica.url}
        return client.post("/replicas", params=asked, json=body)
    if verb == "remove":
        return client.delete(f"/replicas/{name}", params={**asked, **({"now": ""} if now else {})})
    return client.post(f"/replicas/{name}/{verb}", params=asked)


def _show(replicas: list[dict[str, Any]]) -> None:
    columns = ("name", "state", "url", "source", "in_flight", "running", "waiting", "eject_count")
    table = Table(box=None)
    for column in (*columns, "cooldown"):
        table.add_column(column.replace("_", " "), no_wrap=True)
    for replica in replicas:
        told = ["-" if replica[key] is None else str(replica[key]) for key in columns]
        if replica["stalled"]:
            told[columns.index("state")] += ", stalled"
        left_s = replica["cooldown_s"]
        table.add_row(*map(Text, told), f"{left_s:.0f} s" if left_s else "-")
    Terminal(width=None if sys.stdout.isatty() else 200).print(table)
