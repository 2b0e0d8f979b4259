// The timeline of boards on a canvas, and the tip beside the pointer.

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
