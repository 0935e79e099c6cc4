/* Traffic share over time: dispatches counted in slots of five seconds, drawn as stacked bars. */
const SLOT_MS = 5000;
const SLOTS = 60;
const slots = new Map();
let caughtUp = false;
/* Dispatches before this were not read: that part is hatched, for nobody knows who got them. */
let knownFromMs = Infinity;
const countDispatch = (atMs, replica) => {
  const slot = Math.floor(atMs / SLOT_MS);
  const counts = slots.get(slot) || new Map();
  counts.set(replica, (counts.get(replica) || 0) + 1);
  slots.set(slot, counts);
};
const box = (sides, told) => {
  const made = document.createElementNS(at("shares").namespaceURI, "rect");
  for (const [key, value] of Object.entries(sides)) made.setAttribute(key, value);
  const title = document.createElementNS(at("shares").namespaceURI, "title");
  title.textContent = told;
  made.append(title);
  return made;
};
const dispatches = count => `${count} dispatch${count === 1 ? "" : "es"}`;
const bar = (x, y, height, replica, count) => box(
  {x, y, width: 600 / SLOTS, height, fill: colour(replica)}, `${replica}: ${dispatches(count)}`);
/* The first slot that was read may be known in part: it is shown. */
const unknownPart = newest => {
  const from = Math.floor(knownFromMs / SLOT_MS);
  const width = Math.min(SLOTS, Math.max(0, from - newest + SLOTS - 1)) * 600 / SLOTS;
  if (!caughtUp || !width) return [];
  return [box({x: 0, y: 0, width, height: 100, class: "unknown"},
    "not known: the page begins with the last events of the log")];
};
const drawShares = atMs => {
  const newest = Math.floor(atMs / SLOT_MS);
  for (const slot of slots.keys()) if (slot <= newest - SLOTS) slots.delete(slot);
  const bars = [];
  const sums = new Map();
  for (const [slot, counts] of slots) {
    const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
    let top = 0;
    for (const [replica, count] of [...counts].sort()) {
      const height = 100 * count / total;
      bars.push(bar((SLOTS - 1 - newest + slot) * 600 / SLOTS, top, height, replica, count));
      top += height;
      sums.set(replica, (sums.get(replica) || 0) + count);
    }
  }
  const unknown = unknownPart(newest);
  at("shares").replaceChildren(...unknown, ...bars);
  const names = [...sums].sort().map(([replica, count]) => {
    const made = element("span", swatch(replica));
    made.append(`${replica} ${dispatches(count)}`);
    return made;
  });
  at("legend").replaceChildren(...(names.length ? names
    : [caughtUp ? "no dispatch yet" : "reading the log"]));
  if (unknown.length) at("legend").append(element("span", "grey: not known here", "unknown"));
};
