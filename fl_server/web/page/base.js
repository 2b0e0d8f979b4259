"use strict";
// What all files of the page use: nodes, numbers as people say them, requests.

const NS = "http://www.w3.org/2000/svg";
const $ = id => document.getElementById(id);

function svg(name, attributes, parent) {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (parent) parent.append(node);
  return node;
}

// Text from outside becomes text, never markup.
function el(name, text, className) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function button(text, title, click) {
  const node = el("button", text, "word");
  node.type = "button";
  node.title = title;
  node.addEventListener("click", click);
  return node;
}

const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const natural = (a, b) => a.localeCompare(b, "en", {numeric: true});
const capital = name => name[0].toUpperCase() + name.slice(1);

// numbers; `fine` is for a single one, without it for the ticks of an axis

const percent = (v, fine) => v === undefined || v === null ? "–" : `${(100 * v).toFixed(fine ? 1 : 0)} %`;
const number = v => v === undefined || v === null ? "–" : Math.abs(v) >= 100 ? v.toFixed(0) : Math.abs(v) >= 1 ? v.toFixed(2).replace(/\.?0+$/, "") : v === 0 ? "0" : v.toPrecision(2).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
function bytes(v, fine) {
  if (v === undefined || v === null) return "–";
  const unit = ["B", "kB", "MB", "GB", "TB"], at = Math.min(4, v < 1 ? 0 : Math.floor(Math.log10(v) / 3)), scaled = v / 1000 ** at;
  return `${fine || scaled % 1 ? scaled.toFixed(scaled < 100 && at ? 1 : 0) : scaled} ${unit[at]}`;
}
const seconds = (v, fine) => v === undefined || v === null ? "–" : v >= 60 ? span(v) : `${fine ? (v < 10 ? v.toFixed(2) : v.toFixed(1)) : number(v)} s`;
const joules = v => v >= 1e6 ? `${number(v / 1e6)} MJ` : v >= 1e3 ? `${number(v / 1e3)} kJ` : `${number(v)} J`;
function span(v) {
  const s = Math.max(0, Math.round(v)), h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60, two = n => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s % 60)}` : `${m}:${two(s % 60)}`;
}
const ago = v => v < 90 ? `${Math.max(0, Math.round(v))} s ago` : v < 5400 ? `${Math.round(v / 60)} min ago` : v < 129600 ? `${Math.round(v / 3600)} h ago` : `${Math.round(v / 86400)} days ago`;
const clock = time => new Date(time * 1000).toLocaleTimeString("en-GB");
function when(time) {
  const date = new Date(time * 1000), two = n => String(n).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

// the server's time, and what it answers

let offset = 0;
const now = () => Date.now() / 1000 + offset;

function address(path, asked = {}) {
  const query = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(asked)) for (const one of [value].flat()) query.append(key, one);
  return `${path}?${query}`;
}

async function get(path, asked) {
  const answer = await fetch(address(path, asked));
  if (!answer.ok) throw new Error((await answer.text()).trim() || `the server answers ${answer.status}`);
  return answer.json();
}

function link(state, words) {
  document.body.dataset.link = state;
  put($("link-text"), words || (state === "live" ? "live" : "reconnecting"));
}

// A file for the person, made here.
function save(name, blob) {
  const anchor = el("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10000);
}
