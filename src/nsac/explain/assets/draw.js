"use strict";
// Drawings as SVG text, from numbers and a width in pixels; all names are escaped.

const BLUE = "#0072b2", ORANGE = "#d55e00", GREY = "#8a8a8a", PALE = "#bfd9ea", SAND = "#f3c9a8";
const escapeText = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

function format(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "none";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) return value.toExponential(digits - 1);
  return String(Number(value.toPrecision(Math.max(digits, size >= 1 ? Math.floor(Math.log10(size)) + 1 : digits))));
}

const shorten = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);
const svg = (width, height, content, label) =>
  `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="group" aria-label="${escapeText(label)}">${content}</svg>`;
const text = (x, y, content, anchor = "start", kind = "") =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" class="${kind}">${escapeText(content)}</text>`;
const line = (x1, y1, x2, y2, more) =>
  `<line x1="${x1.toFixed(1)}" y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}" ${more}/>`;

function scaleTo(low, high, from, to) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}

// Horizontal bars, with whiskers where a bar has `low` and `high`.
function drawBars(bars, width, label, signed = true) {
  const named = Math.min(150, width * 0.33), right = width - 62, height = bars.length * 22 + 8;
  const ends = bars.flatMap(({ value, low = value, high = value }) => [value, low, high]);
  const x = scaleTo(Math.min(0, ...ends), Math.max(signed ? 0 : 1e-9, ...ends), named + 6, right);
  const rows = bars.map(({ name, value, low, high, note }, i) => {
    const y = 6 + i * 22, from = Math.min(x(0), x(value));
    const bar = `<rect x="${from.toFixed(1)}" y="${y}" width="${Math.max(0.5, Math.abs(x(value) - x(0))).toFixed(1)}" height="15" fill="${value < 0 ? ORANGE : BLUE}"><title>${escapeText(`${name}: ${format(value, 4)} ${note || ""}`)}</title></rect>`;
    const whisker = low === undefined ? "" : line(x(low), y + 7.5, x(high), y + 7.5, 'stroke="#222" stroke-width="2"') +
      line(x(low), y + 3, x(low), y + 12, 'stroke="#222"') + line(x(high), y + 3, x(high), y + 12, 'stroke="#222"');
    return text(named, y + 12, shorten(name, Math.floor(named / 6.6)), "end") + bar + whisker + text(width - 2, y + 12, format(value), "end", "soft");
  });
  return svg(width, height, line(x(0), 2, x(0), height - 2, 'stroke="#222"') + rows.join(""), label);
}

// The prediction of a table row: Python's in grey, that of the changed row in blue.
function drawInterval(before, after, width, unit) {
  const ends = [before, after].flatMap(({ lower, upper, mean }) => [lower, upper, mean]);
  const x = scaleTo(Math.min(...ends), Math.max(...ends), 16, width - 16), row = ({ lower, upper, mean }, y, colour, name) =>
    line(x(lower), y, x(upper), y, `stroke="${colour}" stroke-width="6" stroke-linecap="round" opacity="0.45"`) +
    `<circle cx="${x(mean).toFixed(1)}" cy="${y}" r="6" fill="${colour}"/>` + text(x(mean), y - 12, `${name} ${format(mean, 4)}`, x(mean) > width * 0.7 ? "end" : x(mean) < width * 0.3 ? "start" : "middle") +
    text(x(lower), y + 20, format(lower), "start", "soft") + text(x(upper), y + 20, format(upper), "end", "soft");
  return svg(width, 122, row(before, 30, GREY, "as observed") + row(after, 86, BLUE, "now"), `Prediction of ${unit}`);
}

