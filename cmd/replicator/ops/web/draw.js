// What the page draws as SVG. Nothing here knows where the numbers come from.

const space = "http://www.w3.org/2000/svg";

export function element(name, attributes, ...children) {
  const e = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes || {})) e.setAttribute(key, value);
  e.append(...children);
  return e;
}

// What follows the cut of a checkpoint, in order. Applying runs beside it and is not a part of the sum.
export const phases = ["align", "prepare", "save", "commit"];

// flow draws source, checkpoint lanes and target. A narrow picture stands upright.
export function flow(box, status) {
  const width = box.clientWidth;
  if (!width) return;
  const narrow = width < 560;
  const shape = [narrow, width, status.source, status.target, status.partition_count, status.table_count, status.delivery, status.workers, kept(status)].join("|");
  let svg = box.firstChild;
  if (!svg || box.dataset.shape !== shape) {
    box.dataset.shape = shape;
    svg = narrow ? upright(width, status) : across(width, status);
    box.replaceChildren(svg);
  }
  const moving = status.state === "running" && status.rate > 0;
  svg.classList.toggle("moving", moving);
  // Faster with the logarithm of the rate: 1 row/s takes 2.4 s from drop to drop, 100,000 take 0.4 s.
  svg.style.setProperty("--pace", Math.max(0.4, 2.4 - 0.4 * Math.log10(Math.max(1, status.rate))).toFixed(1) + "s");
  const words = { running: moving ? "rows are flowing" : "idle", paused: "paused" }[status.state] || status.state;
  svg.setAttribute("aria-label", `From Kafka at ${status.source} through ${status.workers === 1 ? "one lane" : status.workers + " lanes"} to ${status.target}: ${words}.`);
  svg.querySelector(".what").textContent = words;
}

function node(x, y, w, h, title, ...lines) {
  const room = Math.floor((w - 24) / 6.6);
  const clip = (s) => (s.length > room ? s.slice(0, room - 1) + "…" : s);
  const g = element("g", {}, element("rect", { class: "node", x, y, width: w, height: h, rx: 8 }));
  const full = element("title", {});
  full.textContent = [title, ...lines].join(", ");
  g.append(full);
  [title, ...lines].forEach((line, i) => {
    const t = element("text", { x: x + 12, y: y + 23 + i * 18, class: i ? "" : "name" });
    t.textContent = clip(line);
    g.append(t);
  });
  return g;
}

function plural(n, one) {
  return `${n} ${one}${n === 1 ? "" : "s"}`;
}

// kept says whether the source's transactions are kept whole, and whether one has waited for longer than it should.
function kept(s) {
  const t = s.source_transactions;
  if (!t) return "";
  return t.waiting > 0 && t.silent_seconds > 10 ? ", a transaction waits" : ", whole transactions";
}

function host(url) {
  return url.replace(/^\w+:\/\/([^@/]*@)?/, "").replace(/\?.*$/, "");
}

function across(width, s) {
  const w = Math.min(250, width * 0.27), h = 76, y = 12, mid = y + h / 2;
  const lane = Math.min(190, width * 0.22), at = width / 2 - lane / 2;
  const pipes = [`M${w + 6} ${mid}H${at - 6}`, ...beside(s.workers, h).map((d) => `M${at + lane + 6} ${mid + d}H${width - w - 6}`)];
  return picture(width, h + 24, [
    ...pipes.flatMap(pipe),
    node(1, y, w, h, "Kafka", s.source, plural(s.partition_count, "partition") + kept(s)),
    checkpointNode(at, y, lane, h, s),
    node(width - w - 1, y, w, h, "Target", host(s.target), plural(s.table_count, "table") + " changed"),
  ]);
}

function upright(width, s) {
  const h = 76, gap = 34, mid = width / 2;
  const pipes = [`M${mid} ${h + 6}V${h + gap - 6}`, ...beside(s.workers, 110).map((d) => `M${mid + d} ${2 * h + gap + 6}V${2 * h + 2 * gap - 6}`)];
  return picture(width, 3 * h + 2 * gap + 2, [
    ...pipes.flatMap(pipe),
    node(1, 1, width - 2, h, "Kafka", s.source, plural(s.partition_count, "partition") + kept(s)),
    checkpointNode(1, h + gap, width - 2, h, s),
    node(1, 2 * (h + gap), width - 2, h, "Target", host(s.target), plural(s.table_count, "table") + " changed"),
  ]);
}

