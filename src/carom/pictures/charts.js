// Charts on canvases: lines, steps, dots and stems over round ticks, with a cursor; no library.
const $ = id => document.getElementById(id);
const floats = s => { const b = atob(s), u = new Uint8Array(b.length); for (let i = 0; i < b.length; i++) u[i] = b.charCodeAt(i); return new Float32Array(u.buffer); };
const column = (a, d, i) => { const out = new Float32Array(d ? a.length / d : 0); for (let k = 0; k < out.length; k++) out[k] = a[k * d + i]; return out; };
const ink = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const short = x => { if (x === 0) return "0"; const a = Math.abs(x); return a >= 1e5 || a < 1e-3 ? x.toExponential(2).replace(/\.?0+e/, "e") : String(+x.toPrecision(4)); };
function ticks(lo, hi, most) {
  const raw = (hi - lo) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map(k => k * power).find(s => s >= raw * 0.999), out = [];
  for (let k = Math.ceil(lo / step - 1e-9); k * step <= hi + 1e-9 * step; k++) out.push(k * step);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), big = Math.max(Math.abs(lo), Math.abs(hi)) >= 1e5 || step < 1e-4;
  return out.map(v => [v, big ? (v === 0 ? "0" : v.toExponential(1)) : v.toFixed(Math.min(digits, 6))]);
}
function extent(arrays, margin = 0.06) {
  let lo = Infinity, hi = -Infinity;
  for (const a of arrays) for (const v of a) if (v > -1e30 && v < 1e30) { if (v < lo) lo = v; if (v > hi) hi = v; }
  if (!(hi >= lo)) return [0, 1];
  const room = hi > lo ? margin * (hi - lo) : Math.abs(hi) * 0.1 || 0.5;
  return [lo - room, hi + room];
}
class Chart {
  constructor(canvas, options = {}) {
    this.canvas = canvas; this.options = { xlabel: "", ylabel: "", ...options }; this.series = []; this.cursor = null; this.x = [0, 1]; this.y = [0, 1];
    new ResizeObserver(() => this.draw()).observe(canvas);
    Chart.all.push(this);
  }
  set(series, x, y) {  // a series: {x, y, colour, kind: "line" | "steps" | "dots" | "rings" | "stems", size, alpha}
    this.series = series;
    this.x = x || extent(series.map(s => s.x), this.options.tight ? 0 : 0.05); this.y = y || extent(series.map(s => s.y));
    if (this.x[0] === this.x[1]) this.x = [this.x[0] - 0.5, this.x[1] + 0.5];
    this.draw();
  }
  px(v) { return this.left + (v - this.x[0]) / (this.x[1] - this.x[0]) * this.w; }
  py(v) { return this.top + (1 - (v - this.y[0]) / (this.y[1] - this.y[0])) * this.h; }
  value(e) { const r = this.canvas.getBoundingClientRect(); return [this.x[0] + (e.clientX - r.left - this.left) / this.w * (this.x[1] - this.x[0]), this.y[1] - (e.clientY - r.top - this.top) / this.h * (this.y[1] - this.y[0])]; }
  frame() {
    const c = this.canvas, dots = devicePixelRatio || 1, W = c.clientWidth, H = c.clientHeight, g = c.getContext("2d");
    const w = Math.round(W * dots), h = Math.round(H * dots);
    if (c.width !== w || c.height !== h) { c.width = w; c.height = h; }
    g.setTransform(dots, 0, 0, dots, 0, 0); g.clearRect(0, 0, W, H); g.font = "11px system-ui, sans-serif";
    this.top = 6; this.h = Math.max(10, H - 6 - (this.options.xlabel ? 34 : 20));
    const ys = ticks(this.y[0], this.y[1], this.h / 34);
    this.left = this.options.left || Math.max(30, ...ys.map(([, s]) => g.measureText(s).width + (this.options.ylabel ? 24 : 10))); this.w = Math.max(10, W - this.left - 10);
    if (this.options.equal) this.square();
    const xs = ticks(this.x[0], this.x[1], this.w / 64), yt = this.options.equal ? ticks(this.y[0], this.y[1], this.h / 34) : ys;
    g.lineWidth = 1; g.strokeStyle = ink("grid"); g.fillStyle = ink("soft");
    g.textAlign = "right"; g.textBaseline = "middle";
    for (const [v, s] of yt) { const y = Math.round(this.py(v)) + 0.5; g.beginPath(); g.moveTo(this.left, y); g.lineTo(this.left + this.w, y); g.stroke(); g.fillText(s, this.left - 5, y); }
    g.textAlign = "center"; g.textBaseline = "top";
    for (const [v, s] of xs) { const x = Math.round(this.px(v)) + 0.5; g.beginPath(); g.moveTo(x, this.top); g.lineTo(x, this.top + this.h); g.stroke(); g.fillText(s, Math.min(x, W - g.measureText(s).width / 2 - 1), this.top + this.h + 4); }
    g.strokeStyle = ink("line"); g.strokeRect(Math.round(this.left) + 0.5, this.top + 0.5, Math.round(this.w), this.h);
    if (this.options.xlabel) g.fillText(this.options.xlabel, this.left + this.w / 2, this.top + this.h + 19);
    if (this.options.ylabel) { g.save(); g.translate(11, this.top + this.h / 2); g.rotate(-Math.PI / 2); g.textBaseline = "middle"; g.fillText(this.options.ylabel, 0, 0); g.restore(); }
    return g;
  }
  square() {  // one unit is as long both ways
    const unit = Math.max((this.x[1] - this.x[0]) / this.w, (this.y[1] - this.y[0]) / this.h), cx = (this.x[0] + this.x[1]) / 2, cy = (this.y[0] + this.y[1]) / 2;
    this.x = [cx - unit * this.w / 2, cx + unit * this.w / 2]; this.y = [cy - unit * this.h / 2, cy + unit * this.h / 2];
  }
  draw() {
    if (!this.canvas.clientWidth) return;
    const g = this.frame();
    g.save(); g.beginPath(); g.rect(this.left, this.top - 1, this.w + 1, this.h + 2); g.clip();
    if (this.y[0] < 0 && this.y[1] > 0) { g.strokeStyle = ink("line"); g.beginPath(); g.moveTo(this.left, this.py(0)); g.lineTo(this.left + this.w, this.py(0)); g.stroke(); }
    for (const s of this.series) this.one(g, s);
    if (this.paint) this.paint(g, this);
    if (this.cursor !== null) { g.strokeStyle = ink("hit"); g.globalAlpha = 0.8; g.lineWidth = 1; g.beginPath(); g.moveTo(this.px(this.cursor), this.top); g.lineTo(this.px(this.cursor), this.top + this.h); g.stroke(); g.globalAlpha = 1; }
    g.restore();
  }
  one(g, s) {
    g.strokeStyle = g.fillStyle = s.colour.startsWith("#") ? s.colour : ink(s.colour); g.globalAlpha = s.alpha || 1; g.lineWidth = s.size || 1.5; g.setLineDash(s.dash || []);
    const n = s.x.length, kind = s.kind || "line", r = s.size || 2;
    if (kind === "dots") for (let i = 0; i < n; i++) g.fillRect(this.px(s.x[i]) - (s.wide || r) / 2, this.py(s.y[i]) - r / 2, s.wide || r, r);
    else if (kind === "discs" || kind === "rings") for (let i = 0; i < n; i++) { g.beginPath(); g.arc(this.px(s.x[i]), this.py(s.y[i]), r, 0, 7); if (kind === "rings") { g.lineWidth = 1.2; g.stroke(); } else g.fill(); }
    else if (kind === "stems") { g.beginPath(); for (let i = 0; i < n; i++) { const x = this.px(s.x[i]); g.moveTo(x, this.py(0)); g.lineTo(x, this.py(s.y[i])); } g.stroke(); }
    else if (kind === "marks") { g.beginPath(); for (let i = 0; i < n; i++) { const x = this.px(s.x[i]), y = this.top + this.h; g.moveTo(x, y); g.lineTo(x, y - 7); } g.stroke(); }
    else {
      g.beginPath(); let pen = false, last = 0;
      for (let i = 0; i < n; i++) {
        if (!(s.y[i] === s.y[i]) || !(s.x[i] === s.x[i]) || (s.breaks && s.breaks.has(i))) { pen = false; if (!(s.breaks && s.breaks.has(i))) continue; }
        const x = this.px(s.x[i]), y = this.py(s.y[i]);
        if (!pen) g.moveTo(x, y); else { if (kind === "steps") g.lineTo(x, last); g.lineTo(x, y); }
        last = y; pen = true;
      }
      g.lineJoin = "round"; g.stroke();
    }
    g.globalAlpha = 1; g.setLineDash([]);
  }
}
Chart.all = [];
function keys(element, items) {  // a legend beside the title, off the data: [[text, colour], ...]
  element.replaceChildren(...items.map(([text, colour]) => { const s = document.createElement("span"), i = document.createElement("i"); i.style.background = `var(--${colour})`; s.append(i, text); return s; }));
}
// Shapes of a mechanism: ["segment", x1, y1, x2, y2], ["disc", x, y, r], ["polygon", x1, y1, x2, y2, ...]
function paintShapes(g, c, shapes) {
  g.lineWidth = 2; g.lineJoin = g.lineCap = "round";
  for (const [kind, ...p] of shapes) {
    g.strokeStyle = ink("c0"); g.fillStyle = ink("shape"); g.beginPath();
    if (kind === "disc") { g.arc(c.px(p[0]), c.py(p[1]), Math.max(3, p[2] * c.w / (c.x[1] - c.x[0])), 0, 7); g.fill(); }
    else { for (let i = 0; i < p.length; i += 2) g.lineTo(c.px(p[i]), c.py(p[i + 1])); if (kind === "polygon") { g.closePath(); g.fill(); } else g.strokeStyle = ink("ink"); }
    g.stroke();
  }
}
const theme = {
  set(name) { document.documentElement.dataset.theme = name; for (const c of Chart.all) c.draw(); if (theme.changed) theme.changed(); },
  now() { return document.documentElement.dataset.theme; },
  start() { theme.set(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"); matchMedia("(prefers-color-scheme: dark)").addEventListener("change", e => theme.set(e.matches ? "dark" : "light")); },
};
