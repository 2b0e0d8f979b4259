// The large chart of several runs on a canvas: drag to zoom, point to read, and it can be saved.

const PALETTE = ["blue", "orange", "green", "purple", "red", "sky", "ink", "dim"];
const DASHES = [[], [7, 5], [2, 4], [10, 4, 2, 4]];

// A moving mean as in other tools: 0 is none, near 1 is much. Its beginning is not drawn to zero.
function smoothed(points, weight) {
  if (!weight) return points;
  let mean = 0, share = 0;
  return points.map(([x, y]) => {
    mean = weight * mean + (1 - weight) * y; share = weight * share + 1 - weight;
    return [x, mean / share];
  });
}

class Plot {
  constructor(canvas) {
    this.canvas = canvas;
    this.series = [];  // {name, points: [[x, y]], colour, dash, hidden}
    this.range = this.focus = this.pointer = this.drag = null;
    this.options = {smooth: 0, logX: false, logY: false, xFormat: number, yFormat: number, xName: "", yName: ""};
    canvas.addEventListener("pointerdown", event => { if (event.button === 0) { this.drag = this.at(event); canvas.setPointerCapture(event.pointerId); } });
    canvas.addEventListener("pointermove", event => this.move(event));
    canvas.addEventListener("pointerup", event => this.release(event));
    canvas.addEventListener("pointercancel", () => { this.drag = null; });
    canvas.addEventListener("pointerleave", () => { tip(null); this.pointer = null; this.draw(); });
    canvas.addEventListener("dblclick", () => this.reset());
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
  }

  show(series, options) {
    this.series = series;
    Object.assign(this.options, options);
    this.draw();
  }

  reset() { this.range = null; this.draw(); }
  at(event) { return event.clientX - this.canvas.getBoundingClientRect().left; }

  move(event) {
    this.pointer = this.at(event);
    this.draw();
    const scales = this.scales;
    if (!scales || this.drag) { tip(null); return; }
    const found = this.visible().map(one => [one, this.nearest(one, scales)]).filter(([, point]) => point);
    if (!found.length) { tip(null); return; }
    const x = found.reduce((a, b) => Math.abs(scales.x(b[1][0]) - this.pointer) < Math.abs(scales.x(a[1][0]) - this.pointer) ? b : a)[1][0];
    found.sort((a, b) => b[1][1] - a[1][1]);
    const words = found.slice(0, 14).map(([one, point]) => `${this.options.yFormat(point[1], true)}  ${one.name}`);
    tip(`${this.options.xName} ${this.options.xFormat(x, true)}\n${words.join("\n")}`, event);
  }

  release(event) {
    const from = this.drag, to = this.at(event);
    this.drag = null;
    if (from !== null && Math.abs(to - from) > 8 && this.scales) {
      const ends = [this.scales.value(Math.min(from, to)), this.scales.value(Math.max(from, to))];
      if (this.visible().some(one => one.points.filter(([x]) => x >= ends[0] && x <= ends[1]).length > 1)) this.range = ends;
    }
    this.draw();
  }

  visible() { return this.series.filter(one => !one.hidden && one.points.length); }

  nearest(one, scales) {
    const shown = one.points.filter(([x]) => x >= scales.low && x <= scales.high);
    return shown.length ? shown.reduce((a, b) => Math.abs(scales.x(b[0]) - this.pointer) < Math.abs(scales.x(a[0]) - this.pointer) ? b : a) : null;
  }

  draw() {
    const width = this.canvas.parentElement.clientWidth, height = Math.max(300, Math.min(460, width * 0.45)), ratio = devicePixelRatio || 1;
    if (!width) return;
    this.canvas.width = Math.round(width * ratio); this.canvas.height = Math.round(height * ratio);
    this.canvas.style.height = `${height}px`;
    const c = this.canvas.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.scales = this.paint(c, width, height);
  }

