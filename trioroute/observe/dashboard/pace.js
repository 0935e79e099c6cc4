/* What clients got in the last minute: how many, how many badly, and the wait for a first byte. */
const MINUTE_S = 60;
const WAITS_MAX = 100;
const FINE = ["ok", "client_gone", "client_stall", "client_error"];
const seconds = new Map();
const secondOf = atMs => {
  const second = Math.floor(atMs / 1000);
  if (!seconds.has(second)) seconds.set(second, {answered: 0, failed: 0, refused: 0, waits: []});
  return seconds.get(second);
};
const countEnd = (atMs, {outcome, ttfb_ms: waitedMs}) => {
  const counts = secondOf(atMs);
  counts.answered += 1;
  if (!FINE.includes(outcome)) counts.failed += 1;
  if (waitedMs !== undefined && counts.waits.length < WAITS_MAX) counts.waits.push(waitedMs);
};
const countRefusal = atMs => { secondOf(atMs).refused += 1; };
const duration = ms => ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;
const portion = (count, all) => count ? `${count} (${number(100 * count / all)} %)` : "0";
const drawPace = atMs => {
  const now = Math.floor(atMs / 1000);
  for (const second of seconds.keys()) if (second <= now - MINUTE_S) seconds.delete(second);
  const known = Math.min(MINUTE_S, now + 1 - Math.floor(knownFromMs / 1000));
  if (!caughtUp || known < 1) return;
  const all = [...seconds.values()];
  const sum = key => all.reduce((total, counts) => total + counts[key], 0);
  const requests = sum("answered") + sum("refused");
  const waits = all.flatMap(counts => counts.waits).sort((one, other) => one - other);
  const wait = part => duration(waits[Math.floor(part * waits.length)]);
  at("rate").textContent = `${number(requests / known)}/s`;
  at("failed").textContent = portion(sum("failed"), requests);
  at("refused").textContent = portion(sum("refused"), requests);
  at("waits").textContent = waits.length ? `${wait(.5)} · ${wait(.95)}` : "–";
};
