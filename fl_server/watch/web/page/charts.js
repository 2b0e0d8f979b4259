"use strict";
// Drawing: line charts as SVG, the timeline on a canvas. They get values and know nothing else.

const NS = "http://www.w3.org/2000/svg";

function svg(name, attributes, parent) {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (parent) parent.append(node);
  return node;
}

function el(name, text, className) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function linearTicks(low, high) {
  const raw = (high - low) / 4, power = 10 ** Math.floor(Math.log10(raw)), step = power * ([1, 2, 2.5, 5].find(k => k * power >= raw) || 10);
  const ticks = [];
  for (let at = step * Math.floor(low / step); at < high + step * 0.999; at += step) ticks.push(at);
  return ticks;
}

function logTicks(low, high) {
  const decades = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) decades.push(10 ** p);
  if (decades.length > 2) return decades;
  return decades.flatMap(d => [d, 2 * d, 5 * d]).filter((t, i, all) =>
    (i + 1 >= all.length || all[i + 1] > low) && (i === 0 || all[i - 1] < high));
}

function roundTicks(low, high, most) {
  let step = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000, 10000].find(s => (high - low) / s <= most) || 50000;
  while ((high - low) / step > most) step *= 10;
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) ticks.push(at);
  return ticks;
}

// chart: {title, series: [{key, label, colour, dash}], format, log, top}
class Chart {
  constructor(figure, chart) {
    Object.assign(this, chart);
    this.figure = figure;
    this.caption = el("figcaption");
    this.name = el("strong", this.title);
    this.caption.append(this.name);
    for (const one of this.series) {
      const label = el("span"), mark = el("i");
      mark.style.borderColor = `var(--${one.colour})`;
      if (one.dash) mark.className = "dash";
      label.append(mark, one.label);
      this.caption.append(label);
    }
    this.svg = svg("svg", {role: "img", "aria-label": this.title});
    figure.append(this.caption, this.svg);
    this.lines = [];
    new ResizeObserver(() => this.draw(this.lines)).observe(figure);
    this.svg.addEventListener("pointermove", event => this.point(event));
    this.svg.addEventListener("pointerleave", () => { tip(null); this.cross?.remove(); });
  }

  rename(title, format, top) {
    [this.title, this.format, this.top] = [title, format, top];
    if (this.name.textContent !== title) this.name.textContent = title;
    this.svg.setAttribute("aria-label", title);
  }

  draw(lines) {
    this.lines = lines;
    const width = this.figure.clientWidth, height = 172;
    if (!width) return;
    const left = 46, right = 10, top = 12, bottom = 22;
    const known = lines.filter(line => this.series.some(s => line[s.key] !== undefined));
    const all = known.flatMap(line => this.series.map(s => line[s.key]).filter(v => v !== undefined && (!this.log || v > 0)));
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const high = this.top || Math.max(...all, this.log ? 1 : 0.001), low = this.log ? Math.min(...all, high) : Math.min(0, ...all);
    const ticks = !all.length ? [] : this.log ? logTicks(low, high) : linearTicks(low, high);
    const scale = this.log ? Math.log10 : v => v;
    const from = scale(ticks[0] ?? 1), to = scale(ticks[ticks.length - 1] ?? 10);
    const y = v => top + (height - top - bottom) * (1 - (scale(v) - from) / (to - from || 1));
    const first = known.length ? known[0].round : 0, last = Math.max(known.length ? known[known.length - 1].round : 1, first + 1);
    const x = n => left + (width - left - right) * (n - first) / (last - first);
    for (const tick of ticks) {
      svg("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}, this.svg);
      svg("text", {x: left - 8, y: y(tick) + 4, "text-anchor": "end"}, this.svg).textContent = this.format(tick);
    }
    if (!all.length) {
      svg("line", {class: "grid", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom}, this.svg);
      svg("text", {x: (left + width) / 2, y: height / 2, "text-anchor": "middle"}, this.svg).textContent = this.empty;
    } else {
      for (const tick of roundTicks(first, last, Math.max(3, width / 60)))
        svg("text", {x: x(tick), y: height - 4, "text-anchor": "middle"}, this.svg).textContent = tick;
    }
    for (const one of this.series) {
      const points = known.filter(line => line[one.key] !== undefined && (!this.log || line[one.key] > 0)).map(line => [x(line.round), y(line[one.key])]);
      if (!points.length) continue;
      const path = points.map((p, i) => `${i ? "L" : "M"}${p[0].toFixed(1)},${p[1].toFixed(1)}`).join("");
      svg("path", {d: path, fill: "none", stroke: `var(--${one.colour})`, "stroke-width": 2.2, "stroke-linejoin": "round",
        "stroke-linecap": "round", ...(one.dash ? {"stroke-dasharray": one.dash, "stroke-linecap": "butt"} : {})}, this.svg);
      const end = points[points.length - 1];
      svg("circle", {cx: end[0], cy: end[1], r: 3, fill: `var(--${one.colour})`}, this.svg);
    }
    this.x = x; this.known = known;
    this.svg.setAttribute("aria-label", `${this.title}: ${known.length} rounds`);
  }

  point(event) {
    if (!this.known?.length) return;
    const at = event.clientX - this.svg.getBoundingClientRect().left;
    const line = this.known.reduce((a, b) => Math.abs(this.x(b.round) - at) < Math.abs(this.x(a.round) - at) ? b : a);
    this.cross?.remove();
    this.cross = svg("line", {class: "cross", x1: this.x(line.round), x2: this.x(line.round), y1: 8, y2: 150}, this.svg);
    const words = this.series.filter(s => line[s.key] !== undefined).map(s => `${s.label}: ${this.format(line[s.key], true)}`);
    tip(`after round ${line.round}\n${words.join("\n")}`, event);
  }
}

function tip(text, event) {
  const node = document.getElementById("tip");
  node.hidden = !text;
  if (!text) return;
  node.textContent = text;
  const box = node.getBoundingClientRect();
  node.style.left = `${Math.min(event.clientX + 14, innerWidth - box.width - 8)}px`;
  node.style.top = `${Math.max(8, event.clientY - box.height - 12)}px`;
}

// The timeline: lanes is [[board, spans, here]], a span [client, round, kind, start, end, cut].
class Gantt {
  constructor(canvas) {
    this.canvas = canvas;
    canvas.addEventListener("pointermove", event => this.point(event));
    canvas.addEventListener("pointerleave", () => tip(null));
  }

