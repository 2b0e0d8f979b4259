// Several runs on top of each other, and the report's tables about them.

const compared = {names: [], runs: [], hidden: new Set(), tables: [], timer: 0};
const plot = new Plot($("plot"));
const AXES = {rounds: ["round", number], time: ["time in rounds", seconds], bytes: ["bytes sent and received", bytes], energy: ["energy of trainings", joules]};

async function compare(names) {
  clearTimeout(compared.timer);
  if (String(names) !== String(compared.names)) { compared.runs = []; compared.tables = []; plot.range = null; }
  compared.names = names;
  put($("title"), `${names.length} ${names.length === 1 ? "run" : "runs"} compared`);
  put($("subtitle"), names.join(", "));
  document.title = "compare · fedbed";
  try {
    const found = await get("curves", {run: names});
    if (names !== compared.names) return;
    compared.runs = found.runs;
    link("live", "from disk");
    fillChoices();
    drawCompared();
    compared.tables = (await get("tables", {run: names})).tables;
    drawTables();
    put($("compare-problem"), "");
  } catch (error) {
    if (names !== compared.names) return;
    put($("compare-problem"), error.message);
    if (error instanceof TypeError) link("away");
  }
  if (compared.runs.some(run => !run.finished)) compared.timer = setTimeout(() => { if (route.view === "compare") compare(names); }, 5000);
}

function fillChoices() {
  const main = compared.runs[0]?.main || "accuracy", metrics = [...new Set(compared.runs.flatMap(run => Object.keys(run.metrics)))];
  const rank = name => [`${main}_global`, `${main}_l1`, `${main}_l2`, "loss_global", "train_loss"].indexOf(name) + 1 || 99;
  metrics.sort((a, b) => rank(a) - rank(b) || natural(a, b));
  choices($("metric"), metrics, name => name.replaceAll("_", " "));
  choices($("axis"), Object.keys(AXES).filter(axis => compared.runs.some(run => run.axes[axis])), axis => AXES[axis][0]);
}

function choices(select, values, name) {
  const before = select.value;
  if ([...select.options].map(option => option.value).join() === values.join()) return;
  select.replaceChildren(...values.map(value => { const option = el("option", name(value)); option.value = value; return option; }));
  if (values.includes(before)) select.value = before;
}

// Names of curves: what distinguishes the runs, and the run's own name.
function label(run) {
  const several = key => new Set(compared.runs.map(one => String(one[key]))).size > 1;
  const words = [["algorithm", run.algorithm], ["dataset", run.dataset], ["partition", run.partition], ["seed", `seed ${run.seed}`]].filter(([key]) => several(key)).map(([, text]) => text);
  return words.length ? `${run.name} · ${words.join(", ")}` : run.name;
}

function seriesOf(run, at) {
  const values = run.metrics[$("metric").value] || [], places = run.axes[$("axis").value] || [];
  const points = places.map((x, i) => [x, values[i]]).filter(([x, y]) => x !== null && y !== null && y !== undefined);
  return {name: label(run), points, colour: PALETTE[at % PALETTE.length], dash: run.central ? [7, 5] : DASHES[Math.floor(at / PALETTE.length) % DASHES.length],
    hidden: compared.hidden.has(run.name), run: run.name};
}

function drawCompared() {
  const metric = $("metric").value || "", share = compared.runs.some(run => run.share) && /^(accuracy|f1|mean|union|exact)/.test(metric);
  const yFormat = metric.startsWith("bytes") ? bytes : metric.endsWith("seconds") ? seconds : share ? percent : number, [xName, xFormat] = AXES[$("axis").value] || AXES.rounds;
  const smooth = Number($("smooth").value);
  put($("smooth-value"), smooth ? smooth.toFixed(2) : "off");
  const series = compared.runs.map(seriesOf);
  plot.show(series, {smooth, logX: $("log-x").checked, logY: $("log-y").checked, xFormat, yFormat, xName, yName: metric.replaceAll("_", " ")});
  $("plot-legend").replaceChildren(...series.map(one => {
    const item = el("label"), box = el("input"), mark = el("i"), name = el("a", one.name);
    box.type = "checkbox"; box.checked = !one.hidden;
    box.addEventListener("change", () => { compared.hidden[box.checked ? "delete" : "add"](one.run); drawCompared(); });
    mark.style.borderColor = `var(--${one.colour})`;
    if (one.dash.length) mark.className = "dash";
    name.href = `#/run/${encodeURIComponent(one.run)}`;
    item.addEventListener("pointerenter", () => { plot.focus = one.run; plot.draw(); });
    item.addEventListener("pointerleave", () => { plot.focus = null; plot.draw(); });
    item.append(box, mark, name, el("small", one.points.length ? "" : "does not know it"));
    return item;
  }));
}

function drawTables() {
  const chosen = $("table-choice").value;
  choices($("table-choice"), compared.tables.map(table => table.key), key => compared.tables.find(table => table.key === key).title);
  if (compared.tables.some(table => table.key === chosen)) $("table-choice").value = chosen;
  const table = compared.tables.find(one => one.key === $("table-choice").value);
  if (!table) { $("table").replaceChildren(); put($("table-note"), ""); return; }
  fillTable($("table"), table.columns, table.rows.map(cells => ({cells})));
  for (const [row, column] of table.winners) $("table").tBodies[0].rows[row]?.cells[column]?.classList.add("winner");
  put($("table-note"), table.note);
}

// One line for each run and point, with everything that is known.
function curvesAsCsv() {
  const metrics = [...$("metric").options].map(option => option.value), axes = Object.keys(AXES);
  const quote = value => { const text = value === null || value === undefined ? "" : String(value); return /[",\n\r]|^[=+@-](?!\d)/.test(text) ? `"${text.replace(/^[=+@-]/, "'$&").replaceAll('"', '""')}"` : text; };
  const lines = [["run", "algorithm", "dataset", "seed", ...axes, ...metrics].map(quote).join(",")];
  for (const run of compared.runs)
    run.axes.rounds.forEach((_, at) => lines.push([run.name, run.algorithm, run.dataset, run.seed, ...axes.map(axis => run.axes[axis]?.[at]), ...metrics.map(metric => run.metrics[metric]?.[at])].map(quote).join(",")));
  return `${lines.join("\n")}\n`;
}

for (const id of ["metric", "axis"]) $(id).addEventListener("change", () => { plot.range = null; drawCompared(); });
for (const id of ["log-x", "log-y"]) $(id).addEventListener("change", drawCompared);
$("smooth").addEventListener("input", drawCompared);
$("zoom-out").addEventListener("click", () => plot.reset());
$("table-choice").addEventListener("change", drawTables);
$("save-csv").addEventListener("click", () => save("curves.csv", new Blob([curvesAsCsv()], {type: "text/csv"})));
$("save-png").addEventListener("click", () => plot.picture().toBlob(blob => save(`${$("metric").value}.png`, blob)));
$("save-table").addEventListener("click", () => {
  const table = compared.tables.find(one => one.key === $("table-choice").value);
  if (table) save(`${table.key}.csv`, new Blob([table.csv], {type: "text/csv"}));
});
