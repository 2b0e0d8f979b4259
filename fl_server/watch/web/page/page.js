// The page: keeps the sections that the server sends, and draws those that have changed.

const $ = id => document.getElementById(id);
const sections = new Map(), stale = new Set(), cards = new Map();
const MOST_LANES = 400;  // a canvas has a largest height
let detailed = false, offset = 0, heard = Date.now(), source = null, asked = false;

// values as people say them

const percent = (v, fine) => v === undefined ? "–" : `${(100 * v).toFixed(fine ? 1 : 0)} %`;
const number = v => v === undefined ? "–" : v >= 100 ? v.toFixed(0) : v >= 1 ? v.toFixed(2).replace(/\.?0+$/, "") : v === 0 ? "0" : v.toPrecision(2).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
function bytes(v, fine) {
  if (v === undefined) return "–";
  const unit = ["B", "kB", "MB", "GB", "TB"], at = Math.min(4, v < 1 ? 0 : Math.floor(Math.log10(v) / 3)), scaled = v / 1000 ** at;
  return `${fine || scaled % 1 ? scaled.toFixed(scaled < 100 && at ? 1 : 0) : scaled} ${unit[at]}`;
}
const seconds = (v, fine) => v === undefined ? "–" : v >= 60 && fine ? span(v) : `${fine ? (v < 10 ? v.toFixed(2) : v.toFixed(1)) : number(v)} s`;
function span(v) {
  const s = Math.max(0, Math.round(v)), h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60, two = n => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s % 60)}` : `${m}:${two(s % 60)}`;
}
const ago = v => v < 90 ? `${Math.max(0, Math.round(v))} s ago` : v < 5400 ? `${Math.round(v / 60)} min ago` : `${Math.round(v / 3600)} h ago`;
const now = () => Date.now() / 1000 + offset;
const words = name => name[0].toUpperCase() + name.slice(1);
const natural = (a, b) => a.localeCompare(b, "en", {numeric: true});
const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };
const of = prefix => [...sections.keys()].filter(key => key.startsWith(prefix));

// what the server says

function take(message) {
  heard = Date.now();
  offset = message.now - heard / 1000;
  for (const [key, value] of Object.entries(message.set)) { sections.set(key, value); stale.add(key); }
  for (const key of message.gone) { sections.delete(key); stale.add(key); }
  if (!asked) { asked = true; requestAnimationFrame(draw); }
}

function connect() {
  source?.close();
  source = new EventSource(`events${location.search}`);
  source.addEventListener("snapshot", event => {
    for (const key of sections.keys()) stale.add(key);
    sections.clear();
    link("live");
    take(JSON.parse(event.data));
  });
  source.addEventListener("change", event => take(JSON.parse(event.data)));
  source.addEventListener("beat", event => { heard = Date.now(); offset = Number(event.data) - heard / 1000; });
  source.addEventListener("seat", event => {  // proves that we read: who does not may lose the seat
    const query = new URLSearchParams(location.search);
    query.set("seat", event.data);
    fetch(`read?${query}`).catch(() => {});
  });
  source.onerror = () => {
    link("away");
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  };
}

function link(state) {
  document.body.dataset.link = state;
  put($("link-text"), state === "live" ? "live" : "reconnecting");
}

// drawing

const charts = [
  new Chart($("c-main"), {title: "Accuracy", format: percent, top: 1, empty: "known when the first model is tested", series: [
    {key: "main_global", label: "global", colour: "blue"},
    {key: "main_l1", label: "personal", colour: "orange", dash: "7 7"},
    {key: "main_l2", label: "after own training", colour: "green", dash: "3 3"}]}),
  new Chart($("c-loss"), {title: "Loss", format: number, empty: "known after the first round", series: [
    {key: "train_loss", label: "training, mean of the clients", colour: "purple"},
    {key: "loss_global", label: "test, global", colour: "blue", dash: "5 4"}]}),
  new Chart($("c-bytes"), {title: "Bytes per round", format: bytes, log: true, empty: "known after the first round", series: [
    {key: "bytes_up", label: "up", colour: "blue"}, {key: "bytes_down", label: "down", colour: "orange", dash: "5 4"}]}),
  new Chart($("c-seconds"), {title: "Seconds per round", format: seconds, log: true, empty: "known after the first round",
    series: [{key: "seconds", label: "from open to closed", colour: "green"}]}),
];
const gantt = new Gantt($("gantt"));

function draw() {
  asked = false;
  const changed = prefix => [...stale].some(key => key.startsWith(prefix));
  if (changed("run") || changed("now")) drawHead();
  if (changed("run")) drawExperiment();
  if (changed("line:") || changed("run")) drawLines();
  if (changed("note:")) drawLog();
  if (changed("board:") || changed("now")) drawFleet();
  if (changed("lane:") || changed("marks") || changed("board:")) drawTimeline();
  stale.clear();
}

function drawHead() {
  const run = sections.get("run") || {}, at = sections.get("now") || {};
  document.title = run.title ? `${run.title} · fedbed` : "fedbed";
  put($("title"), run.title || "No run yet");
  let phase = at.phase, tone = "work";
  if (at.broker) [phase, tone] = ["broker away", "bad"];
  else if (!run.run) [phase, tone] = ["waiting for an experiment", "quiet"];
  else if (at.finished) tone = "good";
  else if (at.coordinator === false) [phase, tone] = ["interrupted", "bad"];
  else if (!at.round) tone = "quiet";
  put($("phase"), phase || "");
  $("phase").dataset.tone = tone;
  const share = Math.round(100 * (at.share || 0));
  $("done").style.width = `${100 * (at.share || 0)}%`;
  $("track").setAttribute("aria-valuenow", share);
  let words = "\u00a0";
  if (at.round) {
    const testing = at.round > run.rounds;
    words = testing ? `${run.rounds} rounds` : `round ${at.round} of ${run.rounds}`;
    if (!at.finished) words += testing ? ` · ${at.measured}/${at.testers} tested` : ` · ${at.safe}/${at.selected} updates`;
  } else if (run.rounds) words = `${run.rounds} rounds`;
  put($("at"), words);
  put($("run-id"), run.run || "");
  drawClock();
}

function drawClock() {
  const at = sections.get("now") || {};
  let words = "\u00a0";
  if (at.going_on && at.started) {
    words = span(now() - at.started);
    if (at.seconds_left) words += ` · about ${span(at.seconds_left)} left`;
  } else if (at.finished) words = "finished";
  put($("clock"), words);
}

function drawLines() {
  const lines = of("line:").map(key => ({round: Number(key.slice(5)), ...sections.get(key)})).sort((a, b) => a.round - b.round);
  const main = (sections.get("run") || {}).main || {name: "accuracy", lower: false, share: true}, show = main.share ? percent : number;
  charts[0].rename(words(main.name), show, main.share ? 1 : undefined);
  put($("t-global-name"), `Global ${main.name}`);
  put($("t-personal-name"), `Personal ${main.name}`);
  for (const chart of charts) chart.draw(lines);
  const tested = lines.filter(line => line.main_global !== undefined || line.main_l1 !== undefined), last = tested[tested.length - 1] || {};
  const trained = lines.filter(line => line.seconds !== undefined), done = trained[trained.length - 1] || {};
  put($("t-global"), show(last.main_global, true));
  const values = tested.map(line => line.main_global).filter(value => value !== undefined);
  const best = values.length ? (main.lower ? Math.min : Math.max)(...values) : undefined;
  put($("t-global-more"), tested.length ? `best ${show(best, true)}` : "not tested yet");
  put($("t-personal"), show(last.main_l2 ?? last.main_l1, true));
  put($("t-personal-more"), last.main_l1 === undefined ? "after own training" : `${show(last.main_l1, true)} before training`);
  put($("t-loss"), number(done.train_loss));
  put($("t-loss-more"), done.updates === undefined ? "mean of the round" : `mean of ${done.updates} updates`);
  put($("t-seconds"), seconds(done.seconds, true));
  put($("t-seconds-more"), done.energy_joules === undefined ? "last round" : `${number(done.energy_joules)} J of training`);
  put($("t-bytes"), done.bytes_up === undefined ? "–" : bytes(done.bytes_up + done.bytes_down, true));
  put($("t-bytes-more"), done.bytes_up === undefined ? "up and down, last round" : `${bytes(done.bytes_up, true)} ↑  ${bytes(done.bytes_down, true)} ↓`);
}

function drawLog() {
  const log = $("log"), notes = of("note:").sort((a, b) => Number(b.slice(5)) - Number(a.slice(5)));
  $("log-empty").hidden = notes.length > 0;
  const wanted = new Set(notes);
  for (const item of [...log.children]) if (!wanted.has(item.dataset.key)) item.remove();
  const there = new Set([...log.children].map(item => item.dataset.key));
  for (const key of notes.filter(key => !there.has(key)).reverse()) {
    const note = sections.get(key), item = el("li"), time = el("time", new Date(note.time * 1000).toLocaleTimeString("en-GB"));
    item.dataset.key = key;
    item.dataset.loud = note.loud;
    item.append(time, el("span", note.text));
    log.prepend(item);
  }
}

function drawFleet() {
  const names = of("board:").map(key => key.slice(6)).sort(natural), fleet = $("fleet");
  $("fleet-empty").hidden = names.length > 0;
  $("dense").hidden = names.length <= 24;
  fleet.dataset.many = names.length > 24 && !detailed;
  for (const [name, card] of cards) if (!sections.has(`board:${name}`)) { card.root.remove(); cards.delete(name); }
  names.forEach((name, at) => {
    if (!cards.has(name)) cards.set(name, makeCard(name));
    const root = cards.get(name).root;
    if (fleet.children[at] !== root) fleet.insertBefore(root, fleet.children[at] || null);
    if (stale.has(`board:${name}`)) fillCard(cards.get(name), sections.get(`board:${name}`));
  });
  const here = names.filter(name => sections.get(`board:${name}`).here).length, lost = names.length - here;
  const more = (sections.get("now") || {}).more_boards;
  put($("fleet-count"), names.length ? `${here} here${lost ? ` · ${lost} lost` : ""}${more ? ` · and ${more} more` : ""}` : "");
  put($("t-boards"), names.length ? `${here} / ${names.length}` : "–");
  put($("t-boards-more"), lost ? `${lost} lost` : names.length ? "all here" : "none yet");
}

function makeCard(name) {
  const root = el("article", undefined, "board"), card = {root};
  root.dataset.board = name;
  const row = (className, ...nodes) => { const line = el("div", undefined, className); line.append(...nodes); root.append(line); };
  row("", el("strong", name), card.state = el("em"));
  row("", card.now = el("span", "", "now"), card.sent = el("span", "", "dim wide"));
  row("meter", card.meter = el("i"));
  row("wide", card.clients = el("span", "", "dim"), card.seen = el("span", "", "dim"));
  row("wide", card.hw = el("span", "", "hw"), card.hot = el("span", "", "hot"));
  return card;
}

function fillCard(card, board) {
  const t = board.telemetry || {};
  card.board = board;
  card.root.dataset.state = !board.here ? "lost" : board.problem || t.throttled ? "trouble" : "here";
  put(card.state, board.doing);
  const idle = {done: "nothing left to do", waiting: "waits for work", missing: "waits for the weights"}[board.doing];
  let words = idle || "\u00a0", share = board.selected ? board.sent / board.selected : board.testers ? board.measured / board.testers : 0;
  if (board.problem) words = board.problem;
  else if (!board.here) words = `last seen ${new Date(board.seen * 1000).toLocaleTimeString("en-GB")}`;
  else if (board.client !== null && !idle) {
    words = `client ${board.client}` + (board.epochs && board.doing === "training" ? ` · epoch ${board.epoch}/${board.epochs}` : "");
    if (board.doing === "training" && board.epochs && board.selected) share = Math.min(1, (board.sent + board.epoch / board.epochs) / board.selected);
  }
  put(card.now, words);
  card.now.dataset.idle = Boolean(idle) && board.here && !board.problem;
  card.now.title = board.problem || board.host;
  put(card.sent, board.selected ? `${board.sent}/${board.selected} updates` : board.testers ? `${board.measured}/${board.testers} tested` : "");
  card.meter.style.width = `${100 * share}%`;
  put(card.clients, `${board.count === 1 ? "client" : "clients"} ${board.clients}`);
  const memory = t.memory_total ? `${bytes(t.memory_used)} of ${bytes(t.memory_total)}` : "";
  const words2 = [t.celsius === undefined ? "" : `${t.celsius.toFixed(0)} °C`, t.watts === undefined ? "" : `${t.watts.toFixed(1)} W`, memory,
    t.load === undefined ? "" : `load ${t.load.toFixed(1)}${t.cpus ? `/${t.cpus}` : ""}`].filter(Boolean);
  put(card.hw, words2.join(" · ") || "no sensors");
  card.hw.title = t.disk_free === undefined ? "" : `${bytes(t.disk_free, true)} of disk free`;
  put(card.hot, t.throttled ? "throttled" : "");
  card.hot.title = t.why || "";
  put(card.seen, ago(now() - board.seen));
}

function drawTimeline() {
  const all = of("lane:").map(key => key.slice(5)).sort(natural), at = sections.get("now") || {}, names = all.slice(0, MOST_LANES);
  const lanes = names.map(name => [name, sections.get(`lane:${name}`), (sections.get(`board:${name}`) || {}).here !== false]);
  const marks = (sections.get("marks") || []).slice(-6), any = lanes.some(([, spans]) => spans.length);
  $("gantt-empty").hidden = any;
  $("gantt-box").hidden = !any;
  const ends = lanes.flatMap(([, spans]) => spans.map(s => s[4] ?? 0)), end = ends.reduce((a, b) => Math.max(a, b), 0);
  put($("gantt-more"), all.length > names.length ? `and ${all.length - names.length} more boards` : "");
  if (any) gantt.draw(lanes, marks, at.going_on ? now() : end + 0.2);
}

function drawExperiment() {
  const experiment = (sections.get("run") || {}).experiment || {}, box = $("experiment");
  $("experiment-empty").hidden = Object.keys(experiment).length > 0;
  box.replaceChildren(...Object.entries(experiment).map(([name, settings]) => {
    const part = el("div"), list = el("dl");
    for (const [key, value] of Object.entries({...settings, ...settings.options})) {
      if (key === "options") continue;
      list.append(el("dt", key.replaceAll("_", " ")), el("dd", Array.isArray(value) ? value.join(", ") : String(value)));
    }
    part.append(el("h3", name), list);
    return part;
  }));
}

$("dense").addEventListener("click", () => {
  detailed = !detailed;
  put($("dense"), detailed ? "show less" : "show details");
  drawFleet();
});

// dark and light

function theme(name) {
  document.documentElement.dataset.theme = name;
  drawLines();
  drawTimeline();
}
const dark = matchMedia("(prefers-color-scheme: dark)");
const chosen = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
theme(chosen() || (dark.matches ? "dark" : "light"));
dark.addEventListener("change", () => { if (!chosen()) theme(dark.matches ? "dark" : "light"); });
$("theme").addEventListener("click", () => {
  const other = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("theme", other); } catch { /* not kept */ }
  theme(other);
});

// time passes

setInterval(() => {
  drawClock();
  for (const card of cards.values()) if (card.board) put(card.seen, ago(now() - card.board.seen));
  if ((sections.get("now") || {}).going_on) requestAnimationFrame(drawTimeline);
  if (Date.now() - heard > 15000) { heard = Date.now(); link("away"); connect(); }
}, 1000);
new ResizeObserver(() => drawTimeline()).observe($("gantt-box").parentElement);
connect();
