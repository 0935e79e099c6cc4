/* The table of replicas and the numbers above it: what /state says now. */
let cooldowns = [];
const countDown = () => {
  for (const [shown, until] of cooldowns) {
    const left = Math.ceil((until - performance.now()) / 1000);
    shown.textContent = left > 0 ? left + " s" : "–";
  }
};
const part = value => {
  const made = element("span");
  if (value !== null) {
    const meter = element("meter");
    meter.value = value;
    meter.setAttribute("aria-hidden", "true");
    made.append(meter);
  }
  made.append(value === null ? "–" : Math.round(value * 100) + " %");
  return made;
};
const replicaRow = replica => {
  const made = element("tr");
  const name = element("span", swatch(replica.name));
  name.append(replica.name, element("small", replica.models.join(", ") || "no models yet"));
  const standing = element("span", replica.state, replica.state);
  if (replica.stalled) standing.append(element("small", "stalled", "stalled"));
  if (replica.eject_count) standing.append(element("small", "eject " + replica.eject_count));
  const cooldown = cell("cooldown", "");
  const shown = element("span");
  cooldown.append(shown);
  cooldowns.push([shown, performance.now() + replica.cooldown_s * 1000]);
  const age = replica.last_good_scrape_age_s;
  made.append(cell("replica", name), cell("state", standing),
    cell("load", number(replica.effective_running)),
    cell("queue", number(replica.effective_waiting)),
    cell("in flight", number(replica.in_flight)),
    cell("weight", number(replica.wlc_in_flight)),
    cell("KV", part(replica.kv_usage)), cell("score", replica.score.toFixed(2)),
    cell("share", part(replica.traffic_share)), cooldown,
    cell("last scrape", age === null ? "never" : number(age) + " s"));
  return made;
};
const showState = state => {
  cooldowns = [];
  at("replicas").replaceChildren(...state.replicas.map(replicaRow));
  countDown();
  at("router").textContent = state.router;
  at("session").textContent = state.pins.session;
  at("prefix").textContent = state.pins.prefix;
  at("imbalance").textContent = state.imbalance_index.toFixed(2);
  at("position").textContent = state.position;
  at("behind").textContent = state.position - state.durable_position;
};