  paint(c, width, height) {
    const {smooth, logX, logY, xFormat, yFormat, xName, yName} = this.options, left = 62, right = 16, top = 26, bottom = 40;
    const [ink, dim, faint, line] = ["ink", "dim", "faint", "line"].map(colour);
    c.clearRect(0, 0, width, height);
    c.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    c.textBaseline = "middle"; c.lineJoin = "round";
    const usable = ([x, y]) => (!logX || x > 0) && (!logY || y > 0);
    const curves = this.visible().map(one => ({...one, raw: one.points.filter(usable), points: smoothed(one.points.filter(usable), smooth)}));
    const xs = curves.flatMap(one => one.points.map(p => p[0]));
    c.fillStyle = dim; c.textAlign = "left"; c.fillText(yName, 4, 9);
    c.textAlign = "right"; c.fillText(xName, width - right, height - 8);
    if (!xs.length) {
      c.textAlign = "center"; c.fillText("nothing to draw: choose runs, another metric or axis", width / 2, height / 2);
      return null;
    }
    const [low, high] = this.range || [xs.reduce((a, b) => Math.min(a, b)), xs.reduce((a, b) => Math.max(a, b))];
    const inside = curves.flatMap(one => one.points.filter(([x]) => x >= low && x <= high).map(p => p[1]));
    const least = inside.reduce((a, b) => Math.min(a, b), Infinity), most = inside.reduce((a, b) => Math.max(a, b), -Infinity);
    const yTicks = !inside.length ? [0, 1] : logY ? logTicks(least, most) : linearTicks(least, most);
    const sx = logX ? Math.log10 : v => v, sy = logY ? Math.log10 : v => v, y0 = sy(yTicks[0]), y1 = sy(yTicks[yTicks.length - 1]);
    const x = v => left + (width - left - right) * (sx(v) - sx(low)) / (sx(high) - sx(low) || 1);
    const y = v => top + (height - top - bottom) * (1 - (sy(v) - y0) / (y1 - y0 || 1));
    const value = px => { const s = sx(low) + (px - left) / (width - left - right) * (sx(high) - sx(low)); return logX ? 10 ** s : s; };
    c.strokeStyle = line; c.lineWidth = 1; c.fillStyle = faint;
    for (const tick of yTicks) {
      c.beginPath(); c.moveTo(left, y(tick)); c.lineTo(width - right, y(tick)); c.stroke();
      c.textAlign = "right"; c.fillText(yFormat(tick, yTicks[1] - yTicks[0] < 0.01), left - 8, y(tick));
    }
    c.textAlign = "center";
    const xTicks = (logX ? logTicks(low, high) : high > low ? linearTicks(low, high) : [low]).filter(t => t >= low - 1e-9 && t <= high * (1 + 1e-9));
    for (const tick of xTicks) {
      c.fillText(xFormat(tick), Math.min(x(tick), width - right - 8), height - bottom + 14);
      c.beginPath(); c.moveTo(x(tick), height - bottom); c.lineTo(x(tick), height - bottom + 4); c.stroke();
    }
    c.save(); c.beginPath(); c.rect(left - 3, top - 3, width - left - right + 6, height - top - bottom + 6); c.clip();
    curves.sort((a, b) => (a.run === this.focus) - (b.run === this.focus));  // the one pointed at in the legend is on top
    for (const one of curves) {
      c.strokeStyle = colour(one.colour);
      if (smooth) { c.globalAlpha = 0.22; c.lineWidth = 1.2; c.setLineDash([]); this.stroke(c, one.raw, x, y); }
      c.globalAlpha = this.focus && one.run !== this.focus ? 0.3 : 1; c.lineWidth = one.run === this.focus ? 3.2 : 2; c.setLineDash(one.dash);
      this.stroke(c, one.points, x, y);
      c.setLineDash([]);
      if (one.points.length === 1) { c.fillStyle = colour(one.colour); c.beginPath(); c.arc(x(one.points[0][0]), y(one.points[0][1]), 3.5, 0, 7); c.fill(); }
    }
    c.globalAlpha = 1;
    c.restore();
    if (this.drag !== null && this.pointer !== null) {
      c.fillStyle = colour("blue"); c.globalAlpha = 0.13; c.fillRect(this.drag, top, this.pointer - this.drag, height - top - bottom); c.globalAlpha = 1;
    } else if (this.pointer > left && this.pointer < width - right) {
      c.strokeStyle = faint; c.setLineDash([2, 3]); c.beginPath(); c.moveTo(this.pointer, top); c.lineTo(this.pointer, height - bottom); c.stroke(); c.setLineDash([]);
    }
    c.fillStyle = ink;
    return {x, low, high, value};
  }

  stroke(c, points, x, y) {
    c.beginPath();
    points.forEach(([a, b], at) => at ? c.lineTo(x(a), y(b)) : c.moveTo(x(a), y(b)));
    c.stroke();
  }

  // A picture with a legend, twice as fine as the screen.
  picture() {
    const width = 1000, height = 470, rows = this.visible(), canvas = el("canvas"), c = canvas.getContext("2d");
    canvas.width = 2 * width; canvas.height = 2 * (height + 20 + 20 * rows.length);
    c.scale(2, 2);
    c.fillStyle = colour("panel"); c.fillRect(0, 0, width, canvas.height);
    const inner = el("canvas");
    inner.width = 2 * width; inner.height = 2 * height;
    const d = inner.getContext("2d");
    d.scale(2, 2);
    const {pointer, focus} = this;
    this.pointer = this.focus = null;
    this.paint(d, width, height);
    Object.assign(this, {pointer, focus});
    c.drawImage(inner, 0, 0, width, height);
    c.font = `13px ${getComputedStyle(document.body).fontFamily}`; c.textBaseline = "middle";
    rows.forEach((one, at) => {
      const y = height + 14 + 20 * at;
      c.strokeStyle = colour(one.colour); c.lineWidth = 2.5; c.setLineDash(one.dash);
      c.beginPath(); c.moveTo(62, y); c.lineTo(98, y); c.stroke();
      c.fillStyle = colour("ink"); c.fillText(one.name, 108, y);
    });
    return canvas;
  }
}
