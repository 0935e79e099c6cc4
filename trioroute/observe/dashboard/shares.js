/* Traffic share over time: dispatches counted in slots of five seconds, drawn as stacked bars. */
const SLOT_MS = 5000;
const SLOTS = 60;
const slots = new Map();
let caughtUp = false;
const countDispatch = (atMs, replica) => {
  const slot = Math.floor(atMs / SLOT_MS);
  const counts = slots.get(slot) || new Map();
  counts.set(replica, (counts.get(replica) || 0) + 1);
  slots.set(slot, counts);
};
const bar = (x, y, height, replica, count) => {
  const made = document.createElementNS(at("shares").namespaceURI, "rect");
  const box = {x, y, width: 600 / SLOTS, height, fill: colour(replica)};
  for (const [key, value] of Object.entries(box)) made.setAttribute(key, value);
  const title = document.createElementNS(at("shares").namespaceURI, "title");
  title.textContent = `${replica}: ${count}`;
  made.append(title);
  return made;
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
  at("shares").replaceChildren(...bars);
  const names = [...sums].sort().map(([replica, count]) => {
    const made = element("span", swatch(replica));
    made.append(`${replica} ${count}`);
    return made;
  });
  at("legend").replaceChildren(...(names.length ? names
    : [caughtUp ? "no dispatch yet" : "reading the log"]));
};
