"use strict";
// What the page shows, and how it follows the row, the changed inputs and the clamped neurons.

const $ = (id) => document.getElementById(id);
const clone = (value) => JSON.parse(JSON.stringify(value)), MAX_KEYS = 14;

function start(data) {
  const model = makeModel(data.model, data.packed), events = data.kind === "events", series = data.kind === "series" || events;
  if (events) data.inputs = unpackEvents(data, model);
  const state = { row: 0, output: 0, quantity: "mean", member: 0, head: -1, key: -1, neuron: "inter 0", clamps: {}, cell: null, lead: 1 };
  let now = null, ready = !model.kernel, pending = 0, listing = 0;

  const observed = (row, c) => {
    const p = data.predictions, at = (name) => p[name][row][c];
    return { mean: at("mean"), aleatoric: at("aleatoric"), epistemic: at("epistemic"), std: Math.sqrt(at("aleatoric") + at("epistemic")), lower: at("lower"), upper: at("upper") };
  };
  const clamp = () => (Object.keys(state.clamps).length ? { member: state.member, cells: state.clamps } : null);
  const widthOf = (id) => Math.max(280, Math.floor($(id).clientWidth || 320));
  const distance = (lead) => Math.abs(lead - state.output) + (events && data.queryChannels[lead] !== data.queryChannels[state.output] ? 1e6 : 0);
  const explained = () => (series ? data.explained.reduce((best, lead, i) => (distance(lead) < distance(data.explained[best]) ? i : best), 0) : state.output);
  const keyLabels = () => (events ? state.input.tokens.map((token) => tokenName(data, token)) : data.keyLabels[state.member]);

  function options(id, names, selected) {
    $(id).replaceChildren(...names.map(([value, name]) => {
      const option = document.createElement("option");
      option.value = value;
      option.textContent = name;
      option.selected = String(value) === String(selected);
      return option;
    }));
  }

  function selectRow(row) {
    state.row = Math.min(Math.max(row, 0), data.rows.length - 1);
    state.input = copyInput(data.inputs[state.row]);
    state.cell = null;
    $("row").value = state.row;
    $("row-name").textContent = data.rows[state.row];
    drawInputs();
    update();
  }

  function update() {
    now = predict(model, state.input, clamp(), state.output);
    if (events) { if (state.key >= state.input.tokens.length) state.key = -1; fillKeys(); }
    drawPrediction();
    drawContributions();
    drawAttention();
    drawNeurons();
    drawTime();
    clearTimeout(listing);
    $("without-table").tBodies[0].replaceChildren();
    listing = setTimeout(listWithout, 400);
    document.documentElement.dataset.mean = now.outputs[state.output].mean;
    document.documentElement.dataset.std = now.outputs[state.output].std;
  }

  function drawPrediction() {
    const c = state.output, before = observed(state.row, c), after = now.outputs[c], name = data.outputs[c];
    const all = data.outputs.map((_, h) => observed(state.row, h));
    $("prediction-figure").innerHTML = events ? drawEventForecast(data, state.input, all, now.outputs, c, widthOf("prediction-figure")) : series
      ? drawForecast(state.input.values[0], all, now.outputs, c, widthOf("prediction-figure"), data.target)
      : drawInterval(before, after, widthOf("prediction-figure"), name);
    const ratio = (after.upper - after.lower) / (before.upper - before.lower), percent = 100 * data.coverage;
    const width = Math.abs(ratio - 1) < 0.0005 ? "" : ` The interval is ${format(100 * Math.abs(ratio - 1), 2)} % ${ratio > 1 ? "wider" : "narrower"} than as observed.`;
    $("prediction-text").textContent = `${name}: mean ${format(after.mean, 4)}, ${percent} % interval ${format(after.lower, 4)} to ${format(after.upper, 4)}; standard deviation ${format(after.std)}, of which aleatoric ${format(Math.sqrt(after.aleatoric))} and epistemic ${format(Math.sqrt(after.epistemic))}.${width}`;
  }

  function drawContributions() {
    const k = explained(), parts = data.attributions[state.quantity][state.row].map((each) => each[k]);
    const order = parts.map((_, i) => i).sort((a, b) => Math.abs(parts[b]) - Math.abs(parts[a])).slice(0, 15);
    $("contributions-figure").innerHTML = drawBars(order.map((i) => ({ name: data.features[i], value: parts[i] })), widthOf("contributions-figure"), "Contributions");
    const base = data.base[state.quantity][state.row][k], c = series ? data.explained[k] : k, whole = data.predictions[state.quantity][state.row][c];
    const of = state.quantity === "mean" ? "mean" : `${state.quantity} variance`;
    $("contributions-text").textContent = `${data.outputs[c]}, row as observed. Baseline ${format(base, 4)} plus contributions ${format(whole - base, 4)} is the ${of} ${format(whole, 4)}. ${data.texts.baseline}`;
    if (series) {
      const size = widthOf("observations-figure");
      $("observations-figure").innerHTML = events ? drawEvents(data, state.input, eventContributions(data, model, state, k), size, state.cell)
        : drawObservations(data.channels, observationCells(data, model, state, k), state.input.values, size, state.cell);
    }
  }

  // Pairs of the selected head and key, with weights that add up to 1.
  function pairs() {
    const cells = now.networks[state.member].cells, chosen = state.head < 0 ? cells : [cells[state.head]];
    let found = chosen.flatMap((cell) => cell.pairs.map((pair) => ({ pair, share: pair.weightMean / chosen.length })));
    if (state.key >= 0) found = found.filter(({ pair }) => pair.key === state.key);
    const total = found.reduce((sum, { share }) => sum + share, 0) || 1;
    return found.map(({ pair, share }) => ({ pair, share: share / total }));
  }

  function drawAttention() {
    const cells = now.networks[state.member].cells, chosen = state.head < 0 ? cells : [cells[state.head]];
    const unit = series ? 1 : model.unit[state.output];
    const bars = keyLabels().map((name, key) => {
      const own = chosen.flatMap((cell) => cell.pairs.filter((pair) => pair.key === key));
      const value = own.reduce((sum, pair) => sum + pair.weightMean, 0) / chosen.length;
      const std = Math.sqrt(own.reduce((sum, pair) => sum + pair.weightStd ** 2, 0)) / chosen.length;
      const adds = own.reduce((sum, pair) => sum + pair.weightMean * pair.values[events ? 0 : state.output], 0) * unit;
      return { name, value, low: Math.max(0, value - std), high: value + std, note: series ? "" : `adds ${format(adds)} to the mean of this network` };
    });
    const most = bars.map((bar) => bar.value).sort((a, b) => b - a)[MAX_KEYS - 1] || 0, shown = events ? bars.filter((bar) => bar.value > 0 && bar.value >= most) : bars;
    $("attention-figure").innerHTML = drawBars(shown, widthOf("attention-figure"), "Attention weights", false);
    $("attention-text").textContent = data.texts.attention;
  }

  function layers() {
    const found = pairs(), mean = (name) => {
      const total = new Array(found[0].pair[name].length).fill(0);
      for (const { pair, share } of found) pair[name].forEach((each, i) => { total[i] += share * each; });
      return total;
    };
    return found.length ? { sensory: mean("sensory"), inter: mean("inter"), command: mean("command"), motor: mean("motor") } : null;
  }

  function drawNeurons() {
    const tensors = model.members[state.member], found = layers();
    if (!found) { $("circuit-figure").textContent = "This key is not attended to."; return; }
    const synapses = [["sensory", "inter", "inter"], ["inter", "command", "command"], ["command", "command", "recurrent"], ["command", "motor", "motor"]]
      .filter(([, , name]) => tensors[`circuit.${name}`]).map(([from, to, name]) => ({ from, to, weight: tensors[`circuit.${name}`] }));
    const focused = document.activeElement && document.activeElement.dataset && document.activeElement.dataset.neuron;
    $("circuit-figure").innerHTML = drawCircuit(found, synapses, widthOf("circuit-figure"), state.neuron, state.clamps);
    if (focused) $("circuit-figure").querySelector(`[data-neuron="${state.neuron}"]`).focus();
    const [layer, number] = state.neuron.split(" "), value = found[layer][Number(number)], fixed = state.neuron in state.clamps;
    const range = layer === "motor" || layer === "sensory" ? 4 : 1;
    $("clamp-value").min = -range;
    $("clamp-value").max = range;
    $("neuron").textContent = `${neuronName(state.neuron, found)}: potential ${format(value)}`;
    $("clamp-on").checked = fixed;
    $("clamp-value").value = fixed ? state.clamps[state.neuron] : value;
    $("clamp-number").textContent = format(Number($("clamp-value").value), 2);
  }

  function drawTime() {
    const found = pairs();
    if (!found.length) return;
    const mean = (name) => found.reduce((sum, { pair, share }) => sum + share * pair[name], 0);
    const gates = { kappa: mean("kappa"), phi: mean("phi"), psi: mean("psi") }, own = mean("t");
    if (state.clock === undefined) { state.clock = own; $("clock").value = own; }
    const { mu, sigma } = moments(gates.kappa, gates.phi, gates.psi, state.clock);
    $("time-figure").innerHTML = drawLogit(gates, own, state.clock, widthOf("time-figure"));
    $("clock-number").textContent = format(state.clock, 2);
    $("time-text").textContent = `Gates: kappa ${format(gates.kappa)}, phi ${format(gates.phi)}, psi ${format(gates.psi)}. At internal time ${format(state.clock, 2)} the logit has mean ${format(mu)} and standard deviation ${format(sigma)}; the dashed line is the time in use, ${format(own)}. ${data.texts.time}`;
    if (series && !events) $("lead-text").textContent = leadText(data, state, now);
  }

  // Along the query time, as soon as nothing else happens.
  function drawQuery(again) {
    if (again) state.curve = queryCurve(data, model, state.input, clamp(), data.queryChannels[state.output], state.member, state.head);
    if (!state.curve) return;
    const at = Number($("lead").value), here = state.curve[at];
    $("query-figure").innerHTML = drawCurve(data, state.curve, at, widthOf("query-figure"));
    $("lead-text").textContent = `${format(here.lead / data.unit.length)} ${data.unit.name} after now: mean ${format(here.mean, 4)}, ${100 * data.coverage} % interval ${format(here.lower, 4)} to ${format(here.upper, 4)}; kappa ${format(here.kappa)}, phi ${format(here.phi)}, psi ${format(here.psi)}, standard deviation of the logit ${format(here.sigma)}.`;
  }

  function drawInputs() {
    const redraw = (focus) => { drawInputs(); update(); if ($(focus)) $(focus).focus(); };
    $("inputs").replaceChildren(...(events ? eventFields : series ? seriesInputs : tableInputs)(data, state, redraw));
  }

  // Exact: the model runs again without each value, one after the other while nothing else happens.
  function listWithout() {
    const token = listing, c = state.output, reference = now.outputs[c], found = [], jobs = removals(data, state.input), total = jobs.length;
    const step = () => {
      if (token !== listing || !ready && model.kernel) return;
      if (events && jobs.length === total) drawQuery(true);
      const until = Date.now() + 25;
      while (jobs.length && Date.now() < until) {
        const [name, remove] = jobs.shift(), input = copyInput(state.input);
        remove(input);
        const p = predictOutput(model, input, clamp(), c);
        found.push({ name, mean: p.mean, change: p.mean - reference.mean, ratio: (p.upper - p.lower) / (reference.upper - reference.lower) });
      }
      if (jobs.length) { setTimeout(step, 10); return; }
      listRemovals($("without-table"), found, reference.std);
    };
    step();
  }

  function drawGlobal() {
    const bars = data.importances.slice().sort((a, b) => b.importance - a.importance).slice(0, 15)
      .map(({ name, importance, lower, upper }) => ({ name, value: importance, low: lower, high: upper }));
    if (bars.length) $("global-figure").innerHTML = drawBars(bars, widthOf("global-figure"), "Importances", false);
    $("global-text").textContent = data.texts.global;
  }

  function moveNeuron(key) {
    const found = layers(), names = Object.keys(found), [layer, number] = state.neuron.split(" "), i = Number(number), row = names.indexOf(layer);
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[key];
    const next = names[Math.min(Math.max(row + step[0], 0), names.length - 1)], size = found[next].length;
    const place = step[0] ? Math.round(((i + 0.5) / found[layer].length) * size - 0.5) : i + step[1];
    state.neuron = `${next} ${Math.min(Math.max(place, 0), size - 1)}`;
    drawNeurons();
    $("circuit-figure").querySelector(`[data-neuron="${state.neuron}"]`).focus();
  }

  function setClamp(on, value) {
    if (on) state.clamps[state.neuron] = value; else delete state.clamps[state.neuron];
    update();
  }

  function listen() {
    $("row").addEventListener("input", () => selectRow(Number($("row").value)));
    $("previous").addEventListener("click", () => selectRow(state.row - 1));
    $("next").addEventListener("click", () => selectRow(state.row + 1));
    $("output").addEventListener("change", () => { state.output = Number($("output").value); update(); });
    $("member").addEventListener("change", () => { state.member = Number($("member").value); state.clamps = {}; fillKeys(); update(); });
    for (const name of ["head", "key"]) $(name).addEventListener("change", () => { state[name] = Number($(name).value); state.clock = undefined; drawAttention(); drawNeurons(); drawTime(); if (events) drawQuery(true); });
    $("clock").addEventListener("input", () => { state.clock = Number($("clock").value); drawTime(); });
    $("clamp-on").addEventListener("change", () => setClamp($("clamp-on").checked, Number($("clamp-value").value)));
    $("clamp-value").addEventListener("input", () => setClamp(true, Number($("clamp-value").value)));
    $("reset").addEventListener("click", () => { state.clamps = {}; state.clock = undefined; selectRow(state.row); });
    $("circuit-figure").addEventListener("click", (event) => {
      const cell = event.target.closest("[data-neuron]");
      if (cell) { state.neuron = cell.dataset.neuron; drawNeurons(); $("circuit-figure").querySelector(`[data-neuron="${state.neuron}"]`).focus(); }
    });
    $("circuit-figure").addEventListener("keydown", (event) => {
      if (!event.target.closest("[data-neuron]")) return;
      if (event.key.startsWith("Arrow")) { event.preventDefault(); moveNeuron(event.key); }
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); setClamp(!(state.neuron in state.clamps), Number($("clamp-value").value)); }
    });
    const pick = (cell) => { state.cell = cell; drawInputs(); drawContributions(); $("observations-figure").querySelector(`[data-cell="${[cell].flat().join(" ")}"]`).focus(); };
    const place = (name) => (events ? Number(name) : name.split(" ").map(Number));
    $("observations-figure").addEventListener("click", (event) => {
      const cell = event.target.closest("[data-cell]");
      if (cell) pick(place(cell.dataset.cell));
    });
    $("observations-figure").addEventListener("keydown", (event) => {
      const cell = event.target.closest("[data-cell]"), step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!cell || !step) return;
      event.preventDefault();
      const within = (value, most) => Math.min(Math.max(value, 0), most), at = place(cell.dataset.cell);
      if (events) pick(within(at + step[0] + step[1], state.input.tokens.length - 1));
      else pick([within(at[0] + step[0], data.channels.length - 1), within(at[1] + step[1], state.input.values[0].length - 1)]);
    });
    let timer = 0;
    window.addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(() => { update(); drawGlobal(); }, 150); });
  }

  function fillKeys() {
    options("key", [[-1, "all, by weight"], ...keyLabels().map((name, i) => [i, name])], state.key);
  }

  function prepareKernel() {
    ready = !model.kernel || model.kernel.prepare(30);
    if (!ready && !now) { now = true; state.input = copyInput(data.inputs[0]); drawContributions(); drawGlobal(); }  // needs no model
    if (!ready) { $("state").textContent = "Preparing the model …"; setTimeout(prepareKernel, 5); return; }
    $("state").textContent = "";
    begin();
  }

  function begin() {
    listen();
    selectRow(0);
    drawGlobal();
    const rows = data.rows.map((_, i) => i).filter((i) => i % Math.ceil(data.rows.length / 5) === 0);
    const difference = rows.map((i) => predict(model, data.inputs[i]).outputs.map((p, c) => {
      const { mean, lower, upper, std } = observed(i, c);
      return Math.max(Math.abs(p.mean - mean), Math.abs(p.lower - lower), Math.abs(p.upper - upper)) / std;
    })).flat();
    const worst = Math.max(...difference);
    $("check").textContent = `Its predictions differ from those of Python by at most ${format(worst, 2)} standard deviations in ${rows.length} rows.`;
    Object.assign(document.documentElement.dataset, { ready: "yes", difference: worst });
  }

  $("row").max = data.rows.length - 1;
  $("row-name").textContent = data.rows[0];
  options("output", data.outputs.map((name, i) => [i, name]), 0);
  $("output-label").textContent = series ? "Lead time" : "Output";
  options("member", model.members.map((_, i) => [i, i + 1]), 0);
  options("head", [[-1, "all"], ...Array.from({ length: data.model.heads }, (_, i) => [i, i + 1])], -1);
  if (!events) fillKeys();
  for (const quantity of ["mean", "aleatoric", "epistemic"]) {
    const button = document.createElement("button");
    button.textContent = quantity === "mean" ? "to the mean" : `to the ${quantity} variance`;
    button.setAttribute("aria-pressed", quantity === state.quantity);
    button.addEventListener("click", () => {
      state.quantity = quantity;
      for (const each of $("quantities").children) each.setAttribute("aria-pressed", each === button);
      drawContributions();
    });
    $("quantities").append(button);
  }
  for (const name of ["shares", "what-if-help", "without-text"]) $(name).textContent = data.texts[name];
  if (series) addLead(data, (lead) => {
    if (events) { drawQuery(false); return; }
    state.lead = lead;
    $("lead-text").textContent = leadText(data, state, now);
  });
  setTimeout(prepareKernel, 0);
}

if (typeof document !== "undefined")
  Promise.all(["data", "weights"].map((id) => inflate($(id).textContent))).then(([content, bytes]) => {
    const data = JSON.parse(new TextDecoder().decode(content));
    start({ ...data, packed: { ...data.packed, bytes } });
  });
