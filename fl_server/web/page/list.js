// All runs of the folder, and the queue; rows can be chosen to be compared.

const listed = {lines: [], queue: [], chosen: new Set(), timer: 0, sort: "changed", down: true, text: ""};
const COLUMNS = [
  ["name", "run"], ["state", "state"], ["algorithm", "algorithm"], ["dataset", "dataset"], ["seed", "seed"],
  ["done", "rounds"], ["best", "best"], ["digest", "model"], ["changed", "changed"]];

async function loadRuns() {
  clearTimeout(listed.timer);
  try {
    const found = await get("runs");
    offset = found.now - Date.now() / 1000;
    Object.assign(listed, found);
    site.live = found.live;
    drawNav();
    link("live");
    drawRuns();
  } catch { link("away"); }
  if (route.view === "runs") listed.timer = setTimeout(loadRuns, 3000);
}
const refreshSoon = () => { if (route.view === "runs") { clearTimeout(listed.timer); listed.timer = setTimeout(loadRuns, 1100); } };

function drawRuns() {
  put($("title"), "Runs");
  put($("subtitle"), listed.folder || "");
  document.title = "runs · fedbed";
  const words = listed.text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = line => words.every(word => [line.name, line.state, line.algorithm, line.dataset, `seed${line.seed}`].some(text => text.toLowerCase().includes(word)));
  const key = listed.sort, rows = listed.lines.filter(fits).sort((a, b) => (listed.down ? -1 : 1) *
    (typeof a[key] === "string" ? natural(a[key], b[key]) : (a[key] ?? -Infinity) - (b[key] ?? -Infinity)));
  const head = el("tr"), all = el("input");
  all.type = "checkbox"; all.title = "choose all that are shown";
  all.checked = rows.length > 0 && rows.every(line => listed.chosen.has(line.name));
  all.addEventListener("change", () => { for (const line of rows) listed.chosen[all.checked ? "add" : "delete"](line.name); drawRuns(); });
  const first = el("th"); first.append(all); head.append(first);
  for (const [field, name] of COLUMNS) {
    const cell = el("th"), sort = el("button", name + (field === key ? (listed.down ? " ↓" : " ↑") : ""), "sort");
    sort.type = "button";
    sort.addEventListener("click", () => { listed.down = listed.sort === field ? !listed.down : ["changed", "best", "done"].includes(field); listed.sort = field; drawRuns(); });
    cell.dataset.field = field;
    cell.append(sort); head.append(cell);
  }
  head.append(el("th"));
  const body = el("tbody"), thead = el("thead");
  thead.append(head);
  body.append(...rows.map(runRow));
  $("runs-table").replaceChildren(thead, body);
  $("runs-empty").hidden = listed.lines.length > 0;
  put($("runs-count"), `${listed.lines.length}${rows.length < listed.lines.length ? `, ${rows.length} shown` : ""}`);
  for (const name of listed.chosen) if (!listed.lines.some(line => line.name === name)) listed.chosen.delete(name);
  $("compare-go").disabled = !listed.chosen.size;
  put($("compare-go"), listed.chosen.size ? `Compare ${listed.chosen.size}` : "Compare");
  put($("problems"), listed.problems?.length ? `cannot be read: ${listed.problems.join("; ")}` : "");
  drawQueue();
}

function runRow(line) {
  const row = el("tr"), pick = el("input"), name = el("a", line.name), live = line.name === listed.live;
  row.dataset.run = line.name;
  pick.type = "checkbox"; pick.checked = listed.chosen.has(line.name); pick.setAttribute("aria-label", `choose ${line.name}`);
  pick.addEventListener("change", () => { listed.chosen[pick.checked ? "add" : "delete"](line.name); drawRuns(); });
  name.href = `#/run/${encodeURIComponent(line.name)}`;
  const controlState = line.state === "running" ? {pause: "paused", stop: "stopping"}[listed.requests?.[line.name]] || "" : "";
  const state = el("span", controlState || (live && line.state === "running" ? "live" : line.state), "pill");
  state.dataset.tone = controlState ? "warn" : {finished: "good", running: "work", unfinished: "quiet"}[line.state] || "quiet";
  const share = el("span", `${line.done} of ${line.of}`, "share"), bar = el("i");
  bar.style.width = `${100 * line.done / Math.max(1, line.of)}%`;
  share.append(bar);
  const best = line.best === null ? "–" : `${line.main.name === "accuracy" ? "" : `${line.main.name} `}${line.main.share ? percent(line.best, true) : number(line.best)}`;
  const digest = el("code", line.digest.slice(0, 8) || "–"); digest.title = line.digest;
  const changed = el("span", ago(now() - line.changed)); changed.title = when(line.changed);
  const cells = [pick, name, state, line.algorithm, line.dataset, String(line.seed), share, best, digest, changed].map((content, at) => {
    const cell = el("td");
    cell.append(content);
    if (at) cell.dataset.field = COLUMNS[at - 1][0];
    return cell;
  });
  const last = el("td", undefined, "doing");
  last.append(...controlsOf(line.name, line.state, controlState));
  row.append(...cells, last);
  return row;
}

function drawQueue() {
  const waiting = listed.queue.filter(entry => ["waiting", "running"].includes(entry.state));
  $("queue-box").hidden = !listed.queue.length && !mayAsk();
  $("submit-open").hidden = !mayAsk();
  put($("queue-count"), listed.coordinator ? `${waiting.length} to do` : `${waiting.length} to do · nobody works on it: fl-server serve`);
  $("queue-empty").hidden = listed.queue.length > 0;
  const rows = listed.queue.slice().reverse().map(entry => {
    const row = el("tr"), state = el("span", entry.state, "pill"), run = el(entry.run && entry.state !== "waiting" ? "a" : "span", entry.run || entry.name), doing = el("td", undefined, "doing");
    row.dataset.entry = entry.id;
    state.dataset.tone = {running: "work", done: "good", failed: "bad", stopped: "warn"}[entry.state] || "quiet";
    if (run.tagName === "A") run.href = `#/run/${encodeURIComponent(entry.run)}`;
    if (mayAsk() && entry.state !== "running") doing.append(button("Remove", "take it out of the list", () => ask({do: "remove", id: entry.id}).then(refreshSoon)));
    const cells = [entry.id, state, run, entry.problem].map(content => { const cell = el("td"); cell.append(content); return cell; });
    row.append(...cells, doing);
    return row;
  });
  const body = el("tbody");
  body.append(...rows);
  $("queue-table").replaceChildren(body);
}

$("filter").addEventListener("input", () => { listed.text = $("filter").value; drawRuns(); });
$("compare-go").addEventListener("click", () => { location.hash = `#/compare/${[...listed.chosen].map(encodeURIComponent).join(",")}`; });
$("submit-open").addEventListener("click", () => { $("submit-form").hidden = !$("submit-form").hidden; if (!$("submit-form").hidden) $("submit-text").focus(); });
$("submit-file").addEventListener("change", async () => { const file = $("submit-file").files[0]; if (file) $("submit-text").value = await file.text(); });
$("submit-form").addEventListener("submit", async event => {
  event.preventDefault();
  const done = await ask({do: "submit", text: $("submit-text").value, run: $("submit-run").value.trim()});
  if (done) { $("submit-form").hidden = true; $("submit-text").value = ""; $("submit-run").value = ""; refreshSoon(); }
});