// beside returns where the pipes of lanes are, from their middle: a transaction of the target for each, and of many as many as there is room for.
function beside(lanes, room) {
  const n = Math.max(1, Math.min(lanes, 8)), step = n === 1 ? 0 : Math.min(16, (room - 8) / (n - 1));
  return Array.from({ length: n }, (_, i) => (i - (n - 1) / 2) * step);
}

function checkpointNode(x, y, w, h, s) {
  const g = node(x, y, w, h, s.workers === 1 ? "Lane" : s.workers + " lanes", s.delivery, "");
  g.firstChild.setAttribute("class", "gate");
  g.lastChild.classList.add("what");
  return g;
}

function pipe(d) {
  return [element("path", { class: "pipe", d }), element("path", { class: "drops", d })];
}

function picture(width, height, children) {
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Pipeline" }, ...children);
  svg.style.height = height + "px";
  return svg;
}

// nice returns the smallest of 1, 2, 2.5, 5 times a power of ten that is at least v.
function nice(v) {
  const power = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 2.5, 5, 10].map((m) => m * power).find((n) => n >= v - 1e-12);
}

function clock(t, seconds) {
  return new Date(t).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", ...(seconds ? { second: "2-digit" } : {}), hourCycle: "h23" });
}

// Plot is one curve over the last hour. Pointer and arrow keys read a value from it.
export class Plot {
  constructor(box, field, what, format) {
    Object.assign(this, { box, field, what, format, list: [], at: -1 });
    this.svg = element("svg", { role: "img", tabindex: "0" });
    this.readout = document.createElement("p");
    this.readout.className = "readout";
    this.readout.setAttribute("aria-live", "polite");
    box.append(this.svg, this.readout);
    this.svg.addEventListener("pointermove", (e) => this.read(this.nearest(e.offsetX)));
    this.svg.addEventListener("pointerleave", () => this.read(-1));
    this.svg.addEventListener("blur", () => this.read(-1));
    this.svg.addEventListener("keydown", (e) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
      if (!step || !this.list.length) return;
      e.preventDefault();
      const from = this.at < 0 ? this.list.length - (step > 0 ? 1 : 0) : this.at;
      this.read(Math.max(0, Math.min(this.list.length - 1, from + step)));
    });
    new ResizeObserver(() => this.draw()).observe(box);
  }

  show(list) {
    if (this.at >= 0) this.at = Math.min(this.at, list.length - 1);
    this.list = list;
    this.draw();
  }

  nearest(x) {
    let best = -1, distance = Infinity;
    this.list.forEach((s, i) => {
      const d = Math.abs(this.x(s) - x);
      if (d < distance) [best, distance] = [i, d];
    });
    return best;
  }

  read(at) {
    if (at === this.at) return;
    this.at = at;
    this.draw();
  }

  draw() {
    const width = this.box.clientWidth, height = 170, left = 46, bottom = 22, top = 8;
    if (!width) return;
    const end = this.list.length ? Date.parse(this.list[this.list.length - 1].at) : Date.now();
    // The window grows with what there is to see, up to an hour.
    const age = this.list.length ? end - Date.parse(this.list[0].at) : 0;
    const range = [300e3, 900e3, 1800e3].find((r) => age <= r) || 3600e3;
    const begin = end - range;
    const values = this.list.map((s) => s[this.field]);
    const most = nice(Math.max(this.field === "rate" ? 10 : 1, ...values));
    this.x = (s) => left + ((Date.parse(s.at) - begin) / range) * (width - left - 4);
    const y = (v) => top + (1 - v / most) * (height - top - bottom);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      const label = element("text", { x: left - 8, y: y(most * share) + 4, "text-anchor": "end" });
      label.textContent = this.format(most * share);
      parts.push(element("line", { class: "gridline", x1: left, x2: width, y1: y(most * share), y2: y(most * share) }), label);
    }
    for (const share of width < 480 ? [0, 1] : [0, 0.5, 1]) {
      const label = element("text", { x: left + share * (width - left - 4), y: height - 4, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" });
      label.textContent = clock(begin + share * range, range < 900e3);
      parts.push(label);
    }
    if (this.list.length) {
      const line = this.list.map((s) => `${this.x(s).toFixed(1)} ${y(s[this.field]).toFixed(1)}`).join("L");
      const first = this.x(this.list[0]).toFixed(1), last = this.x(this.list[this.list.length - 1]).toFixed(1);
      parts.push(element("path", { class: "area", d: `M${first} ${y(0)}L${line}L${last} ${y(0)}Z` }), element("path", { class: "curve", d: "M" + line }));
      const newest = this.list[this.list.length - 1];
      parts.push(element("circle", { class: "newest", cx: this.x(newest), cy: y(newest[this.field]), r: 2.5 }));
    }
    const now = this.list[this.list.length - 1], read = this.list[this.at];
    if (read) parts.push(element("line", { class: "cross", x1: this.x(read), x2: this.x(read), y1: top, y2: height - bottom }));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren(...parts);
    this.svg.setAttribute("aria-label", now
      ? `${this.what} over the last hour: now ${this.format(now[this.field])}, highest ${this.format(Math.max(...values))}. Arrow keys read single values.`
      : `${this.what} over the last hour: no sample yet.`);
    this.readout.textContent = read
      ? `${clock(read.at, true)}: ${this.format(read[this.field])}`
      : now ? `highest ${this.format(Math.max(...values))}, now ${this.format(now[this.field])}` : "The first sample comes within 5 seconds.";
  }
}

