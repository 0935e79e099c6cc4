/* What is wrong with pools and replicas now, above everything else; nothing is shown while all is well. */
const troubleOf = replica => {
  const said = [];
  if (replica.state !== "LIVE") {
    const cause = replica.state === "EJECTED" ? ejectCauses.get(replica.name) : "";
    said.push(`is ${replica.state}${cause ? ` (${cause})` : ""}`);
  }
  if (replica.stalled) said.push("is stalled: it runs requests but generates no token");
  if (!said.length) return [];
  const words = element("span", `${replica.name} ${said.join(", ")}`, replica.state);
  if (replica.cooldown_s) {
    const shown = element("span");
    words.append(", cooldown ", shown);
    cooldowns.push([shown, performance.now() + replica.cooldown_s * 1000]);
  }
  const made = element("li", swatch(replica.name));
  made.append(words);
  return [made];
};
const unservedBy = pool => {
  if (pool.routable || !pool.replicas) return [];
  return [element("li", element("span",
    `nobody serves ${pool.model}: 0 of ${plural(pool.replicas, "replica")} routable`,
    "EJECTED"))];
};
const showWrong = state => {
  const made = state.pools.flatMap(unservedBy).concat(state.replicas.flatMap(troubleOf));
  at("troubles").replaceChildren(...made);
  at("wrong").hidden = !made.length;
  countDown();
};
