// Which view is shown (by what is behind the #), dark and light, and the time that passes.

const site = {home: "live", runs: false, control: false, live: "", elsewhere: ""};
const route = {view: ""};

async function learnSite() {
  try { Object.assign(site, await get("site")); } catch { link("away"); }
  drawNav();
}

function drawNav() {
  $("nav-runs").hidden = !site.runs;
  $("nav-live").hidden = !site.live && !site.elsewhere && site.runs && site.home === "runs";
}

function show(view) {
  route.view = view;
  for (const name of ["run", "runs", "compare"]) $(`v-${name}`).hidden = name !== view;
  document.body.dataset.view = view;
  closeDrawer();
  tip(null);
  if (view !== "run") { unfollow(); $("controls").replaceChildren(); delete $("controls").dataset.key; }
  if (view === "runs") loadRuns(); else clearTimeout(listed.timer);
  if (view !== "compare") clearTimeout(compared.timer);
}

function go() {
  const [, view, rest = ""] = location.hash.split("/");
  const wanted = view || (site.home === "runs" ? "runs" : "live");
  if (wanted === "runs" && site.runs) show("runs");
  else if (wanted === "compare" && site.runs) { show("compare"); compare(rest.split(",").filter(Boolean).map(decodeURIComponent)); }
  else { show("run"); follow(wanted === "run" ? decodeURIComponent(rest) : ""); drawHead(); }
  $("nav-runs").dataset.here = route.view === "runs";
  $("nav-live").dataset.here = route.view === "run" && wanted !== "run";
}

$("dense").addEventListener("click", () => {
  detailed = !detailed;
  put($("dense"), detailed ? "show less" : "show details");
  drawFleet();
});

function theme(name) {
  document.documentElement.dataset.theme = name;
  drawLines();
  drawTimeline();
  if (route.view === "compare") plot.draw();
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

setInterval(() => {
  if (route.view !== "run") return;
  drawSilence();
  drawClock();
  if ((sections.get("now") || {}).going_on) requestAnimationFrame(drawTimeline);
  if (source.live && Date.now() - source.heard > 15000) { source.heard = Date.now(); link("away"); follow(source.name); }
}, 1000);
new ResizeObserver(() => drawTimeline()).observe($("gantt-box").parentElement);
takeToken();
addEventListener("hashchange", () => { if (location.hash.startsWith("#control=")) takeToken(); go(); });
learnSite().then(go);
