"use strict";
// Pure functions, from numbers to text. They are tested without a browser.

const COLOURS = { nsac: "#0072b2", gmle: "#e69f00", mcd: "#009e73", de: "#d55e00", der: "#cc79a7", sdenet: "#56b4e9" };
const GREYS = ["#555", "#888", "#aaa"];

function colour(method, methods) {
  const baselines = methods.filter((name) => !(name in COLOURS));
  return COLOURS[method] || GREYS[Math.max(0, baselines.indexOf(method)) % GREYS.length];
}

// Order of rows by their keys; rows without a number come last in either direction.
function order(keys, descending) {
  const empty = (key) => key === null || key === "" || Number.isNaN(key);
  return keys.map((key, i) => [key, i]).sort(([a, i], [b, j]) => {
    if (empty(a) || empty(b)) return empty(a) - empty(b) || i - j;
    const difference = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
    return (descending ? -difference : difference) || i - j;
  }).map(([, i]) => i);
}

// Fraction of observed values below each quantile level, from a histogram of PIT values.
function reliability(counts) {
  const total = counts.reduce((a, b) => a + b, 0);
  let sum = 0;
  return [0, ...counts.map((count) => (sum += count) / total)];
}

function scale(low, high, from, to) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}

function path(xs, ys) {
  return xs.map((x, i) => `${i ? "L" : "M"}${x.toFixed(1)} ${ys[i].toFixed(1)}`).join("");
}

function ticks(low, high, count) {
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw);
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + 1e-9 * step; v += step) found.push(Number(v.toPrecision(6)));
  return found;
}

function axes(x, y, xs, ys, box) {
  const [left, right, top, bottom] = box;
  return xs.map((v) => `<line x1="${x(v)}" x2="${x(v)}" y1="${top}" y2="${bottom}" stroke="#eee"/>` +
      `<text x="${x(v)}" y="${bottom + 14}" text-anchor="middle">${v}</text>`).join("") +
    ys.map((v) => `<line x1="${left}" x2="${right}" y1="${y(v)}" y2="${y(v)}" stroke="#eee"/>` +
      `<text x="${left - 5}" y="${y(v) + 4}" text-anchor="end">${v}</text>`).join("");
}

// curves: [{method, counts}]
function drawReliability(curves, methods) {
  const box = [42, 390, 10, 330], x = scale(0, 1, box[0], box[1]), y = scale(0, 1, box[3], box[2]);
  const grid = [0, 0.2, 0.4, 0.6, 0.8, 1];
  const lines = curves.map(({ method, counts }) => {
    const fractions = reliability(counts), levels = fractions.map((_, i) => i / counts.length);
    const dashes = method in COLOURS ? "" : ' stroke-dasharray="4 3"';
    return `<path d="${path(levels.map(x), fractions.map(y))}" fill="none" stroke="${colour(method, methods)}" ` +
      `stroke-width="${method === "nsac" ? 3 : 1.6}"${dashes} data-method="${method}"/>`;
  });
  return `<svg viewBox="0 0 400 365" role="img" aria-label="reliability diagram">${axes(x, y, grid, grid, box)}` +
    `<path d="${path([x(0), x(1)], [y(0), y(1)])}" stroke="#222" stroke-dasharray="2 3" fill="none"/>${lines.join("")}` +
    `<text x="${(box[0] + box[1]) / 2}" y="360" text-anchor="middle">quantile level</text></svg>`;
}

// Whether a sequence fluctuates so much that its order shows no structure.
function fluctuates(y) {
  const range = Math.max(...y) - Math.min(...y);
  return y.slice(1).reduce((sum, v, i) => sum + Math.abs(v - y[i]), 0) > 10 * range;
}

