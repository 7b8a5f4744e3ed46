// Relative times, live updates, keyboard shortcuts, copying, selection, and values of charts.
"use strict";

// Times: relative to now; the tooltip shows the exact time in the zone of the browser.

const units = [[120, 1, "s"], [7200, 60, "min"], [172800, 3600, "h"], [Infinity, 86400, "d"]];

function formatDuration(seconds) {
  if (seconds < 10) return `${seconds < 1 ? Math.max(0, Math.round(seconds * 10) / 10) : seconds.toFixed(1)} s`;
  const [, size, word] = units.find(([below]) => seconds < below);
  return `${Math.round(seconds / size)} ${word}`;
}

const zoned = new Intl.DateTimeFormat("en-GB", {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
  fractionalSecondDigits: 3, hourCycle: "h23", timeZoneName: "short",
});

function formatExact(at) {
  const part = Object.fromEntries(zoned.formatToParts(at).map(({ type, value }) => [type, value]));
  return `${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute}:${part.second}.${part.fractionalSecond} ${part.timeZoneName}`;
}

function updateTimes(root) {
  const now = Date.now();
  for (const time of root.querySelectorAll("time")) {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) continue;
    if (!time.dataset.exact) {
      time.dataset.exact = formatExact(at);
      time.title = time.dataset.exact;
    }
    if (time.classList.contains("exact")) { setText(time, time.dataset.exact); continue; }
    const seconds = (at - now) / 1000;
    setText(time, seconds > 0 ? `in ${formatDuration(seconds)}` : `${formatDuration(-seconds)} ago`);
  }
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Live updates: when the server reports a change, the page is fetched again, and the parts that differ are replaced.

const live = { source: null, paused: false, busy: false, wanted: false };

function mark(state) {
  const element = document.getElementById("live");
  if (!element) return;
  element.dataset.state = state;
  element.querySelector("span").textContent = state;
}

function listen() {
  if (live.source || live.paused || !document.querySelector("[data-live]")) return;
  const source = new EventSource("/live");
  live.source = source;
  source.addEventListener("open", () => mark("live"));
  source.addEventListener("change", refresh);
  source.addEventListener("error", () => { if (live.source === source) mark("reconnecting"); });
}

function stopListening(state) {
  live.source?.close();
  live.source = null;
  mark(state);
}

// A part is not replaced while the user works with it.
function isInUse(part) {
  return part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select, summary, button")
    || part.querySelector("input:checked:not([name=fair])") !== null
    || part.querySelector("details.confirm[open]") !== null
    || part.querySelector("table.rows:hover") !== null;
}

async function refresh() {
  if (live.busy || document.hidden) { live.wanted = true; return; }
  live.busy = true;
  try {
    const response = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error" });
    if (!response.ok) return;
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = part.id && fresh.getElementById(part.id);
      if (other && !isInUse(part)) replacePart(part, other);
    }
  } catch {
    mark("reconnecting");
  } finally {
    live.busy = false;
    if (live.wanted) { live.wanted = false; setTimeout(refresh, 1000); }
  }
}

// The last content of each part as the server sent it, without times, which are updated here.
const sent = new WeakMap();

