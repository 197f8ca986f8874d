"use strict";
// What a page shows of the observations of a series; and how those of irregular ones are changed, removed and added.

// Contributions of a window, by step and channel.
function observationCells(data, model, { quantity, row }, k) {
  const { shape, values } = model.tensors[`observations.${quantity}`], [, steps, channels, leads] = shape;
  const scale = data.observationScale[quantity][row][k];
  return Array.from({ length: steps }, (_, l) => Array.from({ length: channels }, (_, v) =>
    (scale * values[((row * steps + l) * channels + v) * leads + k]) / 127));
}

// Contributions of the observations of an irregular series, in order of time.
function eventContributions(data, model, { quantity, row }, k) {
  const { shape, values } = model.tensors[`observations.${quantity}`], first = data.observationStart[row], scale = data.observationScale[quantity][row][k];
  return data.inputs[row].tokens.map((_, i) => (scale * values[(first + i) * shape[1] + k]) / 127);
}

const tokenName = (data, { channel, time }) => `${data.channels[channel]}, ${format(time / data.unit.length, 4)} ${data.unit.name}`.trim();
const copyInput = (input) => (input.tokens ? { ...input, tokens: input.tokens.map((token) => ({ ...token })) } : clone(input));

// Observations of a target and the forecasts after them, on one axis of time.
function drawEventForecast(data, input, before, after, chosen, width) {
  const channel = data.queryChannels[chosen], unit = data.unit.length, same = data.queryChannels.map((each, c) => (each === channel ? c : -1)).filter((c) => c >= 0);
  const past = input.tokens.filter((token) => token.channel === channel), lead = (c) => input.queries[c].lead / unit;
  const ends = [...past.map((token) => token.value), ...same.flatMap((c) => [before[c].lower, before[c].upper, after[c].lower, after[c].upper])];
  const x = scaleTo(-data.lookback / unit, lead(same[same.length - 1]), 44, width - 12), y = scaleTo(Math.min(...ends), Math.max(...ends), 176, 14);
  const path = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
  const band = (list, colour) => `<path d="${path([...same.map((c) => [x(lead(c)), y(list[c].upper)]), ...same.map((c) => [x(lead(c)), y(list[c].lower)]).reverse()])}Z" fill="${colour}" opacity="0.35"/>`;
  const mean = (list, colour, dash) => `<path d="${path(same.map((c) => [x(lead(c)), y(list[c].mean)]))}" fill="none" stroke="${colour}" stroke-width="2" ${dash}/>`;
  const dots = past.map(({ time, value }) => `<circle cx="${x(time / unit).toFixed(1)}" cy="${y(value).toFixed(1)}" r="3" fill="#222"/>`).join("");
  const axis = line(x(0), 8, x(0), 180, 'stroke="#bbb" stroke-dasharray="3 3"') + text(x(0), 196, "now", "middle", "soft") +
    text(40, y(Math.max(...ends)) + 4, format(Math.max(...ends)), "end", "soft") + text(40, y(Math.min(...ends)) + 4, format(Math.min(...ends)), "end", "soft");
  const mark = `<circle cx="${x(lead(chosen)).toFixed(1)}" cy="${y(after[chosen].mean).toFixed(1)}" r="6" fill="${BLUE}"/>`;
  return svg(width, 202, axis + band(before, GREY) + band(after, BLUE) + dots + mean(before, GREY, 'stroke-dasharray="4 3"') + mean(after, BLUE, "") + mark, `Forecast of ${data.channels[channel]}`);
}

// One strip per channel; the size of a dot is the size of the contribution.
function drawEvents(data, input, contributions, width, selected) {
  const named = Math.min(110, width * 0.28), gap = 30, height = data.channels.length * gap + 26, x = scaleTo(-data.lookback, 0, named + 16, width - 12);
  const values = input.tokens.map((token) => (token.id === undefined ? null : contributions[token.id])), most = Math.max(1e-12, ...values.map((each) => Math.abs(each || 0)));
  const strips = data.channels.map((name, c) => text(named, 24 + c * gap, shorten(name, Math.floor(named / 6.6)), "end") + line(named + 8, 19 + c * gap, width - 4, 19 + c * gap, 'stroke="#ddd"'));
  const dots = input.tokens.map((token, i) => {
    const value = values[i], here = i === selected, radius = 4 + 7 * Math.sqrt(Math.abs(value || 0) / most);
    const label = `${tokenName(data, token)}: ${format(token.value)}${value === null ? ", added" : `, contributes ${format(value)}`}`;
    const look = value === null ? 'fill="#fff" stroke="#222"' : `fill="${value < 0 ? ORANGE : BLUE}" fill-opacity="0.6" stroke="${here ? "#000" : "none"}"`;
    return `<g role="button" tabindex="${i === (selected ?? input.tokens.length - 1) ? 0 : -1}" data-cell="${i}" aria-label="${escapeText(label)}"><circle cx="${x(token.time).toFixed(1)}" cy="${19 + token.channel * gap}" r="${radius.toFixed(1)}" ${look} stroke-width="${here ? 3 : 1}"><title>${escapeText(label)}</title></circle></g>`;
  });
  const axis = text(named + 6, height - 4, `${format(-data.lookback / data.unit.length)} ${data.unit.name}`, "start", "soft") + text(width - 2, height - 4, "now", "end", "soft");
  return svg(width, height, strips.join("") + dots.join("") + axis, "Contribution of each observation");
}

