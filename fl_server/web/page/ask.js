// Doing something: only with the token that came behind the # of the URL, and only by POST.

const right = {token: ""};

function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("control");
  try {
    if (found) sessionStorage.setItem("control", found);
    right.token = found || sessionStorage.getItem("control") || "";
  } catch { right.token = found || ""; }
  if (found) history.replaceState(null, "", `${location.pathname}${location.search}`);
}

const mayAsk = () => Boolean(site.control && right.token);

async function ask(what) {
  try {
    const answer = await fetch(address("ask"), {
      method: "POST", body: JSON.stringify(what),
      headers: {"Content-Type": "application/json", Authorization: `Bearer ${right.token}`},
    });
    const text = answer.ok ? (await answer.json()).text : (await answer.text()).trim();
    say(text, !answer.ok);
    return answer.ok;
  } catch { say("the server does not answer", true); return false; }
}

let said = 0;
function say(text, bad) {
  put($("said"), text);
  $("said").dataset.bad = Boolean(bad);
  $("said").hidden = false;
  clearTimeout(said);
  said = setTimeout(() => { $("said").hidden = true; }, bad ? 12000 : 6000);
}

// the buttons of a run: those that fit its state

function controlsOf(name, state, controlState) {
  if (!mayAsk() || !name) return [];
  const one = (words, title, what) => button(words, title, () => ask({do: what, run: name}).then(refreshSoon));
  if (state === "running") {
    const stop = one("Stop", "after this round; it can be resumed", "stop");
    if (controlState === "paused" || controlState === "pausing") return [one("Resume", "let it go on", "resume"), stop];
    if (controlState === "stopping") return [one("Do not stop", "let it go on", "resume")];
    return [one("Pause", "after this round", "pause"), stop];
  }
  return state === "unfinished" ? [one("Go on", "put it into the queue", "resume")] : [];
}
