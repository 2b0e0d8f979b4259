// One board, and one of its clients, beside the page: asked for again while it is open.

const drawer = {board: "", client: null, timer: 0, charts: null};
const sample = ([time, celsius, throttled, memory, load, watts]) => ({time, celsius, throttled, memory, load, watts});

function openBoard(name) {
  drawer.board = name;
  drawer.client = null;
  $("drawer").hidden = false;
  document.body.dataset.drawer = "open";
  put($("d-name"), name);
  $("d-body").scrollTop = 0;
  $("d-client").hidden = true;
  drawer.charts ??= makeCharts();
  clearTimeout(drawer.timer);
  loadBoard();
}

function closeDrawer() {
  drawer.board = "";
  clearTimeout(drawer.timer);
  $("drawer").hidden = true;
  delete document.body.dataset.drawer;
}

function makeCharts() {
  const box = $("d-telemetry"), make = (key, title, format, more = {}) => {
    const figure = el("figure");
    figure.dataset.key = key;
    box.append(figure);
    return new Chart(figure, {title, format, x: "time", xFormat: clock, head: clock, series: [{key, label: "", colour: more.colour || "blue"}], ...more});
  };
  const rounds = el("figure");
  $("d-rounds").append(rounds);
  return {
    telemetry: [
      make("celsius", "Temperature", v => `${number(v)} °C`, {colour: "red", mark: "throttled"}),
      make("load", "Load", number, {low: 0}), make("memory", "Memory", bytes, {colour: "purple", low: 0}),
      make("watts", "Power", v => `${number(v)} W`, {colour: "orange", low: 0})],
    rounds: new Chart(rounds, {title: "Seconds of each round", format: seconds, low: 0, head: x => `round ${x}`, series: [
      {key: "seconds", label: "until its last update", colour: "green"}, {key: "busy", label: "training, all clients", colour: "blue", dash: "5 4"}]}),
  };
}

async function loadBoard() {
  const name = drawer.board;
  try {
    const found = await get("board", {board: name, run: source.live && !source.name ? "" : source.name});
    if (name === drawer.board) drawBoard(found);
  } catch (error) { if (name === drawer.board) put($("d-note"), error.message); }
  if (name && name === drawer.board) drawer.timer = setTimeout(loadBoard, 2000);
}

function drawBoard(found) {
  const card = cards.get(found.board), main = (sections.get("run") || {}).main || {name: "accuracy", share: true}, show = main.share ? percent : number;
  put($("d-state"), card?.state.textContent || "");
  $("d-state").dataset.tone = {here: "good", lost: "bad", silent: "warn", trouble: "warn"}[card?.root.dataset.state] || "quiet";
  put($("d-host"), card?.board?.host || "");
  const lines = found.samples.map(sample), hot = lines.some(line => line.throttled);
  for (const chart of drawer.charts.telemetry) {
    const known = lines.some(line => line[chart.series[0].key] !== null);
    chart.figure.hidden = !known;
    if (known) chart.draw(lines);
  }
  put($("d-note"), lines.length ? (hot ? "Red points: times at which it was throttled." : "") : "No telemetry: the page has it of boards that it has seen live, with sensors.");
  $("d-rounds").hidden = !found.rounds.length;
  drawer.charts.rounds.draw(found.rounds);
  const personal = found.clients.some(c => c.main_l1 !== undefined || c.main_l2 !== undefined);
  const heads = ["client", "samples", "global", ...(personal ? ["personal", "after training"] : [])];
  fillTable($("d-clients"), heads, found.clients.map(c => ({
    cells: [c.client, c.samples ?? c.tested ?? "–", show(c.main_global, true), ...(personal ? [show(c.main_l1, true), show(c.main_l2, true)] : [])],
    chosen: c.client === drawer.client, click: () => openClient(c.client)})));
  put($("d-more"), found.more_clients ? `and ${found.more_clients} more clients` : "");
  const items = found.notes.slice().reverse().map(([time, text]) => { const item = el("li"); item.append(el("time", clock(time)), el("span", text)); return item; });
  $("d-notes").replaceChildren(...items);
  $("d-calm").hidden = items.length > 0;
  $("d-log-box").hidden = !found.log.length;
  put($("d-log"), found.log.join("\n"));
}

function fillTable(table, heads, rows) {
  const head = el("tr");
  head.append(...heads.map(text => el("th", text)));
  const body = rows.map(({cells, chosen, click}) => {
    const row = el("tr");
    row.append(...cells.map(text => el("td", String(text))));
    row.dataset.chosen = Boolean(chosen);
    if (click) { row.tabIndex = 0; row.addEventListener("click", click); row.addEventListener("keydown", event => { if (event.key === "Enter") click(); }); }
    return row;
  });
  const thead = el("thead"), tbody = el("tbody");
  thead.append(head); tbody.append(...body);
  table.replaceChildren(thead, tbody);
}

async function openClient(client) {
  drawer.client = client;
  for (const row of $("d-clients").tBodies[0]?.rows || []) row.dataset.chosen = row.cells[0].textContent === String(client);
  let found = {lines: [], classes: []};
  try { found = await get("client", {client, run: source.live && !source.name ? "" : source.name}); } catch (error) { say(error.message, true); }
  if (drawer.client !== client) return;
  const main = (sections.get("run") || {}).main || {name: "accuracy", share: true};
  $("d-client").hidden = false;
  put($("d-client-name"), `Client ${client}`);
  drawer.client_chart ??= new Chart($("d-client-chart"), {title: "", format: number, settled: true, empty: "not tested yet", series: charts[0].series});
  drawer.client_chart.rename(capital(main.name), main.share ? percent : number);
  drawer.client_chart.draw(found.lines);
  const most = Math.max(1, ...found.classes), total = found.classes.reduce((a, b) => a + b, 0);
  put($("d-classes-name"), total ? `${total} samples by class` : "Its classes are not known here.");
  $("d-classes").replaceChildren(...found.classes.map((count, label) => {
    const bar = el("div"), fill = el("i");
    fill.style.height = `${100 * count / most}%`;
    bar.title = `class ${label}: ${count} samples`;
    bar.append(fill, el("span", label));
    return bar;
  }));
  $("d-client").scrollIntoView({block: "nearest"});
}

$("d-close").addEventListener("click", closeDrawer);
document.addEventListener("keydown", event => { if (event.key === "Escape") closeDrawer(); });
