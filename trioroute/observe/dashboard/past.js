/* Incidents from before the events that the page follows: asked for once, shown below the others. */
const PAST_INCIDENTS = 200000;
let askedBack = false;
let lookedBackTo = null;
/* Said when both streams are read. */
const noIncidents = () => {
  if (!caughtUp || lookedBackTo === null) return;
  const first = lookedBackTo;
  at("no-incidents").textContent = first > 1
    ? `none among the last ${PAST_INCIDENTS.toLocaleString("en")} events` : "none yet";
};
const lookBack = position => {
  const first = Math.max(0, position - PAST_INCIDENTS);
  const found = [];
  const opened = new EventSource(address(
    `/events?since=${first}&kinds=${Object.keys(INCIDENTS).join(",")}`));
  const done = () => {
    opened.close();
    lookedBackTo = first;
    showOlder(found);
    noIncidents();
  };
  opened.onmessage = event => {
    if (Number(event.lastEventId) > position) done();
    else found.push(JSON.parse(event.data));
  };
  opened.addEventListener("now", done);
  opened.onerror = () => {
    opened.close();
    askedBack = false;
  };
};
