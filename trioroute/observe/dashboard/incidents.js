/* The incident timeline: what happened to replicas and to the router, newest first. */
const INCIDENTS_MAX = 40;
const whom = body => (body.by ? ` by ${body.by}` : "") + (body.why ? ` (${body.why})` : "");
const refusal = ({code}) => code === "log_stalled"
  ? "log_stalled, the log took nothing within log.gate_wait" : code;
/* `changed` is not there where nobody knows what was in force before. */
const inForce = changed => {
  if (!changed) return "settings in force";
  if (!changed.length) return "settings in force again, none that the log holds changed";
  return `other settings in force: ${changed.join(", ")}`;
};
const INCIDENTS = {
  Started: body => ["LIVE", `router started, release ${body.release}`],
  Stopped: body => ["DRAINING", `router stopped (${body.cause})`],
  Orphaned: body => ["EJECTED", (body.ends_lost ? "lost with the last events: the ends of " : "router had died under ")
    + (body.dispatches ? plural(body.dispatches.length, "request") : "many requests")],
  Gap: body => ["EJECTED", body.unlogged ? `${plural(body.unlogged, "response")} went out unlogged`
    : `${body.lost === undefined ? "some events" : plural(body.lost, "event")} missing`],
  Configured: (body, changed) => ["JOINING", inForce(changed) + whom(body)],
  ReplicaJoined: body => ["JOINING", `${body.replica} joined, ${body.url}${whom(body)}`],
  ReplicaLeft: body => ["JOINING", `${body.replica} left${whom(body)}`],
  Draining: body => ["DRAINING", `${body.replica} ${body.on ? "drains" : "takes part again"}${whom(body)}`],
  Ejected: body => ["EJECTED", `${body.replica} ejected`
    + `${body.cause === "none" ? "" : ` (${body.cause})`}, number ${body.n}${whom(body)}`],
  Probing: body => ["PROBING", `${body.replica} is probed`],
  Live: body => ["LIVE", `${body.replica} is live`],
  StoodStill: body => ["EJECTED", `the router stood still for ${duration(body.for_ms)}: `
    + "nothing was scraped or answered (stopped, paused, swapping or without CPU)"],
  Refused: body => ["EJECTED", `refused${body.model ? " for " + body.model : ""}: ${refusal(body)}`],
};
/* What no event tells: what /state says of the log. */
const BESIDE = {
  logFails: body => ["EJECTED", `the log takes nothing: ${body.why}`],
  logWritten: () => ["LIVE", "the log is written again"],
};
const ejectCauses = new Map();
let last = {text: "", times: 0, shown: null};
const showIncident = (kind, atMs, body, changed) => {
  at("no-incidents").hidden = true;
  if (kind === "Ejected") ejectCauses.set(body.replica, body.cause);
  const [name, text] = (INCIDENTS[kind] || BESIDE[kind])(body, changed);
  if (text === last.text) {
    last.times += 1;
    last.shown.textContent = `${text} (${last.times} times)`;
    return;
  }
  const made = element("li", moment(atMs));
  const shown = element("span", text, name);
  made.append(shown);
  last = {text, times: 1, shown};
  prepend(at("incidents"), made, INCIDENTS_MAX);
};
/* Oldest first, all older than what is shown. */
const showOlder = events => {
  const newer = [...at("incidents").children];
  const kept = last;
  last = {text: "", times: 0, shown: null};
  at("incidents").replaceChildren();
  const causes = new Map(ejectCauses);
  for (const {kind, at_ms: atMs, body, changed} of events) showIncident(kind, atMs, body, changed);
  for (const [replica, cause] of causes) ejectCauses.set(replica, cause);
  at("incidents").prepend(...newer);
  while (at("incidents").children.length > INCIDENTS_MAX) at("incidents").lastElementChild.remove();
  if (kept.shown) last = kept;
};
