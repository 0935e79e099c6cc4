"""The dashboard: one page without any network but ``/state``, asked every two seconds.

Style and script are inline and named by their hashes in the Content-Security-Policy, so nothing
else can run in it; names of replicas enter as text, never as markup.
"""

import base64
import hashlib

from trioroute.observe.answer import Answer

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --faint: #5d6876; --line: #d9dee5;
  --back: #fff; --good: #1a7f37; --bad: #c0271d; --mid: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ee; --faint: #98a3b1; --line: #313a46;
  --back: #11161d; --good: #4ac26b; --bad: #ff7b72; --mid: #d9a520; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
  margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; margin: 0; }
p { color: var(--faint); margin: .3rem 0 1rem; }
p.trouble { color: var(--bad); }
div { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { font-weight: 600; color: var(--faint); }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
small { display: block; color: var(--faint); }
meter { width: 4rem; vertical-align: middle; margin-right: .4rem; }
.LIVE { color: var(--good); } .EJECTED { color: var(--bad); }
.PROBING, .DRAINING, .stalled { color: var(--mid); } .JOINING { color: var(--faint); }
dl { display: flex; flex-wrap: wrap; gap: .5rem 2.5rem; margin: 1.2rem 0; }
dt { color: var(--faint); font-size: .85rem; } dd { margin: 0; font-size: 1.15rem; }
a { color: inherit; }
"""

SCRIPT = """
"use strict";
const at = id => document.getElementById(id);
const number = (value, digits = 1) =>
  value === null ? "–" : Number.isInteger(value) ? String(value) : value.toFixed(digits);
const element = (tag, text, name) => {
  const made = document.createElement(tag);
  made.textContent = text;
  if (name) made.className = name;
  return made;
};
const share = value => {
  const cell = element("td", "");
  if (value !== null) {
    const meter = document.createElement("meter");
    meter.value = value;
    cell.append(meter);
  }
  cell.append(value === null ? "–" : Math.round(value * 100) + " %");
  return cell;
};
let cooldowns = [];
const countDown = () => {
  for (const [cell, until] of cooldowns) {
    const left = Math.ceil((until - performance.now()) / 1000);
    cell.textContent = left > 0 ? left + " s" : "–";
  }
};
const row = replica => {
  const made = document.createElement("tr");
  const name = element("td", replica.name);
  name.append(element("small", replica.models.join(", ") || "no models yet"));
  const state = element("td", replica.state, replica.state);
  if (replica.stalled) state.append(element("small", "stalled", "stalled"));
  if (replica.eject_count) state.append(element("small", "eject " + replica.eject_count));
  const cooldown = element("td", "");
  cooldowns.push([cooldown, performance.now() + replica.cooldown_s * 1000]);
  made.append(name, state,
    element("td", number(replica.running)), element("td", number(replica.waiting)),
    element("td", number(replica.in_flight)), element("td", number(replica.wlc_in_flight)),
    element("td", number(replica.effective_running) + " + "
      + number(replica.effective_waiting)),
    share(replica.kv_usage), share(replica.traffic_share), cooldown,
    element("td", replica.last_good_scrape_age_s === null ? "never"
      : number(replica.last_good_scrape_age_s) + " s"));
  return made;
};
const show = state => {
  cooldowns = [];
  at("replicas").replaceChildren(...state.replicas.map(row));
  countDown();
  at("router").textContent = state.router;
  at("session").textContent = state.pins.session;
  at("prefix").textContent = state.pins.prefix;
  at("imbalance").textContent = number(state.imbalance_index, 2);
  at("position").textContent = state.position;
  at("behind").textContent = state.position - state.durable_position;
};
const tell = (text, trouble) => {
  at("status").textContent = text;
  at("status").className = trouble ? "trouble" : "";
};
const refresh = async () => {
  try {
    const answer = await fetch("/state?with=traffic_share", {signal: AbortSignal.timeout(5000)});
    if (!answer.ok) throw new Error("status " + answer.status);
    show(await answer.json());
    tell("as of " + new Date().toLocaleTimeString(), false);
  } catch (trouble) {
    tell("no answer from the router: " + trouble.message + "; the table is old", true);
  }
  setTimeout(refresh, 2000);
};
setInterval(countDown, 1000);
refresh();
"""

BODY = """
<h1>trioroute <span id="router"></span></h1>
<p id="status" role="status">asking</p>
<div><table aria-label="Replicas">
<thead><tr><th scope="col">replica</th><th scope="col">state</th>
<th scope="col" title="by the last scrape">running</th>
<th scope="col" title="by the last scrape">waiting</th>
<th scope="col" title="requests of this router">in flight</th>
<th scope="col" title="their estimated tokens, in units">weight</th>
<th scope="col" title="running + waiting, as decisions see them">effective</th>
<th scope="col" title="KV cache blocks in use">KV</th>
<th scope="col" title="of the dispatches of 5 minutes">share</th>
<th scope="col">cooldown</th><th scope="col">last good scrape</th></tr></thead>
<tbody id="replicas"></tbody></table></div>
<dl><div><dt>session pins</dt><dd id="session">–</dd></div>
<div><dt>prefix pins</dt><dd id="prefix">–</dd></div>
<div><dt>imbalance index</dt><dd id="imbalance">–</dd></div>
<div><dt>log position</dt><dd id="position">–</dd></div>
<div><dt>not yet durable</dt><dd id="behind">–</dd></div></dl>
<p><a href="/metrics">metrics</a> · <a href="/state">state</a> · <a href="/readyz">ready</a></p>
"""

_HTML = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>trioroute</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><style>{STYLE}</style></head>
<body>{BODY}<script>{SCRIPT}</script></body></html>
""".encode()


def _hash(text: str) -> str:
    """The CSP source of an inline element (CSP level 3, 2.3.1)."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


_POLICY = (
    f"default-src 'none'; script-src {_hash(SCRIPT)}; style-src {_hash(STYLE)};"
    " connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
).encode()


def dashboard() -> Answer:
    """The page; it is the same for every router."""
    return Answer(200, "text/html; charset=utf-8", _HTML, policy=_POLICY)
