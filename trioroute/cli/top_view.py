"""One frame of ``trioroute top``."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from trioroute.cli.top_watch import PAST_EVENTS, Decision, Incident, Watched
from trioroute.counted import plural
from trioroute.printable import printable

STYLES = {"LIVE": "green", "EJECTED": "red", "PROBING": "yellow", "DRAINING": "yellow"}
BARS = "▁▂▃▄▅▆▇█"
LEFT = frozenset({"replica", "state", "decision", "reason", "model", "end", "share over 5 min"})


def frame(watched: Watched) -> Group:
    """Everything as one picture."""
    state = watched.state
    return Group(
        _head(watched),
        _replicas(watched, state["replicas"]),
        Text(),
        _decisions(reversed(watched.decisions)),
        Text(),
        _incidents(reversed(watched.incidents)),
    )


def _head(watched: Watched) -> Text:
    state = watched.state
    pins = state["pins"]
    head = _plain(
        f"trioroute {state['router']}: event {state['position']}"
        f" ({state['position'] - state['durable_position']} not yet durable),"
        f" imbalance {state['imbalance_index']:.2f},"
        f" pins {pins['session']} session {pins['prefix']} prefix"
    )
    head.stylize("bold")
    if not state.get("ready", True):
        head.append_text(_plain(f"\nnot ready for traffic: {state['reason']}", "red"))
    for pool in state.get("pools", []):
        if pool["replicas"] and not pool["routable"]:
            head.append_text(_plain(f"\nnobody serves {pool['model']}", "red"))
    if watched.trouble:
        head.append_text(_plain(f"\n{watched.trouble}", "red"))
    return head


def _plain(text: str, style: str = "") -> Text:
    """No markup and no control codes: names come from elsewhere."""
    return Text(printable(text), style=style)


def _table(*columns: str) -> Table:
    made = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        made.add_column(column, justify="left" if column in LEFT else "right", no_wrap=True)
    return made


def _replicas(watched: Watched, replicas: Iterable[dict[str, Any]]) -> Table:
    made = _table(
        *("replica", "state", "load", "queue", "in flight", "weight", "KV", "score", "share"),
        *("share over 5 min", "cooldown", "last scrape"),
    )
    for replica in replicas:
        standing = "stalled" if replica["stalled"] else replica["state"]
        cooldown, age = replica["cooldown_s"], replica["last_good_scrape_age_s"]
        made.add_row(
            _plain(replica["name"]),
            _plain(standing, STYLES.get(standing, "dim")),
            f"{replica['effective_running']:.1f}",
            f"{replica['effective_waiting']:.1f}",
            str(replica["in_flight"]),
            f"{replica['wlc_in_flight']:.1f}",
            _share(replica["kv_usage"]),
            f"{replica['score']:.2f}",
            _share(replica["traffic_share"]),
            "".join(_bar(share) for share in watched.shares(replica["name"])),
            f"{cooldown:.0f} s" if cooldown else "-",
            "never" if age is None else f"{age:.1f} s",
        )
    return made


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _bar(share: float | None) -> str:
    return "·" if share is None else BARS[round(share * (len(BARS) - 1))]


def _decisions(decisions: Iterable[Decision]) -> Table:
    made = _table("at", "decision", "replica", "reason", "model", "end")
    for one in decisions:
        again = f" (attempt {one.attempt})" if one.attempt > 1 else ""
        good = one.end in ("ok", "running", "client_gone")
        made.add_row(
            _clock(one.at_ms),
            _plain(one.name),
            _plain(one.replica),
            one.reason + again,
            _plain(one.model),
            _plain(one.end, "" if good else "red"),
        )
    if not made.row_count:
        made.add_row("", "none yet")
    return made


def _incidents(incidents: Iterable[Incident]) -> Table:
    made = Table(box=None, pad_edge=False, header_style="dim")
    made.add_column("at", justify="right", no_wrap=True)
    made.add_column("incident")
    for one in incidents:
        times = f" ({plural(one.times, 'time')})" if one.times > 1 else ""
        made.add_row(_clock(one.at_ms), _plain(one.text + times))
    if not made.row_count:
        made.add_row("", f"none among the last {PAST_EVENTS:,} events")
    return made


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%H:%M:%S")