// `residual`: draw differences from the prediction, for bands that are thinner than a line.
function drawBands(panel, sorted, residual) {
  const rank = sorted ? order(panel.mean, false) : panel.mean.map((_, i) => i);
  const pick = (name) => rank.map((i) => panel[name][i]);
  const observed = pick("y"), predicted = pick("mean"), half = pick("half_90"), epistemic = pick("epistemic");
  const mean = residual ? predicted.map(() => 0) : predicted;
  const y = residual ? observed.map((v, i) => v - predicted[i]) : observed;
  const at = sorted ? rank.map((_, i) => i) : pick("at");
  // The widest 2 % of the bands do not set the scale of the axis.
  const ends = [...mean.map((m, i) => m - half[i]), ...mean.map((m, i) => m + half[i])].sort((a, b) => a - b);
  const cut = Math.floor(ends.length * 0.02);
  const low = Math.min(...y, ends[cut]), high = Math.max(...y, ends[ends.length - 1 - cut]), gap = 0.04 * (high - low);
  const box = [52, 690, 8, 290];
  const px = scale(Math.min(...at), Math.max(...at), box[0], box[1]);
  const clip = (v) => Math.min(high + gap, Math.max(low - gap, v));
  const scaled = scale(low - gap, high + gap, box[3], box[2]), py = (v) => scaled(clip(v));
  const area = (size) => path([...at, ...at.slice().reverse()].map(px),
    [...mean.map((m, i) => py(m + size[i])), ...mean.map((m, i) => py(m - size[i])).reverse()]) + "Z";
  const inside = y.map((v, i) => Math.abs(v - mean[i]) <= half[i]);
  const dots = y.map((v, i) => `<circle cx="${px(at[i]).toFixed(1)}" cy="${py(v).toFixed(1)}" r="2.6" ` +
    `fill="${inside[i] ? "#222" : "#d55e00"}" data-details="observed ${observed[i].toPrecision(4)}; ` +
    `predicted ${predicted[i].toPrecision(4)} &#177; ${half[i].toPrecision(3)} (90 % interval), ` +
    `epistemic standard deviation ${epistemic[i].toPrecision(2)}"/>`);
  return `<svg viewBox="0 0 700 320" role="img" aria-label="observed values and prediction intervals">` +
    axes(px, scaled, ticks(Math.min(...at), Math.max(...at), 6), ticks(low, high, 5), box) +
    `<path d="${area(half)}" fill="#bfd9ea" opacity=".75"/>` +
    `<path d="${area(epistemic.map((e) => 1.645 * e))}" fill="#f3c9a8" opacity=".8"/>` +
    `<path d="${path(at.map(px), mean.map(py))}" fill="none" stroke="#0072b2" stroke-width="1.6"/>${dots.join("")}</svg>`;
}

if (typeof module !== "undefined") module.exports = { order, reliability, drawReliability, drawBands, fluctuates, ticks };

// Functions that change the page.
function sortable(table) {
  const body = table.tBodies[0];
  table.querySelectorAll("th button").forEach((button) => button.addEventListener("click", () => {
    const head = button.closest("th"), index = head.cellIndex, descending = head.ariaSort === "ascending";
    const rows = [...body.rows];
    const keys = rows.map((row) => {
      const value = row.cells[index].dataset.value;
      return value === undefined ? row.cells[index].textContent : value === "" ? null : Number(value);
    });
    table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    head.ariaSort = descending ? "descending" : "ascending";
    order(keys, descending).forEach((i) => body.append(rows[i]));
  }));
}

function chooser(box) {
  const show = () => {
    const choice = [...box.querySelectorAll("select")].map((select) => select.value).join(" ");
    box.querySelectorAll("[data-choice]").forEach((each) => { each.hidden = each.dataset.choice !== choice; });
  };
  box.querySelectorAll("select").forEach((select) => select.addEventListener("change", show));
  show();
}

function reliabilityFigure(figure, data) {
  const methods = Object.keys(data.methods), plot = figure.querySelector(".plot");
  const legend = figure.querySelector(".legend");
  legend.innerHTML = methods.map((m) => `<label><input type="checkbox" value="${m}" checked>` +
    `<i style="background:${colour(m, methods)}"></i>${m}</label>`).join("");
  const draw = () => {
    const kind = figure.querySelector("select").value;
    const on = [...legend.querySelectorAll("input:checked")].map((input) => input.value);
    plot.innerHTML = drawReliability(on.map((m) => ({ method: m, counts: data.methods[m].pit[kind] })), methods);
  };
  figure.addEventListener("change", draw);
  draw();
}

function bandsFigure(figure, data) {
  const methods = Object.keys(data.methods), plot = figure.querySelector(".plot");
  const select = figure.querySelector("select"), [sorted, residual] = figure.querySelectorAll("input");
  const details = figure.querySelector(".details");
  select.innerHTML = methods.map((m) => `<option>${m}</option>`).join("");
  const first = data.methods[methods[0]].bands[0];
  sorted.checked = !first.ordered && fluctuates(first.y);
  const draw = () => {
    plot.innerHTML = data.methods[select.value].bands
      .map((panel) => `<div class="facts">${panel.name}</div>${drawBands(panel, sorted.checked, residual.checked)}`).join("");
  };
  figure.addEventListener("change", draw);
  plot.addEventListener("pointerover", (event) => {
    if (event.target.dataset.details) details.textContent = event.target.dataset.details;
  });
  draw();
}

if (typeof document !== "undefined") {
  const data = JSON.parse(document.getElementById("data").textContent);
  document.querySelectorAll("table.sortable").forEach(sortable);
  document.querySelectorAll(".chooser").forEach(chooser);
  document.querySelectorAll("figure.reliability").forEach((f) => reliabilityFigure(f, data[f.dataset.of]));
  document.querySelectorAll("figure.bands").forEach((f) => bandsFigure(f, data[f.dataset.of]));
  document.documentElement.dataset.ready = "yes";
}
