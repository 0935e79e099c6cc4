"use strict";
/* Small makers of elements and texts. What the router tells enters as text, never as markup. */
const at = id => document.getElementById(id);
const number = (value, digits = 1) =>
  value === null ? "–" : Number.isInteger(value) ? String(value) : value.toFixed(digits);
const plural = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;
const element = (tag, content = "", name = "") => {
  const made = document.createElement(tag);
  made.append(content);
  if (name) made.className = name;
  return made;
};
/* A cell knows its column's name: on a narrow screen it stands beside the value. */
const cell = (label, content, name = "") => {
  const made = element("td", content, name);
  made.dataset.label = label;
  return made;
};
const clock = ms => new Date(ms).toLocaleTimeString([], {hour12: false});
const moment = ms => {
  const made = element("time", clock(ms));
  made.dateTime = new Date(ms).toISOString();
  made.title = new Date(ms).toLocaleString();
  return made;
};
/* The golden angle: neighbours differ however many there are. */
const colours = new Map();
const colour = name => {
  if (!colours.has(name)) colours.set(name, `hsl(${(colours.size * 137.5 + 210) % 360} 60% 55%)`);
  return colours.get(name);
};
const swatch = name => {
  const made = element("span", "", "swatch");
  made.style.backgroundColor = colour(name);
  made.setAttribute("aria-hidden", "true");
  return made;
};
/* Newest first; what stays is not touched, so a focused row keeps its focus. */
const prepend = (list, made, most) => {
  list.prepend(made);
  while (list.children.length > most) list.lastElementChild.remove();
};