  draw(lanes, marks, now) {
    const canvas = this.canvas, width = canvas.parentElement.clientWidth, ratio = devicePixelRatio || 1;
    const lane = lanes.length > 24 ? 15 : 22, head = 20, left = Math.min(110, Math.max(56, width * 0.09));
    const height = head + lanes.length * lane + 4;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    const c = canvas.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    const starts = lanes.flatMap(([, spans]) => spans.map(s => s[3]));
    const begin = marks.length ? marks[0][1] : starts.reduce((a, b) => Math.min(a, b), now - 1), length = Math.max(now - begin, 1);
    const x = t => left + (width - left - 6) * Math.max(0, (t - begin) / length);
    const [ink, dim, line, blue, orange, red, soft] = ["ink", "dim", "line", "blue", "orange", "red", "red-soft"].map(colour);
    c.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    c.textBaseline = "middle";
    let free = 0;
    for (const [number, time] of marks) {
      c.fillStyle = line; c.fillRect(Math.round(x(time)), 14, 1, height);
      const words = `round ${number}`;
      if (x(time) >= free && x(time) + c.measureText(words).width < width) {
        c.fillStyle = dim; c.fillText(words, x(time) + 1, 7); free = x(time) + c.measureText(words).width + 14;
      }
    }
    this.boxes = [];
    lanes.forEach(([name, spans, here], row) => {
      const y = head + row * lane;
      c.fillStyle = here ? ink : red;
      c.fillText(fit(c, here ? name : `✕ ${name}`, left - 10), 0, y + lane / 2);
      c.fillStyle = line; c.fillRect(left, y + lane - 1, width - left - 6, 0.5);
      for (const [client, number, kind, start, end, cut] of spans) {
        if ((end ?? now) < begin) continue;
        const x0 = x(Math.max(start, begin)), w = Math.max(1.5, x(end ?? now) - x0 - 0.5), h = lane - 7;
        c.fillStyle = cut ? soft : kind === "train" ? blue : orange;
        c.globalAlpha = end === null ? 0.65 : 1;
        c.beginPath(); c.roundRect(x0, y + 3, w, h, Math.min(3, w / 2)); c.fill();
        c.globalAlpha = 1;
        if (cut) { c.strokeStyle = red; c.lineWidth = 1.2; c.stroke(); }
        if (w > 17 && lane > 20) {
          c.fillStyle = cut ? red : colour("panel"); c.textAlign = "center";
          c.fillText(client, x0 + w / 2, y + 3 + h / 2 + 0.5); c.textAlign = "start";
        }
        this.boxes.push([x0, y, w, lane, `${name} · client ${client} · round ${number}\n${cut ? "cut short" : kind === "train" ? "training" : "testing"} ${((end ?? now) - start).toFixed(1)} s`]);
      }
    });
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    const hit = (this.boxes || []).find(([x, y, w, h]) => px >= x - 1 && px <= x + w + 1 && py >= y && py < y + h);
    tip(hit ? hit[4] : null, event);
  }
}

function fit(c, text, width) {
  while (text.length > 3 && c.measureText(text).width > width) text = `${text.slice(0, -2)}…`;
  return text;
}