// timeline draws each checkpoint at the time of its cut, as high as its phases took.
export function timeline(box, list, format) {
  const width = box.clientWidth, height = 130, left = 56, bottom = 22, top = 8;
  if (!width) return;
  const total = (c) => phases.reduce((sum, p) => sum + c.phases[p], 0);
  const parts = [];
  const most = nice(Math.max(0.01, ...list.map(total)));
  const y = (v) => top + (1 - v / most) * (height - top - bottom);
  for (const share of [0, 0.5, 1]) {
    const label = element("text", { x: left - 8, y: y(most * share) + 4, "text-anchor": "end" });
    label.textContent = format(most * share);
    parts.push(element("line", { class: "gridline", x1: left, x2: width, y1: y(most * share), y2: y(most * share) }), label);
  }
  const begin = list.length ? Date.parse(list[0].cut) : 0, end = list.length ? Date.parse(list[list.length - 1].cut) : 0;
  const bar = Math.max(2, Math.min(12, (width - left) / 60 - 2));
  const x = (t) => left + (end > begin ? (t - begin) / (end - begin) : 1) * (width - left - bar);
  for (const c of list) {
    let sum = 0;
    const g = element("g", {}), title = element("title", {});
    title.textContent = `Checkpoint ${c.id}, ${clock(c.cut, true)}: ` + phases.map((p) => `${p} ${format(c.phases[p])}`).join(", ");
    g.append(title);
    for (const p of phases) {
      const h = (c.phases[p] / most) * (height - top - bottom);
      g.append(element("rect", { class: p, x: x(Date.parse(c.cut)).toFixed(1), y: (y(sum) - h).toFixed(2), width: bar.toFixed(1), height: h.toFixed(2) }));
      sum += c.phases[p];
    }
    parts.push(g);
  }
  if (list.length) {
    for (const [t, anchor, at] of [[begin, "start", left], [end, "end", width]]) {
      const label = element("text", { x: at, y: height - 4, "text-anchor": anchor });
      label.textContent = clock(t, true);
      parts.push(label);
    }
  }
  const svg = box.firstChild || box.appendChild(element("svg", { role: "img" }));
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("aria-label", list.length
    ? `The last ${list.length} checkpoints; the slowest took ${format(Math.max(...list.map(total)))}. The table below has the newest ones.`
    : "No checkpoint yet.");
  svg.replaceChildren(...parts);
}

export function legend(list) {
  const what = { align: "align, with what is left to apply", prepare: "prepare", save: "save", commit: "commit" };
  list.replaceChildren(...phases.map((p) => {
    const li = document.createElement("li");
    li.append(element("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, element("rect", { class: p, width: 10, height: 10, rx: 2 })), what[p]);
    return li;
  }));
}
