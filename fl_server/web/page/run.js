// One run: keeps the sections that the server sends, and draws those that have changed.

const sections = new Map(), stale = new Set();
const MOST_LANES = 400;  // a canvas has a largest height
const POLL = 2000;
const source = {live: false, name: "", stream: null, timer: 0, heard: Date.now(), seen: new Map(), turn: 0};
let asked = false;
const of = prefix => [...sections.keys()].filter(key => key.startsWith(prefix));

// where sections come from: the stream of what is live, or again and again the files of a run

function take(message) {
  source.heard = Date.now();
  offset = message.now - source.heard / 1000;
  for (const [key, value] of Object.entries(message.set)) { sections.set(key, value); stale.add(key); }
  for (const key of message.gone) { sections.delete(key); stale.add(key); }
  if (!asked) { asked = true; requestAnimationFrame(draw); }
}

function forget() {
  for (const key of sections.keys()) stale.add(key);
  sections.clear();
  source.seen.clear();
}

function unfollow() {
  source.stream?.close();
  source.stream = null;
  clearTimeout(source.timer);
  source.turn += 1;
}

async function follow(name) {
  unfollow();
  const turn = source.turn;
  if (source.name !== name) { forget(); draw(); }
  source.name = name;
  if (name) await learnSite();
  if (turn !== source.turn) return;
  source.live = !name || site.live === name;
  if (source.live) listen(); else poll(turn);
}

function listen() {
  const stream = source.stream = new EventSource(address("events"));
  stream.addEventListener("snapshot", event => { forget(); link("live"); take(JSON.parse(event.data)); });
  stream.addEventListener("change", event => take(JSON.parse(event.data)));
  stream.addEventListener("beat", event => { source.heard = Date.now(); offset = Number(event.data) - source.heard / 1000; });
  stream.addEventListener("seat", event => {  // proves that we read: who does not may lose the seat
    fetch(address("read", {seat: event.data})).catch(() => {});
  });
  stream.onerror = () => {
    link("away");
    if (stream.readyState === EventSource.CLOSED && stream === source.stream) source.timer = setTimeout(() => follow(source.name), 2000);
  };
}

async function poll(turn) {
  try {
    const message = await get("snapshot", {run: source.name});
    if (turn !== source.turn) return;
    const set = {}, gone = of("").filter(key => !(key in message.set));
    for (const [key, value] of Object.entries(message.set)) {
      const text = JSON.stringify(value);
      if (source.seen.get(key) !== text) { source.seen.set(key, text); set[key] = value; }
    }
    for (const key of gone) source.seen.delete(key);
    take({now: message.now, set, gone});
    link("live", (message.set.now || {}).going_on ? "live" : "from disk");
  } catch (error) {
    if (turn !== source.turn) return;
    link("away");
    if (error instanceof TypeError === false) say(error.message, true);
  }
  const going = (sections.get("now") || {}).going_on;
  source.polls = (source.polls || 0) + 1;
  if (going && source.polls % 5 === 0) { await learnSite(); if (turn === source.turn && site.live === source.name) { follow(source.name); return; } }
  if (turn === source.turn) source.timer = setTimeout(() => poll(turn), going === false ? 5 * POLL : POLL);
}

// drawing

const charts = [
  new Chart($("c-main"), {title: "Accuracy", format: percent, settled: true, empty: "known when the first model is tested", series: [
    {key: "main_global", label: "global", colour: "blue"},
    {key: "main_l1", label: "personal", colour: "orange", dash: "7 7"},
    {key: "main_l2", label: "after own training", colour: "green", dash: "3 3"}]}),
  new Chart($("c-loss"), {title: "Loss", format: number, settled: true, empty: "known after the first round", series: [
    {key: "train_loss", label: "training, mean of the clients", colour: "purple"},
    {key: "loss_global", label: "test, global", colour: "blue", dash: "5 4"}]}),
  new Chart($("c-bytes"), {title: "Bytes per round", format: bytes, log: true, low: 0, empty: "known after the first round", series: [
    {key: "bytes_up", label: "up", colour: "blue"}, {key: "bytes_down", label: "down", colour: "orange", dash: "5 4"}]}),
  new Chart($("c-seconds"), {title: "Seconds per round", format: seconds, log: true, low: 0, empty: "known after the first round",
    series: [{key: "seconds", label: "from open to closed", colour: "green"}]}),
];
const gantt = new Gantt($("gantt"));

function draw() {
  asked = false;
  const run = sections.get("run");
  if (source.live && source.name && run && run.title !== source.name) { follow(source.name); return; }  // another one is live now
  if (source.live && !source.name && run && run.title !== source.title) { source.title = run.title; learnSite().then(drawHead); }
  const changed = prefix => [...stale].some(key => key.startsWith(prefix));
  if (changed("board:") || changed("now")) drawFleet();
  if (changed("run") || changed("now")) drawHead();
  if (changed("run")) drawExperiment();
  if (changed("line:") || changed("run")) drawLines();
  if (changed("note:")) drawLog();
  if (changed("lane:") || changed("marks") || changed("board:")) drawTimeline();
  stale.clear();
}