function replacePart(part, other) {
  const text = other.innerHTML;
  const timeless = text.replace(/<time[^]*?<\/time>/g, (time) => time.match(/datetime="[^"]*"/)?.[0] ?? "");
  if (sent.get(part) === timeless) return;
  sent.set(part, timeless);
  const open = [...part.querySelectorAll("details")].map((one) => one.open);
  const regions = () => [...part.querySelectorAll("section[tabindex]")];
  const scrolled = regions().map((one) => [one.scrollLeft, one.scrollTop]);
  const focused = regions().indexOf(document.activeElement);
  part.innerHTML = text;
  regions().forEach((one, index) => { [one.scrollLeft, one.scrollTop] = scrolled[index] ?? [0, 0]; });
  regions()[focused]?.focus({ preventScroll: true });
  part.querySelectorAll("details").forEach((one, index) => { if (index < open.length) one.open = open[index]; });
  updateTimes(part);
  countPicked();
  showRow();
}

// Graphs open at their first job, which may be far from the edge.

function showRoots() {
  for (const graph of document.querySelectorAll(".graph")) {
    const root = graph.querySelector(".root")?.getBoundingClientRect();
    const box = graph.getBoundingClientRect();
    if (root) graph.scrollTop += root.top + root.height / 2 - box.top - box.height / 2;
  }
}

// Keyboard shortcuts.

const row = { id: null, index: -1 };

function rows() {
  return [...document.querySelectorAll("table.rows tbody tr:not(.sub)")];
}

function showRow() {
  const all = rows();
  all.forEach((one) => one.classList.remove("at"));
  const found = (row.id && document.getElementById(row.id)) || all[row.index];
  found?.classList.add("at");
  return found;
}

function move(by) {
  const all = rows();
  if (!all.length) return;
  const from = all.indexOf(document.querySelector("tr.at"));
  row.index = Math.min(all.length - 1, Math.max(0, from + by));
  row.id = all[row.index].id || null;
  showRow()?.scrollIntoView({ block: "nearest" });
}

function pressButton(key) {
  const button = document.querySelector(`[data-key="${key}"]`);
  if (button) { button.click(); return; }
  const verb = { r: "retry", c: "cancel" }[key];
  const picked = document.querySelector("#picked");
  const at = document.querySelector("tr.at input[name=id]");
  if (!verb || !picked) return;
  if (at && !picked.querySelector("input[name=id]:checked")) at.checked = true;
  picked.querySelector(`button[value=${verb}]`)?.click();
}

let awaitingPage = false;
const keys = {
  "/": () => {
    const field = [...document.querySelectorAll("input[name=q]")].find((one) => one.offsetParent);
    if (field) field.focus(); else location.href = "/jobs";
  },
  "?": () => document.getElementById("help")?.showModal(),
  g: () => { awaitingPage = true; setTimeout(() => { awaitingPage = false; }, 1500); },
  j: () => move(1),
  k: () => move(-1),
  x: () => document.querySelector("tr.at input[name=id]")?.click(),
  Enter: () => document.querySelector("tr.at td.main a")?.click(),
  r: () => pressButton("r"),
  c: () => pressButton("c"),
  p: () => { live.paused = !live.paused; if (live.paused) stopListening("paused"); else listen(); },
  Escape: () => document.querySelectorAll("details.confirm[open]").forEach((one) => { one.open = false; }),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input:not([type=checkbox]), textarea, select");
  if (event.key === "Escape" && typing) { event.target.blur(); return; }
  if (typing || document.querySelector("dialog[open]")) return;
  if (event.key === "Enter" && event.target.matches("a, button, summary, input")) return;
  if (awaitingPage) {
    awaitingPage = false;
    const to = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
    if (to) { event.preventDefault(); to.click(); return; }
  }
  const action = keys[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

// Copying, selection, confirmation.

document.addEventListener("click", async (event) => {
  const copy = event.target.closest("[data-copy]");
  if (copy && navigator.clipboard) {
    await navigator.clipboard.writeText(copy.dataset.copy);
    copy.classList.add("copied");
    setTimeout(() => copy.classList.remove("copied"), 1200);
  }
  for (const open of document.querySelectorAll("details.confirm[open]")) {
    if (!open.contains(event.target)) open.open = false;
  }
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-all]")) {
    document.querySelectorAll("input[name=id]").forEach((one) => { one.checked = event.target.checked; });
  }
  countPicked();
});

function countPicked() {
  const count = document.querySelectorAll("input[name=id]:checked").length;
  for (const button of document.querySelectorAll("[data-picked]")) {
    button.dataset.label ??= button.textContent;
    button.disabled = count === 0;
    button.textContent = count ? `${button.dataset.label} ${count}` : button.dataset.label;
  }
}

// Charts: values under the pointer.

function showValues(event) {
  const svg = event.target.closest?.("svg[data-chart]");
  document.querySelectorAll(".readout, .cursor").forEach((one) => one.remove());
  if (!svg) return;
  const data = JSON.parse(svg.dataset.chart);
  const box = svg.getBoundingClientRect();
  const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
  let nearest = 0;
  data.x.forEach((at, index) => { if (Math.abs(at - x) < Math.abs(data.x[nearest] - x)) nearest = index; });
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("class", "cursor");
  line.setAttribute("d", `M${data.x[nearest]} 8V${svg.viewBox.baseVal.height - 22}`);
  svg.append(line);
  const out = document.createElement("div");
  out.className = "readout";
  const add = (left, right) => {
    const one = document.createElement("div");
    for (const text of [left, right]) { const span = document.createElement("span"); span.textContent = text; one.append(span); }
    out.append(one);
  };
  add(new Date(data.times[nearest]).toLocaleTimeString(), "");
  for (const series of data.series) add(series.name, format(series.values[nearest], data.unit));
  const figure = svg.closest("figure");
  figure.append(out);
  const left = event.clientX - figure.getBoundingClientRect().left;
  out.style.top = "32px";
  if (left > figure.clientWidth / 2) out.style.right = `${figure.clientWidth - left + 12}px`; else out.style.left = `${left + 12}px`;
}

function format(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "s") return value < 1 ? `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms` : formatDuration(value);
  return `${value.toLocaleString(undefined, { maximumFractionDigits: 2 })}${unit}`;
}

document.addEventListener("pointermove", showValues);
document.addEventListener("visibilitychange", () => { if (!document.hidden && live.wanted) { live.wanted = false; refresh(); } });
window.addEventListener("pagehide", () => stopListening("static"));
window.addEventListener("pageshow", listen);

showRoots();
updateTimes(document);
setInterval(() => updateTimes(document), 1000);
countPicked();