// A series: observations of the target and the forecasts after it.
function drawForecast(observed, before, after, chosen, width, unit) {
  const steps = observed.length, n = after.length, known = observed.filter((each) => each !== null);
  const ends = [...known, ...before.flatMap((p) => [p.lower, p.upper]), ...after.flatMap((p) => [p.lower, p.upper])];
  const x = scaleTo(1 - steps, n, 36, width - 12), y = scaleTo(Math.min(...ends), Math.max(...ends), 176, 14);
  const path = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
  const band = (list, colour) => `<path d="${path([...list.map((p, h) => [x(h + 1), y(p.upper)]), ...list.map((p, h) => [x(h + 1), y(p.lower)]).reverse()])}Z" fill="${colour}" opacity="0.35"/>`;
  const past = observed.map((each, i) => (each === null ? "" : `<circle cx="${x(i + 1 - steps).toFixed(1)}" cy="${y(each).toFixed(1)}" r="2.5" fill="#222"/>`)).join("");
  const mean = (list, colour, dash) => `<path d="${path(list.map((p, h) => [x(h + 1), y(p.mean)]))}" fill="none" stroke="${colour}" stroke-width="2" ${dash}/>`;
  const axis = line(x(0.5), 8, x(0.5), 180, 'stroke="#bbb" stroke-dasharray="3 3"') + text(x(0.5), 196, "now", "middle", "soft") +
    text(32, y(Math.max(...ends)) + 4, format(Math.max(...ends)), "end", "soft") + text(32, y(Math.min(...ends)) + 4, format(Math.min(...ends)), "end", "soft");
  const mark = `<circle cx="${x(chosen + 1).toFixed(1)}" cy="${y(after[chosen].mean).toFixed(1)}" r="6" fill="${BLUE}"/>`;
  return svg(width, 202, axis + band(before, GREY) + band(after, BLUE) + past + mean(before, GREY, 'stroke-dasharray="4 3"') + mean(after, BLUE, "") + mark, `Forecast of ${unit}`);
}

// Attribution of each observation of a window: one strip per channel, a cell per step.
function drawObservations(channels, cells, values, width, selected) {
  const named = Math.min(110, width * 0.28), steps = cells.length, size = (width - named - 8) / steps;
  const most = Math.max(1e-12, ...cells.flat().map(Math.abs));
  const rows = channels.map((name, v) => text(named, 22 + v * 26, shorten(name, Math.floor(named / 6.6)), "end") + cells.map((step, l) => {
    const share = step[v] / most, missing = values[v][l] === null, here = selected && selected[0] === v && selected[1] === l;
    const label = `${name}, ${l + 1 - steps} steps: ${missing ? "missing" : `${format(values[v][l])}, contributes ${format(step[v])}`}`;
    return `<g role="button" tabindex="${here || (!selected && v === 0 && l === steps - 1) ? 0 : -1}" data-cell="${v} ${l}" aria-label="${escapeText(label)}"><rect x="${(named + 6 + l * size).toFixed(1)}" y="${8 + v * 26}" width="${Math.max(1, size - 1).toFixed(1)}" height="20" fill="${missing ? "#fff" : share < 0 ? ORANGE : BLUE}" fill-opacity="${missing ? 1 : (0.06 + 0.94 * Math.abs(share)).toFixed(3)}" stroke="${here ? "#000" : missing ? "#bbb" : "none"}" stroke-width="${here ? 2 : 1}"><title>${escapeText(label)}</title></rect></g>`;
  }).join(""));
  const height = channels.length * 26 + 26;
  const axis = text(named + 6, height - 4, `${1 - steps} steps`, "start", "soft") + text(width - 2, height - 4, "now", "end", "soft");
  return svg(width, height, rows.join("") + axis, "Contribution of each observation");
}

