/* One decision as a picture: a row for each replica of the pool, a column for each of the steps. */
const NAMES = {kept: "●", dropped: "✕", chosen: "★"};
const fateCell = (step, replica, chosenAt) => {
  const gone = step.dropped.find(one => one.replica === replica);
  if (gone) {
    const made = cell(step.name, NAMES.dropped, "out");
    made.title = gone.why;
    made.setAttribute("aria-label", `dropped out: ${gone.why}`);
    return made;
  }
  if (!step.left.includes(replica) || step.number > chosenAt) return cell(step.name, "");
  const chosen = step.number === chosenAt;
  const made = cell(step.name, chosen ? NAMES.chosen : NAMES.kept, "in");
  made.setAttribute("aria-label", chosen ? "chosen" : "left");
  return made;
};
/* The step that settled it: the least work or load, a pin, the draw. */
const chosenAtOf = told => {
  if (told.reason === "fallback") return 5;
  return told.reason === "load" || told.work.length ? 3 : 4;
};
/* A decision that today's code takes otherwise is told by the steps of today: its replica may drop out. */
const fateWords = (told, replica, chosenAt) => {
  const out = told.steps.find(step => step.dropped.some(one => one.replica === replica));
  if (replica !== told.replica) return out ? `out at step ${out.number}` : "";
  return out ? `chosen then; today out at step ${out.number}` : `chosen at step ${chosenAt}`;
};
/* Effective running: requests, or what weighs as much as so many. */
const loadOf = ({effective_running_m: loadM}) =>
  `load ${number(loadM / 1000)} request${loadM === 1000 ? "" : "s"}`;
const pictureRow = (told, replica, chosenAt) => {
  const made = element("tr", "", replica.name === told.replica ? "winner" : "");
  const name = element("td", swatch(replica.name));
  name.append(replica.name,
    element("small", fateWords(told, replica.name, chosenAt)),
    element("small",
      [loadOf(replica), ...replica.flags].join(", ")));
  made.append(name, ...told.steps.map(step => fateCell(step, replica.name, chosenAt)));
  return made;
};
const stepReasons = step => {
  const parts = step.dropped.map(one => `${one.replica}: ${one.why}`);
  if (step.note) parts.push(step.note);
  const made = element("li", element("strong", step.name));
  made.append(` – ${parts.join("; ") || "nobody dropped out"}`);
  return made;
};
const decisionButton = name => {
  const made = element("button", name, "plain");
  made.type = "button";
  made.addEventListener("click", () => explain(...splitName(name)));
  return made;
};
const splitName = name => {
  const slash = name.lastIndexOf("/");
  return [name.slice(0, slash), name.slice(slash + 1)];
};
const askedOf = told => {
  const {request_id: id, model, session, attempt} = told.request;
  const made = ["request ", element("code", id), ` · model ${model} · `, moment(told.at_ms)];
  if (session) {
    const all = element("button", session, "plain");
    all.type = "button";
    all.title = "all decisions of this session (its digest)";
    all.addEventListener("click", () => lookUp(session));
    made.push("· session ", all);
  }
  if (attempt > 1) made.push(` · attempt ${attempt}`);
  for (const one of told.earlier) {
    made.push(", after ", decisionButton(one.decision), ` to ${one.replica}`);
  }
  return made;
};
/* How it ended, whose doing that was, what the client was answered, and where it went on. */
const endingOf = ({followed}) => {
  if (!followed.end) return ["Still running."];
  const made = [`Ended ${followed.ended}.`];
  const well = followed.end.outcome === "ok";
  if (followed.client && !well) made.push(` Its client got ${followed.client}.`);
  if (followed.next_attempt) {
    made.push(" Went on as ", decisionButton(followed.next_attempt), ".");
  }
  return made;
};
const PARTS = ["asked", "steps", "picture", "reasons", "ending", "found"];
const showExplanation = told => {
  const chosenAt = chosenAtOf(told);
  at("sentence").textContent = told.sentence;
  at("asked").replaceChildren(...askedOf(told));
  const heads = told.steps.map(step => element("th", `${step.number} ${step.name}`));
  at("steps").replaceChildren(element("tr"));
  at("steps").firstElementChild.append(element("th", "replica"), ...heads);
  at("picture").replaceChildren(...told.replicas.map(one => pictureRow(told, one, chosenAt)));
  at("reasons").replaceChildren(...told.steps.map(stepReasons));
  at("ending").replaceChildren(...endingOf(told));
  if (!told.verified) at("ending").append(` ${told.difference}`);
};
/* What is asked last is shown: an answer that comes after another question is let go. */
let question = 0;
const beginQuestion = title => {
  at("explained-title").textContent = title;
  at("sentence").textContent = "asking the log";
  at("key").hidden = true;
  for (const id of PARTS) at(id).replaceChildren();
  if (!at("explained").open) at("explained").showModal();
};
const showQuestion = async (url, show) => {
  const mine = ++question;
  try {
    const answer = await fetch(address(url));
    const told = await answer.json();
    if (!answer.ok) throw new Error(told.error.message);
    if (mine === question) show(told);
  } catch (trouble) {
    if (mine === question) at("sentence").textContent = trouble.message;
  }
};
const askWhy = (router, version) => showQuestion(
  `/decisions/${encodeURIComponent(router)}/${version}`,
  told => {
    at("key").hidden = false;
    showExplanation(told);
  });
const titleOf = (router, version) => `Decision ${router}/${version}`;
/* The page's address names the decision that is shown, to be copied into a ticket. */
const explain = (router, version) => {
  history.replaceState(null, "", `#${router}/${version}`);
  beginQuestion(titleOf(router, version));
  return askWhy(router, version);
};
/* A decision that is shown while its request runs is asked again when that ends. */
const explainEnd = (router, version) => {
  const shown = at("explained").open && at("explained-title").textContent;
  if (shown === titleOf(router, version)) askWhy(router, version);
};
at("close").addEventListener("click", () => at("explained").close());
at("explained").addEventListener("close", () => history.replaceState(null, "", "#"));
