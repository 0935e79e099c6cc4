/* What is wrong with pools and replicas now, above everything else; nothing is shown while all is well. */
const troubleOf = replica => {
  const said = [];
  if (replica.state !== "LIVE") {
    const cause = replica.state === "EJECTED" ? ejectCauses.get(replica.name) : "";
    said.push(`is ${replica.state}${cause ? ` (${cause})` : ""}`);
  }
  if (replica.stalled) said.push("is stalled: it runs requests but generates no token");
  if (!said.length) return [];
  const words = element("span", `${replica.name} ${said.join(", ")}`, replica.state);
  if (replica.cooldown_s) {
    const shown = element("span");
    words.append(", cooldown ", shown);
    cooldowns.push([shown, performance.now() + replica.cooldown_s * 1000]);
  }
  const made = element("li", swatch(replica.name));
  made.append(words);
  return [made];
};
const unservedBy = pool => {
  if (pool.routable || !pool.replicas) return [];
  return [element("li", element("span",
    `nobody serves ${pool.model}: 0 of ${plural(pool.replicas, "replica")} routable`,
    "EJECTED"))];
};
/* A log that takes nothing: it says why, or events wait and nothing becomes durable. */
const LOG_SILENT_MS = 3000;
const log = {durable: -1, since: 0, told: false};
const logSilentMs = state => {
  if (state.durable_position !== log.durable || state.position === state.durable_position) {
    log.durable = state.durable_position;
    log.since = state.at_ms;
  }
  return state.at_ms - log.since;
};
const logTrouble = state => {
  const silentMs = logSilentMs(state);
  const stands = Boolean(state.log_failing) || silentMs > LOG_SILENT_MS;
  const why = state.log_failing || "the disk does not answer";
  if (stands !== log.told) {
    log.told = stands;
    if (stands) showIncident("logFails", log.since, {why});
    else showIncident("logWritten", state.at_ms, {});
  }
  if (!stands) return [];
  const waiting = plural(state.position - state.durable_position, "event");
  return [element("li", element("span",
    `the log has taken nothing for ${duration(silentMs)}, ${waiting} wait: ${why}`, "EJECTED"))];
};
const showWrong = state => {
  const made = [...logTrouble(state), ...state.pools.flatMap(unservedBy),
    ...state.replicas.flatMap(troubleOf)];
  at("troubles").replaceChildren(...made);
  at("wrong").hidden = !made.length;
  countDown();
};
