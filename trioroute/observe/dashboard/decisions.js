/* Live decisions, each with how it ended; a click asks for the explanation. */
const DECISIONS_MAX = 40;
const ends = new Map();
let paused = false;
const isGood = outcome => outcome === "ok" || outcome === "client_gone";
const showEnd = (dispatch, text, good) => {
  const end = ends.get(dispatch);
  if (!end) return;
  end.replaceChildren(element("span", text, good ? "ok" : "wrong"));
  ends.delete(dispatch);
};
const showDecision = (router, version, atMs, body) => {
  at("no-decisions").hidden = true;
  const name = element("span");
  const open = element("button", `${router}/${version}`, "plain");
  open.type = "button";
  open.addEventListener("click", () => explain(router, version));
  name.append(moment(atMs), open);
  const again = body.attempt > 1 ? ` (attempt ${body.attempt})` : "";
  const where = element("span", swatch(body.replica));
  where.append(body.replica);
  const end = cell("end", "running");
  const made = element("tr");
  made.append(cell("decision", name), cell("replica", where), cell("reason", body.reason + again),
    cell("model", body.model), cell("weight", number(body.weight_m / 1000)), end);
  ends.set(version, end);
  for (const old of ends.keys()) {
    if (ends.size <= DECISIONS_MAX) break;
    ends.delete(old);
  }
  prepend(at("decisions"), made, DECISIONS_MAX);
};
at("pause").addEventListener("click", () => {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  at("pause").textContent = paused ? "go on" : "pause";
});
