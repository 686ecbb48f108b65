import { Plot, flow, legend, phases, timeline } from "./draw.js";

const by = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const some = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

// text sets an element's text, and touches nothing if it is the same: a screen reader is told of changes only.
function text(e, value) {
  if (e.textContent !== value) e.textContent = value;
}

export function span(seconds) {
  if (seconds === 0) return "0 s";
  if (seconds < 1) return some.format(seconds * 1000) + " ms";
  if (seconds < 120) return some.format(seconds) + " s";
  if (seconds < 7200) return whole.format(seconds / 60) + " min";
  return seconds < 172800 ? some.format(seconds / 3600) + " h" : some.format(seconds / 86400) + " days";
}

function bytes(n) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024 || unit === "GiB") return (unit === "B" ? whole : some).format(n) + " " + unit;
    n /= 1024;
  }
}

function when(t) {
  const d = new Date(t), today = d.toDateString() === new Date().toDateString();
  const time = d.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  return today ? time : d.toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" }) + ", " + time;
}

// fill makes a table's body show rows of cells: texts, right-aligned numbers as {n}, and long texts as {wrap}.
function fill(body, rows, empty) {
  const columns = body.parentElement.tHead.rows[0].cells.length;
  if (!rows.length) rows = [[{ empty }]];
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, r) => {
    const row = body.rows[r] || body.insertRow();
    while (row.cells.length > cells.length) row.deleteCell(-1);
    cells.forEach((cell, c) => {
      const td = row.cells[c] || row.insertCell();
      const kind = typeof cell === "string" ? "" : Object.keys(cell)[0];
      td.className = kind;
      td.colSpan = kind === "empty" ? columns : 1;
      text(td, kind ? String(cell[kind]) : cell);
    });
  });
}

const plots = [
  new Plot(by("rate-plot"), "rate", "Rate", (v) => short.format(v)),
  new Plot(by("lag-plot"), "lag_seconds", "Lag", span),
];
legend(by("legend"));

let samples = [];
let status = null;

function show(s) {
  status = s;
  document.body.dataset.state = s.state;
  document.title = `${s.state === "running" ? "" : s.state + ": "}${s.pipeline} – replicator`;
  text(by("pipeline"), s.pipeline);
  text(by("state"), s.state);
  text(by("about"), `${s.delivery} delivery, ${s.workers === 1 ? "one lane" : s.workers + " lanes"}, epoch ${s.epoch}, process started ${when(s.started)}`);
  text(by("version"), `replicator ${s.version}`);
  by("failure").hidden = !s.failure;
  text(by("failure"), s.failure ? `${s.state === "waiting" ? "It will start again after: " : ""}${s.failure}` : "");

  text(by("rate"), whole.format(s.rate));
  text(by("lag-seconds"), span(s.lag_seconds));
  text(by("lag"), whole.format(s.lag));
  text(by("checkpoint"), String(s.checkpoint));
  text(by("checkpoint-age"), span(Math.round(s.checkpoint_age_seconds)));
  text(by("in-doubt"), String(s.in_doubt.length));
  text(by("aside-rows"), whole.format(s.aside_rows));
  text(by("dead-letters"), whole.format(s.dead_letters));
  text(by("restarts"), whole.format(s.restarts));
  by("lag-seconds").classList.toggle("alarm", s.state === "stalled");
  by("aside-rows").classList.toggle("alarm", s.aside_rows > 0);
  fill(by("asides"), s.asides.map((a) => [{ wrap: a.table }, { wrap: a.reason.replaceAll("_", " ") }, { n: whole.format(a.records) }]), "No record was set aside.");

  flow(by("flow"), s);
  timeline(by("timeline"), s.checkpoints, span);
  text(by("checkpoints-note"), s.checkpoints.length ? `the last ${s.checkpoints.length === 1 ? "one" : s.checkpoints.length}, by the time of their cut` : "");
  fill(by("checkpoints"), s.checkpoints.slice(-6).reverse().map((c) => [
    c.id + (c.savepoint ? " (savepoint)" : ""), when(c.cut), { n: whole.format(c.rows) }, { n: bytes(c.bytes) }, ...["apply", ...phases].map((p) => ({ n: span(c.phases[p]) })),
  ]), "No checkpoint was complete yet.");
  text(by("tables-note"), s.table_count > s.tables.length ? `${s.tables.length} of ${s.table_count}, those that changed last` : "since the process began");
  fill(by("tables"), s.tables.map((t) => [
    t.source, t.target, ...[t.rows, t.reads, t.creates, t.updates, t.deletes].map((n) => ({ n: whole.format(n) })),
    t.last_change ? when(t.last_change) : "not said", { n: t.schema_version === null ? "–" : t.schema_version },
  ]), "No row was applied yet.");
  text(by("partitions-note"), s.partition_count > s.partitions.length ? `${s.partitions.length} of ${s.partition_count}, those furthest behind` : "");
  fill(by("partitions"), s.partitions.map((p) => [p.topic, ...[p.partition, p.position, p.end, p.lag].map((n) => ({ n: whole.format(n) }))]), "No partition is known yet.");
  fill(by("doubts"), s.in_doubt.map((d) => [{ wrap: d.transaction }, { n: span(d.age_seconds) }]), "None: every prepared transaction is decided.");
  fill(by("runs"), s.runs.slice().reverse().map((r) => [
    when(r.began), r.reason === "start" ? "process start" : "failed in " + r.reason, { n: r.epoch || "–" }, { n: r.epoch ? r.checkpoint : "–" },
    r.epoch ? `${span(r.recovery_seconds)}; ${r.committed} committed, ${r.rolled_back} rolled back` : "not reached", { wrap: r.error || "" },
  ]), "It has not begun to run.");
  by("pause").disabled = s.state === "paused" || !s.running;
  by("resume").disabled = s.state !== "paused";
  by("savepoint").disabled = !s.running;
}

