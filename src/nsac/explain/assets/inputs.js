"use strict";
// Fields to change the values of a row, and the list of what the prediction is without each of them.

function field(name, control, remove) {
  const label = document.createElement("label"), button = document.createElement("button");
  label.textContent = name;
  label.htmlFor = control.id;
  button.textContent = "Remove";
  button.setAttribute("aria-label", `Remove ${name}`);
  button.addEventListener("click", remove);
  return [label, control, button];
}

function numberInput(id, value, before, change) {
  const control = document.createElement("input");
  Object.assign(control, { id, type: "number", step: "any", value: value === null ? "" : Number(value.toPrecision(8)), placeholder: "missing" });
  control.classList.toggle("changed", value !== before);
  control.addEventListener("change", () => change(control.value === "" || !Number.isFinite(Number(control.value)) ? null : Number(control.value)));
  return control;
}

function tableInputs(data, state, redraw) {
  return data.columns.flatMap(({ name, place, options }, i) => {
    const id = `input-${i}`, kind = options ? "codes" : "values", before = data.inputs[state.row][kind][place];
    const change = (value) => { state.input[kind][place] = value; redraw(id); };
    if (!options) return field(name, numberInput(id, state.input.values[place], before, change), () => change(null));
    const control = document.createElement("select");
    control.id = id;
    control.replaceChildren(...["missing", ...options].map((each, code) =>
      Object.assign(document.createElement("option"), { value: code, textContent: each, selected: code === state.input.codes[place] })));
    control.classList.toggle("changed", state.input.codes[place] !== before);
    control.addEventListener("change", () => change(Number(control.value)));
    return field(name, control, () => change(0));
  });
}

// The field of the selected observation; one value of the target must remain.
function seriesInputs(data, state, redraw) {
  const steps = state.input.values[0].length, [v, l] = state.cell || [0, steps - 1];
  const change = (value) => {
    const rest = state.input.values[0].filter((each, i) => each !== null && !(v === 0 && i === l)).length;
    if (value !== null || rest) state.input.values[v][l] = value;
    redraw("input-0");
  };
  const before = data.inputs[state.row].values[v][l];
  return field(`${data.channels[v]}, ${l + 1 - steps} steps`, numberInput("input-0", state.input.values[v][l], before, change), () => change(null));
}

// Names of the values of a row, and functions that remove each of them from a copy.
function removals(data, input) {
  if (data.kind === "events") return input.tokens.map((token, i) => [tokenName(data, token), (copy) => { copy.tokens.splice(i, 1); }]);
  if (data.kind !== "series")
    return data.features.map((name, i) => [name, (copy) => data.columns.forEach((column) => {
      if (column.feature === i) copy[column.options ? "codes" : "values"][column.place] = column.options ? 0 : null;
    })]);
  return input.values.flatMap((channel, v) => channel.flatMap((value, l) => {
    const only = v === 0 && channel.filter((each) => each !== null).length === 1;
    return value === null || only ? [] : [[`${data.channels[v]}, ${l + 1 - channel.length} steps`, (copy) => { copy.values[v][l] = null; }]];
  }));
}

// The largest changes first.
function listRemovals(table, found, std) {
  const size = ({ ratio, change }) => Math.abs(Math.log(ratio)) + Math.abs(change) / std;
  const row = (names, tag) => {
    const line = document.createElement("tr");
    line.append(...names.map((each) => Object.assign(document.createElement(tag), { textContent: each })));
    return line;
  };
  found.sort((a, b) => size(b) - size(a));
  table.tHead.replaceChildren(row(["without", "mean", "change", "interval"], "th"));
  table.tBodies[0].replaceChildren(...found.slice(0, 30).map(({ name, mean, change, ratio }) =>
    row([name, format(mean, 4), format(change), `${format(100 * Math.abs(ratio - 1), 2)} % ${ratio >= 1 ? "wider" : "narrower"}`], "td")));
}

// A slider of the query time, and a text about it.
function addLead(data, change) {
  const label = document.createElement("label"), slider = document.createElement("input"), note = document.createElement("p"), controls = document.createElement("div");
  const grid = data.gridLeads, range = grid ? { max: grid.length - 1, step: 1, value: 0 } : { max: data.outputs.length, step: 0.1, value: 1 };
  Object.assign(slider, { type: "range", id: "lead", min: 0, ...range });
  Object.assign(note, { id: "lead-text", className: "text" });
  Object.assign(label, { textContent: "Query time", htmlFor: "lead" });
  controls.className = "controls";
  controls.append(label, slider);
  if (grid) $("time").append(Object.assign(document.createElement("div"), { id: "query-figure", className: "figure" }));
  $("time").append(controls, note);
  slider.addEventListener("input", () => change(Number(slider.value)));
}

// Between steps a forecast is interpolated, from the last known value on.
function leadText(data, { input, lead }, now) {
  const target = input.values[0], age = ageOf(target.map((each) => (each === null ? NaN : each)));
  const last = target[target.length - 1 - age], right = Math.min(Math.ceil(lead), now.outputs.length) || 1;
  const from = right === 1 ? { at: -age, mean: last, lower: last, upper: last } : { at: right - 1, ...now.outputs[right - 2] };
  const share = (lead - from.at) / (right - from.at), between = (name) => from[name] + share * (now.outputs[right - 1][name] - from[name]);
  return `${format(lead)} step${lead === 1 ? "" : "s"} after now: mean ${format(between("mean"), 4)}, ${100 * data.coverage} % interval ${format(between("lower"), 4)} to ${format(between("upper"), 4)}.`;
}
