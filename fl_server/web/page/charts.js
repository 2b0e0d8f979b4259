// Small line charts as SVG, with axes that fit the data. They get values and know nothing else.

function linearTicks(low, high) {
  if (high - low < 1e-12 * Math.max(1, Math.abs(high))) [low, high] = [low - (Math.abs(low) * 0.1 || 0.5), high + (Math.abs(high) * 0.1 || 0.5)];
  const raw = (high - low) / 4, power = 10 ** Math.floor(Math.log10(raw)), step = power * ([1, 2, 2.5, 5].find(k => k * power >= raw) || 10);
  const ticks = [];
  for (let at = step * Math.floor(low / step); at < high + step * 0.999; at += step) ticks.push(Math.abs(at) < step / 1e6 ? 0 : at);
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


// chart: {title, series: [{key, label, colour, dash}], format, log, low, x, xFormat, mark}
// `log`: a scale of powers of ten if the values differ that much; `low`: the least value of the axis;
// `settled`: once there are some, the axis fits the values without the first, untrained one;
// `x`: the key of the horizontal axis; `mark`: a key of times that are marked at the bottom.
class Chart {
  constructor(figure, chart) {
    Object.assign(this, {x: "round", head: x => `after round ${x}`}, chart);
    this.figure = figure;
    this.clip = `clip-${Chart.made = (Chart.made || 0) + 1}`;
    this.caption = el("figcaption");
    this.name = el("strong", this.title);
    this.caption.append(this.name);
    for (const one of this.series) {
      const label = el("span"), mark = el("i");
      mark.style.borderColor = `var(--${one.colour})`;
      if (one.dash) mark.className = "dash";
      label.append(mark, one.label);
      if (one.label) this.caption.append(label);
    }
    this.svg = svg("svg", {role: "img", "aria-label": this.title});
    figure.append(this.caption, this.svg);
    this.lines = [];
    new ResizeObserver(() => this.draw(this.lines)).observe(figure);
    this.svg.addEventListener("pointermove", event => this.point(event));
    this.svg.addEventListener("pointerleave", () => { tip(null); this.cross?.remove(); });
  }

  rename(title, format) {
    [this.title, this.format] = [title, format];
    put(this.name, title);
    this.svg.setAttribute("aria-label", title);
  }

  scales(all, width, height, first, last) {
    const left = 50, right = 12, top = 12, bottom = 22;
    const high = Math.max(...all), low = Math.min(...all), log = this.log && low > 0 && high / low > 30;
    const ticks = !all.length ? [] : log ? logTicks(low, high) : linearTicks(this.low === undefined ? low : Math.min(low, this.low), high);
    const scale = log ? Math.log10 : v => v, from = scale(ticks[0] ?? 1), to = scale(ticks[ticks.length - 1] ?? 10);
    return {left, right, bottom, ticks,
      y: v => top + (height - top - bottom) * (1 - (scale(v) - from) / (to - from || 1)),
      x: n => left + (width - left - right) * (n - first) / (last - first || 1)};
  }

  draw(lines) {
    this.lines = lines;
    const width = this.figure.clientWidth, height = this.svg.clientHeight || 172;
    if (!width) return;
    const is = v => v !== undefined && v !== null && Number.isFinite(v);
    const known = lines.filter(line => this.series.some(s => is(line[s.key])));
    const first = known.length ? known[0][this.x] : 0, last = Math.max(known.length ? known[known.length - 1][this.x] : 1, first + (this.xFormat ? 1e-3 : 1));
    const values = some => some.flatMap(line => this.series.map(s => line[s.key]).filter(is));
    const all = values(known), fitted = this.settled && known.length > 4 ? values(known.slice(1)) : all;
    const {left, right, bottom, ticks, x, y} = this.scales(fitted, width, height, first, last);
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    for (const tick of ticks) {
      svg("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}, this.svg);
      svg("text", {x: left - 8, y: y(tick) + 4, "text-anchor": "end"}, this.svg).textContent = this.format(tick, ticks[1] - ticks[0] < 0.01);
    }
    if (!all.length) {
      svg("line", {class: "grid", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom}, this.svg);
      svg("text", {x: (left + width) / 2, y: height / 2, "text-anchor": "middle"}, this.svg).textContent = this.empty || "nothing yet";
    } else if (this.xFormat) {
      for (const [at, anchor] of [[first, "start"], [last, "end"]])
        svg("text", {x: x(at), y: height - 4, "text-anchor": anchor}, this.svg).textContent = this.xFormat(at);
    } else {
      for (const tick of roundTicks(first, last, Math.max(3, width / 60)))
        svg("text", {x: x(tick), y: height - 4, "text-anchor": "middle"}, this.svg).textContent = tick;
    }
    const clip = svg("clipPath", {id: this.clip}, this.svg);
    svg("rect", {x: left - 4, y: 6, width: width - left - right + 8, height: height - bottom - 3}, clip);
    for (const line of this.mark ? lines.filter(line => line[this.mark]) : [])
      svg("circle", {class: "marked", cx: x(line[this.x]), cy: height - bottom - 2, r: 2.5}, this.svg);
    for (const one of this.series) {
      const points = known.filter(line => is(line[one.key])).map(line => [x(line[this.x]), y(line[one.key])]);
      if (!points.length) continue;
      const path = points.map((p, i) => `${i ? "L" : "M"}${p[0].toFixed(1)},${p[1].toFixed(1)}`).join("");
      svg("path", {d: path, fill: "none", "clip-path": `url(#${this.clip})`, stroke: `var(--${one.colour})`, "stroke-width": 2.2, "stroke-linejoin": "round",
        "stroke-linecap": "round", ...(one.dash ? {"stroke-dasharray": one.dash, "stroke-linecap": "butt"} : {})}, this.svg);
      const end = points[points.length - 1];
      svg("circle", {cx: end[0], cy: end[1], r: 3, fill: `var(--${one.colour})`}, this.svg);
    }
    this.place = x; this.known = known; this.foot = height - bottom;
  }

  point(event) {
    if (!this.known?.length) return;
    const at = event.clientX - this.svg.getBoundingClientRect().left, x = line => this.place(line[this.x]);
    const line = this.known.reduce((a, b) => Math.abs(x(b) - at) < Math.abs(x(a) - at) ? b : a);
    this.cross?.remove();
    this.cross = svg("line", {class: "cross", x1: x(line), x2: x(line), y1: 8, y2: this.foot}, this.svg);
    const words = this.series.filter(s => line[s.key] !== undefined && line[s.key] !== null).map(s => `${s.label ? `${s.label}: ` : ""}${this.format(line[s.key], true)}`);
    tip(`${this.head(line[this.x])}\n${words.join("\n")}`, event);
  }
}