function connection(state, message) {
  document.body.dataset.connection = state;
  by("connection").hidden = !message;
  text(by("connection"), message || "");
}

// The browser connects again by itself, except after an answer that is an error.
function listen() {
  const events = new EventSource("api/events");
  const on = (name, take) => events.addEventListener(name, (e) => take(JSON.parse(e.data)));
  on("history", (list) => { samples = list; plots.forEach((p) => p.show(samples)); settings(); });
  on("sample", (s) => { samples = [...samples, s].slice(-720); plots.forEach((p) => p.show(samples)); });
  on("status", (s) => { connection("open"); show(s); });
  events.onerror = () => {
    text(by("state"), "disconnected");
    const since = status ? ` What you see is from ${when(status.now)}.` : "";
    connection("lost", `The replicator does not answer: it may be starting again. Trying to reach it.${since}`);
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  };
}

async function settings() {
  const answer = await fetch("api/config");
  fill(by("config"), (await answer.json()).map((s) => [s.key, s.value]), "Nothing is set.");
}

async function act(path, done) {
  const answer = by("answer");
  answer.className = "quiet";
  text(answer, "Asking…");
  try {
    const r = await fetch("api/" + path, { method: "POST", headers: { Authorization: "Bearer " + by("token").value } });
    const body = await r.json();
    if (!r.ok) throw new Error(body.error);
    text(answer, done(body));
  } catch (e) {
    answer.className = "quiet bad";
    text(answer, `Not done: ${e.message}`);
  }
}

by("savepoint").addEventListener("click", () => act("savepoint", (b) => `Checkpoint ${b.checkpoint} is a savepoint.`));
by("pause").addEventListener("click", () => act("pause", () => "Paused."));
by("resume").addEventListener("click", () => act("resume", () => "Resumed."));
by("actions").addEventListener("submit", (e) => e.preventDefault());
new ResizeObserver(() => { if (status) { flow(by("flow"), status); timeline(by("timeline"), status.checkpoints, span); } }).observe(by("main"));
listen();