// The selected observation, and a new one: channel, time and value.
function eventFields(data, state, redraw) {
  const at = Math.min(state.cell ?? state.input.tokens.length - 1, state.input.tokens.length - 1), token = state.input.tokens[at], found = [];
  if (token) {
    const before = token.id === undefined ? null : data.inputs[state.row].tokens[token.id].value;
    const change = (value) => {
      if (value === null) { state.input.tokens.splice(at, 1); state.cell = null; } else token.value = value;
      redraw("input-0");
    };
    found.push(...field(tokenName(data, token), numberInput("input-0", token.value, before, change), () => change(null)));
  }
  const select = document.createElement("select"), time = document.createElement("input"), value = document.createElement("input"), button = document.createElement("button");
  const box = document.createElement("div"), note = document.createElement("label");
  select.id = "add-channel";
  select.replaceChildren(...data.channels.map((name, c) => Object.assign(document.createElement("option"), { value: c, textContent: name })));
  Object.assign(time, { id: "add-time", type: "number", step: "any", value: format(-data.lookback / data.unit.length / 20, 2), title: `time, ${data.unit.name}` });
  Object.assign(value, { id: "add-value", type: "number", step: "any", placeholder: "value" });
  for (const [control, name] of [[select, "Channel"], [time, `Time before now, ${data.unit.name || "at most 0"}`], [value, "Value"]]) control.setAttribute("aria-label", name);
  Object.assign(button, { id: "add", textContent: "Add" });
  note.textContent = `New observation: channel, time${data.unit.name ? ` (${data.unit.name})` : ""} and value`;
  note.htmlFor = "add-channel";
  button.addEventListener("click", () => {
    const when = Number(time.value) * data.unit.length, size = Number(value.value);
    if (value.value === "" || !Number.isFinite(size) || !(when <= 0) || when <= -data.lookback) { value.focus(); return; }
    const added = { channel: Number(select.value), time: when, value: size };
    state.input.tokens = state.input.tokens.filter((each) => each.channel !== added.channel || each.time !== when).concat(added).sort(byTime);
    state.cell = state.input.tokens.indexOf(added);
    redraw("add");
  });
  box.className = "add";
  box.append(select, time, value);
  return [...found, note, box, button];
}

// Gates, logit and forecast along the query time, for one network, and head if one is selected.
function queryCurve(data, model, input, clamp, channel, member, head) {
  return gridQueries(data, model, input, channel).map((query) => {
    const { outputs, networks } = finish(model, eventDraws(model, input, clamp, [query], 0)), cells = networks[member].cells;
    const chosen = head < 0 ? cells : [cells[head]], mean = (name) => chosen.reduce((sum, cell) => sum + cell.pairs.reduce((part, pair) => part + pair.weightMean * pair[name], 0), 0) / chosen.length;
    return { lead: query.lead, ...outputs[0], kappa: mean("kappa"), phi: mean("phi"), psi: mean("psi"), sigma: mean("sigma") };
  });
}

function drawCurve(data, curve, at, width) {
  const names = ["kappa", "phi", "psi", "sigma"], gap = 62, x = scaleTo(0, curve[curve.length - 1].lead, 56, width - 10);
  const panels = names.map((name, i) => {
    const values = curve.map((each) => each[name]), low = Math.min(...values), high = Math.max(...values), margin = Math.max((high - low) * 0.1, 1e-3 * Math.abs(high) + 1e-6);
    const y = scaleTo(low - margin, high + margin, (i + 1) * gap - 12, i * gap + 6);
    const path = curve.map((each, g) => `${g ? "L" : "M"}${x(each.lead).toFixed(1)} ${y(each[name]).toFixed(1)}`).join("");
    return `<path d="${path}" fill="none" stroke="${BLUE}" stroke-width="2"/><circle cx="${x(curve[at].lead).toFixed(1)}" cy="${y(curve[at][name]).toFixed(1)}" r="4" fill="${ORANGE}"/>` +
      text(50, i * gap + 22, name, "end") + text(50, i * gap + 38, format(curve[at][name], 3), "end", "soft");
  });
  const here = line(x(curve[at].lead), 0, x(curve[at].lead), gap * names.length - 8, 'stroke="#999" stroke-dasharray="3 3"');
  return svg(width, gap * names.length + 14, here + panels.join("") + text(56, gap * names.length + 8, "now", "start", "soft") + text(width - 10, gap * names.length + 8, `${format(curve[curve.length - 1].lead / data.unit.length)} ${data.unit.name} ahead`, "end", "soft"), "Gates along the query time");
}
