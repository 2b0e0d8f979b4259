// The boards of a run: a card each, that opens on a click.

const cards = new Map();
let detailed = false;
const QUIET = 20;  // a board that has nothing to do reports every 15 s
const SOON = 6;    // one that is waited for should report sooner, if it did so before

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
    if (stale.has(`board:${name}`) || stale.has("now")) fillCard(cards.get(name), sections.get(`board:${name}`));
  });
  const here = names.filter(name => sections.get(`board:${name}`).here).length, lost = names.length - here;
  const more = (sections.get("now") || {}).more_boards;
  put($("fleet-count"), names.length ? `${here} here${lost ? ` · ${lost} lost` : ""}${more ? ` · and ${more} more` : ""}` : "");
  put($("t-boards"), names.length ? `${here} / ${names.length}` : "–");
  put($("t-boards-more"), lost ? `${lost} lost` : names.length ? "all here" : "none yet");
  drawSilence();
}

function makeCard(name) {
  const root = el("button", undefined, "board"), card = {root, name, gap: 0};
  root.type = "button";
  root.dataset.board = name;
  root.addEventListener("click", () => openBoard(name));
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
  if (card.board && board.seen > card.board.seen) card.gap = Math.max(0.95 * card.gap, board.seen - card.board.seen);
  card.board = board;
  const idle = {done: "nothing left to do", waiting: "waits for work", missing: "waits for the weights"}[board.doing];
  let words = idle || "\u00a0", share = board.selected ? board.sent / board.selected : board.testers ? board.measured / board.testers : 0;
  const over = (sections.get("now") || {}).finished;
  if (board.problem) words = board.problem;
  else if (over && board.here) words = "the run is over";
  else if (!board.here) words = `last seen ${clock(board.seen)}`;
  else if (board.client !== null && !idle) {
    words = `client ${board.client}` + (board.epochs && board.doing === "training" ? ` · epoch ${board.epoch}/${board.epochs}` : "");
    if (board.doing === "training" && board.epochs && board.selected) share = Math.min(1, (board.sent + board.epoch / board.epochs) / board.selected);
  }
  card.words = words;
  card.idle = Boolean(idle || over) && board.here && !board.problem;
  card.now.title = board.problem || board.host;
  put(card.sent, over ? "" : board.selected ? `${board.sent}/${board.selected} updates` : board.testers ? `${board.measured}/${board.testers} tested` : "");
  card.meter.style.width = `${over ? 0 : 100 * share}%`;
  put(card.clients, `${board.count === 1 ? "client" : "clients"} ${board.clients}`);
  const memory = t.memory_total ? `${bytes(t.memory_used)} of ${bytes(t.memory_total)}` : "";
  const words2 = [t.celsius === undefined ? "" : `${t.celsius.toFixed(0)} °C`, t.watts === undefined ? "" : `${t.watts.toFixed(1)} W`, memory,
    t.load === undefined ? "" : `load ${t.load.toFixed(1)}${t.cpus ? `/${t.cpus}` : ""}`].filter(Boolean);
  put(card.hw, words2.join(" · ") || (source.live ? "no sensors" : ""));
  card.hw.title = t.disk_free === undefined ? "" : `${bytes(t.disk_free, true)} of disk free`;
  put(card.hot, t.throttled ? "throttled" : "");
  card.hot.title = t.why || "";
}

// For how long a board has been silent, if that is longer than it should be.
function silence(card) {
  const at = sections.get("now") || {}, board = card.board;
  if (!source.live || !at.going_on || !board.here || board.host === "simulation") return 0;
  const waited = (at.waits_on || []).includes(card.name), quiet = now() - board.seen;
  return quiet > (waited ? Math.min(QUIET, Math.max(SOON, 1.5 * card.gap)) : QUIET) ? quiet : 0;
}

function drawSilence() {
  for (const card of cards.values()) {
    if (!card.board) continue;
    const board = card.board, quiet = silence(card);
    card.silent = quiet > 0;
    card.root.dataset.state = !board.here ? "lost" : quiet ? "silent" : board.problem || (board.telemetry || {}).throttled ? "trouble" : "here";
    put(card.state, quiet ? "silent" : board.here && (sections.get("now") || {}).finished ? "done" : board.doing);
    put(card.now, quiet ? `nothing heard for ${Math.round(quiet)} s` : card.words);
    card.now.dataset.idle = card.idle && !quiet;
    put(card.seen, ago(now() - board.seen));
  }
}

const silentBoards = () => [...cards.values()].filter(card => card.silent).map(card => card.name);
