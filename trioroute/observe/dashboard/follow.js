/* Follows /events and asks /state; after any break goes on with the last version it saw. */
const PAST_EVENTS = 3000;
const LOOK_MS = 2000;
const AGAIN_MS = 1000;
const KINDS = ["Dispatched", "Released", "Failed", "Spilled", "Rebound", ...Object.keys(INCIDENTS)];
let source = null;
let seen = null;
let newestMs = 0;
let router = "";
const more = id => { at(id).textContent = Number(at(id).textContent) + 1; };
/* Without a user and password that the page's own address may carry: fetch refuses those. */
const address = path => location.origin + path;
const tell = (text, trouble) => {
  if (at("status").textContent === text) return;
  at("status").textContent = text;
  at("status").className = trouble ? "trouble" : "";
};
/* Its client's connection broke as the router died. */
const cutOff = (atMs, dispatch) => {
  countEnd(atMs, {outcome: "unknown"});
  showEnd(dispatch, "cut off: the router died", false);
};
const take = ({version, at_ms: atMs, kind, body, changed}) => {
  newestMs = Math.max(newestMs, atMs);
  if (kind === "Refused") countRefusal(atMs);
  if (kind === "Dispatched") {
    countDispatch(atMs, body.replica);
    if (!paused) showDecision(router, version, atMs, body);
  } else if (kind === "Released") {
    countEnd(atMs, body);
    showEnd(body.dispatch, body.outcome, isGood(body.outcome));
    explainEnd(router, body.dispatch);
  } else if (kind === "Failed") {
    showEnd(body.dispatch, `failed: ${body.cause}`, false);
    explainEnd(router, body.dispatch);
  } else if (kind === "Spilled") {
    more("spills");
  } else if (kind === "Rebound") {
    more("rebinds");
  } else if (kind in INCIDENTS) {
    if (kind === "Orphaned") (body.dispatches || []).forEach(dispatch => cutOff(atMs, dispatch));
    showIncident(kind, atMs, body, changed);
  }
};
const follow = position => {
  if (source || document.hidden) return;
  if (seen === null || seen > position || position - seen > PAST_EVENTS) {
    seen = Math.max(0, position - PAST_EVENTS);
    knownFromMs = seen ? Infinity : 0;
    slots.clear();
    seconds.clear();
  }
  if (!askedBack) {
    askedBack = true;
    lookBack(seen);
  }
  const opened = new EventSource(address(`/events?since=${seen}&kinds=${KINDS.join(",")}`));
  source = opened;
  const note = event => { seen = Number(event.lastEventId); };
  opened.onmessage = event => {
    note(event);
    take(JSON.parse(event.data));
  };
  opened.addEventListener("now", event => {
    caughtUp = true;
    knownFromMs = Math.min(knownFromMs, JSON.parse(event.data).from_ms);
    at("no-decisions").textContent = "none yet";
    noIncidents();
    drawShares(newestMs);
    drawPace(newestMs);
  });
  opened.addEventListener("gap", note);
  opened.addEventListener("reset", note);
  opened.onerror = () => {
    opened.close();
    if (source === opened) source = null;
  };
};
const refresh = async () => {
  let wait = LOOK_MS;
  try {
    const answer = await fetch(address("/state?with=traffic_share&with=score"),
      {signal: AbortSignal.timeout(5000)});
    if (!answer.ok) throw new Error("status " + answer.status);
    const state = await answer.json();
    router = state.router;
    newestMs = Math.max(newestMs, state.at_ms);
    showState(state);
    showWrong(state);
    drawShares(newestMs);
    drawPace(newestMs);
    follow(state.position);
    if (!state.ready) tell("not ready for traffic: " + state.reason, true);
    else tell(source ? "following the log" : "the stream of events is broken, asking again", !source);
  } catch (trouble) {
    wait = AGAIN_MS;
    tell("no answer from the router: " + trouble.message + "; what you see is old", true);
  }
  setTimeout(refresh, wait);
};
document.addEventListener("visibilitychange", () => {
  if (document.hidden && source) {
    source.close();
    source = null;
  }
});
setInterval(countDown, 1000);
followAddress();
refresh();
