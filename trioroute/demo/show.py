"""What the demo prints: where things are, and the replicas as the router sees them."""

import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

COLUMNS = ("replica", "state", "running", "waiting", "in flight", "weight", "KV", "cooldown")


def replay_command() -> str:
    """``replay`` as it can be pasted where the demo was started."""
    script = Path(sys.argv[0]).resolve()
    tool = script.parents[2] / "tools" / "replay" if len(script.parents) > 2 else script
    return _as_pasted(tool) if tool.is_file() else "trioroute replay"


def _top_command() -> str:
    """``top`` as it can be pasted: the environment of a checkout need not be active."""
    script = Path(sys.argv[0]).resolve()
    beside = script.name == "trioroute" and shutil.which("trioroute") is None
    return f"{_as_pasted(script)} top" if beside else "trioroute top"


def _as_pasted(file: Path) -> str:
    here = Path.cwd()
    return shlex.quote(str(file.relative_to(here) if file.is_relative_to(here) else file))


def welcome(api: str, admin: str, model: str, log: str) -> str:
    replay, log = replay_command(), shlex.quote(log)
    return f"""
  API        {api}/v1
  dashboard  {admin}/     (open it in a browser)
  terminal   {_top_command()} --admin {admin}

  Ask it something (paste into another terminal):

    curl -s -w '\\n' {api}/v1/chat/completions -H 'content-type: application/json' -D - \\
      -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "hello"}}]}}'

  Ask why it went where it went:

    {replay} {log} --last 5
    {replay} {log} --request ID        # ID: the header x-request-id of your answer

  Ctrl-C stops everything; the next start continues the same log.
"""


def farewell(log: str) -> str:
    log = shlex.quote(log)
    return f"""stopped; the log stays: {replay_command()} {log} --last 5
rm -r {log} forgets it"""


def replica_table(state: Mapping[str, Any]) -> Table:
    pins = state["pins"]
    table = Table(
        title=f"router {state['router']}: event {state['position']}, "
        f"{pins['session']} session pins, {pins['prefix']} prefix pins",
        title_justify="left",
    )
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("replica", "state") else "right")
    for replica in state["replicas"]:
        table.add_row(*_cells(replica))
    return table


def replica_line(state: Mapping[str, Any]) -> str:
    """The same for a pipe: one line."""
    parts = [
        f"{replica['name']} {replica['state']} {replica['in_flight']} in flight"
        for replica in state["replicas"]
    ]
    return f"event {state['position']}: " + ", ".join(parts)


def _cells(replica: Mapping[str, Any]) -> tuple[str, ...]:
    kv = replica["kv_usage"]
    return (
        replica["name"],
        replica["state"],
        _number(replica["running"]),
        _number(replica["waiting"]),
        _number(replica["in_flight"]),
        f"{replica['wlc_in_flight']:.1f}",
        "unknown" if kv is None else f"{kv:.0%}",
        f"{replica['cooldown_s']:.0f} s" if replica["cooldown_s"] else "",
    )


def _number(value: object) -> str:
    return "unknown" if value is None else str(value)