function stateOf(run, at) {
  if (at.broker) return ["broker away", "bad"];
  if (!run.run) return [source.name ? "reading" : "waiting for an experiment", "quiet"];
  if (at.finished) return ["finished", "good"];
  if (at.coordinator === false) return ["interrupted", "bad"];
  if (at.control_state) return [at.control_state, "warn"];
  return [at.phase || "", at.round ? "work" : "quiet"];
}

// Algorithm, dataset, partition, clients and seed: what a run is.
function summary(experiment) {
  const {algorithm, data, experiment: own, model} = experiment || {};
  if (!algorithm || !data || !own) return "";
  const partition = ["iid", "natural", "local", "classes"].includes(data.partition) ? data.partition : `${data.partition}(${data.alpha})`;
  return [algorithm.name, data.dataset, partition, `${data.clients} clients`, model?.name, `seed ${own.seed}`].filter(Boolean).join(" · ");
}

function drawHead() {
  const run = sections.get("run") || {}, at = sections.get("now") || {};
  if (route.view !== "run") return;
  document.title = run.title ? `${run.title} · fedbed` : "fedbed";
  put($("title"), run.title || (source.name || "No run yet"));
  put($("subtitle"), summary(run.experiment));
  const [phase, tone] = stateOf(run, at);
  put($("phase"), phase);
  $("phase").hidden = !phase;
  $("phase").dataset.tone = tone;
  $("done").style.width = `${100 * (at.share || 0)}%`;
  $("track").setAttribute("aria-valuenow", Math.round(100 * (at.share || 0)));
  put($("run-id"), run.run || "");
  const state = at.finished ? "finished" : at.going_on && run.run ? "running" : run.run ? "unfinished" : "";
  const name = source.name || site.live, key = `${name} ${state} ${at.control_state} ${mayAsk()}`;
  if ($("controls").dataset.key !== key) {
    $("controls").dataset.key = key;
    $("controls").replaceChildren(...controlsOf(name, state, at.control_state));
  }
  drawClock();
}

function drawClock() {
  if (route.view !== "run") return;
  const run = sections.get("run") || {}, at = sections.get("now") || {};
  let words = run.rounds ? `${run.rounds} rounds` : "\u00a0";
  if (at.round && at.round <= run.rounds) words = `round ${at.round} of ${run.rounds}`;
  if (at.going_on && at.waits) words += ` · ${at.waits}`;
  const silent = at.going_on ? silentBoards() : [];
  if (silent.length) words += ` · silent: ${silent.slice(0, 3).join(", ")}${silent.length > 3 ? ` and ${silent.length - 3} more` : ""}`;
  put($("at"), words);
  $("at").title = words;
  put($("clock"), timeLeft(run, at));
}

// How long it takes yet; the open round may take longer than the others did.
function timeLeft(run, at) {
  if (at.finished) {
    const total = of("line:").reduce((sum, key) => sum + (sections.get(key).seconds || 0), 0);
    return total ? `finished · ${span(total)} in rounds` : "finished";
  }
  if (!at.going_on || !at.started) return "\u00a0";
  const passed = span(now() - at.started);
  if (at.control_state === "paused") return `${passed} · paused`;
  if (!at.usual_seconds) return passed;
  const open = at.opened && at.round <= run.rounds ? now() - at.opened : 0, rest = at.usual_seconds * Math.max(0, run.rounds - at.done - (open ? 1 : 0));
  if (open > 2 * at.usual_seconds + 3) return `${passed} · this round waits for ${span(open)}, usually ${seconds(at.usual_seconds, true)} · then about ${span(rest)}`;
  return `${passed} · about ${span(rest + Math.max(0, at.usual_seconds - open))} left`;
}

function drawLines() {
  const lines = of("line:").map(key => ({round: Number(key.slice(5)), ...sections.get(key)})).sort((a, b) => a.round - b.round);
  const main = (sections.get("run") || {}).main || {name: "accuracy", lower: false, share: true}, show = main.share ? percent : number;
  charts[0].rename(capital(main.name), show);
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
  put($("t-loss-more"), done.updates === undefined ? "mean of the round" : `mean of ${done.updates} updates${done.epsilon === undefined ? "" : ` · ε ${number(done.epsilon)}`}`);
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
    const note = sections.get(key), item = el("li");
    item.dataset.key = key;
    item.dataset.loud = note.loud;
    item.append(el("time", clock(note.time)), el("span", note.text));
    log.prepend(item);
  }
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
      list.append(el("dt", key.replaceAll("_", " ")), el("dd", Array.isArray(value) ? value.join(", ") : typeof value === "object" ? JSON.stringify(value) : String(value)));
    }
    part.append(el("h3", name), list);
    return part;
  }));
}
