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
  if (!step.left.includes(replica)) return cell(step.name, "");
  const chosen = step.number === chosenAt;
  const made = cell(step.name, chosen ? NAMES.chosen : NAMES.kept, "in");
  made.setAttribute("aria-label", chosen ? "chosen" : "left");
  return made;
};
const pictureRow = (told, replica, chosenAt) => {
  const made = element("tr", "", replica.name === told.replica ? "winner" : "");
  const name = element("td", swatch(replica.name));
  name.append(replica.name, element("small",
    [`load ${number(replica.effective_running_m / 1000)}`, ...replica.flags].join(", ")));
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
const endingOf = told => {
  const end = told.followed.end;
  const next = told.followed.next_attempt;
  if (!end) return "Still running.";
  const took = end.duration_ms === null ? end.after_ms : end.duration_ms;
  return `Ended ${end.outcome || end.what} after ${took} ms.` + (next ? ` Went on as ${next}.` : "");
};
const showExplanation = told => {
  const chosenAt = Math.max(0, ...told.steps.filter(step => step.left.includes(told.replica))
    .map(step => step.number));
  at("sentence").textContent = told.sentence;
  const heads = told.steps.map(step => element("th", `${step.number} ${step.name}`));
  at("steps").replaceChildren(element("tr"));
  at("steps").firstElementChild.append(element("th", "replica"), ...heads);
  at("picture").replaceChildren(...told.replicas.map(one => pictureRow(told, one, chosenAt)));
  at("reasons").replaceChildren(...told.steps.map(stepReasons));
  at("ending").textContent = endingOf(told) + (told.verified ? "" : ` ${told.difference}`);
};
const explain = async (router, version) => {
  at("explained-title").textContent = `Decision ${router}/${version}`;
  at("sentence").textContent = "asking the log";
  for (const id of ["steps", "picture", "reasons", "ending"]) at(id).replaceChildren();
  at("explained").showModal();
  try {
    const answer = await fetch(
      address(`/decisions/${encodeURIComponent(router)}/${version}`));
    const told = await answer.json();
    if (!answer.ok) throw new Error(told.error.message);
    if (at("explained-title").textContent.endsWith(`/${version}`)) showExplanation(told);
  } catch (trouble) {
    at("sentence").textContent = trouble.message;
  }
};
at("close").addEventListener("click", () => at("explained").close());