// The circuit in layers, from sensory neurons at the top to motor neurons at the bottom.
function drawCircuit(layers, synapses, width, selected, clamped) {
  const names = Object.keys(layers), gap = 92, height = gap * names.length + 6, place = {};
  names.forEach((name, row) => layers[name].forEach((_, i) => {
    place[`${name} ${i}`] = [((i + 0.5) / layers[name].length) * width, 40 + row * gap];
  }));
  const lines = synapses.flatMap(({ from, to, weight: { shape, values } }) => {
    const found = [];
    let most = 1e-12;
    for (let i = 0; i < shape[0]; i++) for (let j = 0; j < shape[1]; j++) most = Math.max(most, Math.abs(values[i * shape[1] + j] * layers[from][j]));
    for (let i = 0; i < shape[0]; i++)
      for (let j = 0; j < shape[1]; j++) {
        const weight = values[i * shape[1] + j], [x1, y1] = place[`${from} ${j}`], [x2, y2] = place[`${to} ${i}`];
        if (!weight) continue;
        const light = Math.min(1, Math.abs(weight * layers[from][j]) / most), near = selected === `${from} ${j}` || selected === `${to} ${i}`;
        const look = `stroke="${weight > 0 ? BLUE : ORANGE}" stroke-width="${(0.6 + 2.2 * light).toFixed(2)}" stroke-opacity="${(near ? 0.95 : 0.05 + 0.6 * light).toFixed(2)}" ${weight < 0 ? 'stroke-dasharray="5 3"' : ""}`;
        found.push(from === to ? `<path d="M${x1.toFixed(1)} ${y1}Q${((x1 + x2) / 2).toFixed(1)} ${y1 + 34} ${x2.toFixed(1)} ${y2}" fill="none" ${look}/>` : line(x1, y1, x2, y2, look));
      }
    return found;
  });
  const cells = names.flatMap((name) => layers[name].map((value, i) => {
    const id = `${name} ${i}`, [x, y] = place[id], here = id === selected, radius = Math.min(9, (width / layers[name].length) * 0.42);
    const fill = value >= 0 ? BLUE : ORANGE, label = `${neuronName(id, layers)}, potential ${format(value)}${id in clamped ? ", clamped" : ""}`;
    return `<g role="button" tabindex="${here ? 0 : -1}" data-neuron="${id}" aria-label="${label}"><circle cx="${x.toFixed(1)}" cy="${y}" r="${radius.toFixed(1)}" fill="#fff"/><circle cx="${x.toFixed(1)}" cy="${y}" r="${radius.toFixed(1)}" fill="${fill}" fill-opacity="${Math.min(1, Math.abs(value)).toFixed(3)}" stroke="${here ? "#000" : id in clamped ? "#c00" : "#777"}" stroke-width="${here || id in clamped ? 3 : 1}"><title>${label}</title></circle></g>`;
  }));
  const titles = names.map((name, row) => text(2, 18 + row * gap, name === "sensory" ? "sensory: query, then key" : name === "motor" ? "motor: kappa, phi, psi" : name, "start", "soft"));
  return svg(width, height, lines.join("") + titles.join("") + cells.join(""), "Circuit");
}

function neuronName(id, layers) {
  const [layer, number] = id.split(" "), i = Number(number), half = layers.sensory.length / 2;
  if (layer === "sensory") return i < half ? `query neuron ${i + 1}` : `key neuron ${i - half + 1}`;
  return layer === "motor" ? `motor neuron ${["kappa", "phi", "psi"][i]}` : `${layer} neuron ${i + 1}`;
}

// Mean and standard deviation of a logit along internal time; `at` is the time that is shown, `own` the head's.
function drawLogit({ kappa, phi, psi }, own, at, width) {
  const grid = Array.from({ length: 81 }, (_, i) => ({ t: Math.max(i / 80, 1e-6), ...moments(kappa, phi, psi, Math.max(i / 80, 1e-6)) }));
  const ends = grid.flatMap(({ mu, sigma }) => [mu - sigma, mu + sigma]), x = scaleTo(0, 1, 56, width - 10);
  const y = scaleTo(Math.min(...ends, 0), Math.max(...ends, 0), 150, 12), here = moments(kappa, phi, psi, at);
  const path = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
  const band = path([...grid.map(({ t, mu, sigma }) => [t, mu + sigma]), ...grid.map(({ t, mu, sigma }) => [t, mu - sigma]).reverse()]);
  return svg(width, 176, `<path d="${band}Z" fill="${PALE}"/><path d="${path(grid.map(({ t, mu }) => [t, mu]))}" fill="none" stroke="${BLUE}" stroke-width="2"/>` +
    line(x(own), 8, x(own), 154, 'stroke="#999" stroke-dasharray="3 3"') + line(x(at), y(here.mu - here.sigma), x(at), y(here.mu + here.sigma), `stroke="${ORANGE}" stroke-width="3"`) +
    `<circle cx="${x(at).toFixed(1)}" cy="${y(here.mu).toFixed(1)}" r="5" fill="${ORANGE}"/>` + text(52, y(Math.max(...ends, 0)) + 6, format(Math.max(...ends, 0), 2), "end", "soft") +
    text(52, y(Math.min(...ends, 0)) + 2, format(Math.min(...ends, 0), 2), "end", "soft") + text(56, 170, "0", "middle", "soft") + text(width - 10, 170, "internal time 1", "end", "soft"), "Logit along internal time");
}
