"""An incident as one HTML file that needs nothing else, to be attached to a postmortem."""

from collections.abc import Iterable
from html import escape

from trioroute.replay.incident.block import Block
from trioroute.replay.incident.lines import blocks_of, head_of, title_of, words_block
from trioroute.replay.incident.plots import IN_FLIGHT, PHASES, STATES, colour, plots_of, replicas_of
from trioroute.replay.incident.told import Incident

_STYLE = """
:root { color-scheme: light dark; --text: #1c2733; --back: #fff; --faint: #55616e;
  --line: #b8c2cc; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e9ee; --back: #14181d; --faint: #a4afba; --line: #46515c; } }
@media print { :root { --text: #000; --back: #fff; --faint: #444; --line: #999; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem;
  padding: 0 1rem; color: var(--text); background: var(--back); }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .15rem .9rem .15rem 0;
  vertical-align: top; } th { border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; }
td:first-child { white-space: nowrap; }
svg { width: 100%; height: auto; }
svg text { font: 11px system-ui, sans-serif; fill: var(--faint); }
svg text.in { fill: #111; pointer-events: none; }
.key { display: inline-block; margin-right: 1rem; } .key i { display: inline-block; width: .7rem;
  height: .7rem; margin-right: .3rem; }
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The page may load nothing, whatever a name in the log looks like."""


def page_of(told: Incident) -> str:
    """The whole page. Everything from the log is escaped."""
    parts = [f"<h1>{escape(title_of(told))}</h1>", f"<p>{escape(told.sentence)}</p>"]
    parts += [f"<p>{escape(said)}</p>" for said in head_of(told)]
    names = replicas_of(told)
    by_replica = [(name, colour(place)) for place, name in enumerate(names)]
    keys = {
        "Phases and states": _used(told),
        "Share of traffic": by_replica,
        IN_FLIGHT: by_replica,
    }
    blocks = blocks_of(told)
    blocks += words_block(told, blocks)
    for title, svg in plots_of(told):
        parts += [f"<h2>{escape(title)}</h2>", _keys(keys.get(title, ())), svg]
    parts += [_block(block) for block in blocks]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title_of(told))}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def _used(told: Incident) -> list[tuple[str, str]]:
    """The phases and states there are, with their colours."""
    phases, states = {one.name for one in told.phases}, {one.state for one in told.lanes}
    return [
        *((name, fill) for name, fill in PHASES.items() if name in phases),
        *((name, fill) for name, fill in STATES.items() if name in states),
    ]


def _keys(keys: Iterable[tuple[str, str]]) -> str:
    made = [
        f'<span class="key"><i style="background:{fill}"></i>{escape(name)}</span>'
        for name, fill in keys
    ]
    return f"<p>{''.join(made)}</p>" if made else ""


def _block(block: Block) -> str:
    parts = [f"<h2>{escape(block.title)}</h2>"]
    parts += [f"<p>{escape(sentence)}</p>" for sentence in block.said]
    if block.rows:
        side = ['class="n"' if name in block.right else "" for name in block.columns]
        head = "".join(
            f"<th {at}>{escape(n)}</th>" for n, at in zip(block.columns, side, strict=True)
        )
        rows = [
            "".join(f"<td {at}>{escape(cell)}</td>" for cell, at in zip(row, side, strict=True))
            for row in block.rows
        ]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        parts.append(f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>')
    return "\n".join(parts)
