/* Finds a decision by its name or number, by a request's id, or those of a session. */
const foundRow = one => {
  const made = element("li", decisionButton(one.decision));
  const again = one.attempt > 1 ? `, attempt ${one.attempt}` : "";
  made.append(" ", moment(one.at_ms), `to ${one.replica} (${one.reason}${again}), request `,
    element("code", one.request_id));
  return made;
};
/* A request that never went anywhere: when it was refused, by what, and what its client got. */
const refusedRow = one => {
  const made = element("li", moment(one.at_ms));
  const waited = one.waited_ms ? `, after ${duration(one.waited_ms)} in line` : "";
  made.append(` ${one.place}: its client got ${one.client}${waited}: ${one.cause}`);
  return made;
};
/* What helps is said once, however many refusals it would have helped. */
const remediesOf = refused => [...new Set(refused.flatMap(one => one.remedies))]
  .map(remedy => element("li", `remedy: ${remedy}`, "remedy"));
const showRefused = told => {
  const one = told.refused[0];
  const of = one.model ? ` for ${one.model}` : "";
  const by = one.key ? ` of ${one.key}` : "";
  const times = told.refused.length > 1 ? ` (${told.refused.length} times by this id)` : "";
  at("sentence").textContent = `request${of}${by} got ${one.client}, never dispatched${times}`;
  at("found").replaceChildren(...told.refused.map(refusedRow), ...remediesOf(told.refused));
};
const showFound = told => {
  if (told.refused) return showRefused(told);
  if (told.decisions.length === 1) return explain(...splitName(told.decisions[0].decision));
  const all = told.complete ? "all" : "the last";
  at("sentence").textContent = `${all} ${told.decisions.length} decisions, newest first:`;
  at("found").replaceChildren(...told.decisions.map(foundRow));
};
const lookUp = text => {
  const named = /^(?:(.+)\/)?([1-9][0-9]{0,17})$/.exec(text);
  if (named) return explain(named[1] || router, named[2]);
  beginQuestion(text);
  return showQuestion(`/decisions?find=${encodeURIComponent(text)}`, showFound);
};
const followAddress = () => {
  const named = /^#([^?#]+)\/([1-9][0-9]{0,17})$/.exec(location.hash);
  if (named) explain(named[1], named[2]);
};
window.addEventListener("hashchange", followAddress);
at("search").addEventListener("submit", event => {
  event.preventDefault();
  const text = at("wanted").value.trim();
  if (text) lookUp(text);
});
