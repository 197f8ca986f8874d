"use strict";
// The networks of the model: encoder, circuit, attention and read-out of one row. Pure functions on arrays.

const TYPES = { i1: Int8Array, f4: Float32Array, f8: Float64Array, u1: Uint8Array, u2: Uint16Array, i4: Int32Array };

// Bytes of a compressed base64 text.
function inflate(content) {
  const bytes = Uint8Array.from(atob(content), (each) => each.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

// Tensors by name, from bytes, or a base64 text of them, and an index of types, offsets and shapes.
function unpack({ index, data, bytes }) {
  const buffer = bytes || Uint8Array.from(atob(data), (each) => each.charCodeAt(0)).buffer, tensors = {};
  for (const [name, [type, offset, shape]] of Object.entries(index)) {
    const size = shape.reduce((a, b) => a * b, 1), values = new TYPES[type](buffer, offset, size);
    tensors[name] = { shape, values: type === "f4" ? Float64Array.from(values) : values };
  }
  return tensors;
}

// erf without cancellation: a series of positive terms, and a continued fraction in the tails.
function erf(x) {
  const a = Math.abs(x);
  if (a > 6) return Math.sign(x);
  if (a < 3) {
    let term = a, sum = a;
    for (let n = 1; term > 1e-17 * sum; n++) sum += term *= (2 * a * a) / (2 * n + 1);
    return (Math.sign(x) * 2 * Math.exp(-a * a) * sum) / Math.sqrt(Math.PI);
  }
  let fraction = a;
  for (let n = 60; n > 0; n--) fraction = a + n / 2 / fraction;
  return Math.sign(x) * (1 - Math.exp(-a * a) / (fraction * Math.sqrt(Math.PI)));
}

const gelu = (x) => 0.5 * x * (1 + erf(x / Math.SQRT2));
const softplus = (x) => (x > 20 ? x : Math.log1p(Math.exp(x)));
const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const logSigmoid = (x) => -softplus(-x);

// W x + b with W (to, from).
function linear(weight, bias, x) {
  const [to, from] = weight.shape, w = weight.values, out = new Float64Array(to);
  for (let i = 0; i < to; i++) {
    let sum = bias ? bias.values[i] : 0;
    for (let j = 0, at = i * from; j < from; j++) sum += w[at + j] * x[j];
    out[i] = sum;
  }
  return out;
}

function mlp(tensors, name, x) {
  const hidden = linear(tensors[`${name}.0.weight`], tensors[`${name}.0.bias`], x).map(gelu);
  return linear(tensors[`${name}.2.weight`], tensors[`${name}.2.bias`], hidden);
}

// A row of a table as tokens: `numbers` have 0 and a flag where one is missing, and `codes` are categories.
function encodeTable(tensors, row) {
  const parts = [...row.numbers];
  row.codes.forEach((code, i) => {
    const { shape, values } = tensors[`encoder.levels.${i}.weight`];
    parts.push(...values.subarray(code * shape[1], (code + 1) * shape[1]));
  });
  const slots = linear(tensors["encoder.slots.weight"], tensors["encoder.slots.bias"], parts).map(gelu);
  const width = tensors["encoder.query.weight"].shape[0], tokens = [];
  for (let i = 0; i < slots.length; i += width) tokens.push(slots.subarray(i, i + width));
  const query = linear(tensors["encoder.query.weight"], tensors["encoder.query.bias"], parts);
  return { tokens, query, skip: parts, hidden: tokens.map(() => false) };
}

// A window as tokens, one per channel, and one for the time of the forecast; see `prepareWindow`.
function encodeWindow(tensors, row) {
  const identity = tensors["encoder.identity.weight"], width = identity.shape[1], tokens = [], hidden = [];
  row.filled.forEach((channel, v) => {
    const last = channel[channel.length - 1], change = channel.map((value) => value - last), features = [row.levels[v]];
    const typical = tensors["encoder.amplitudes"] && tensors["encoder.amplitudes"].values[v];
    if (typical) {
      const square = change.reduce((sum, each) => sum + each * each, 0) / change.length;
      const size = Math.sqrt(square + (0.3 * typical) ** 2);
      change.forEach((each, i) => { change[i] = each / size; });
      features.push(Math.log(size / typical));
    }
    if (row.missing) features.push(...row.absent[v]);
    const token = mlp(tensors, "encoder.token", [...change, ...features]);
    tokens.push(token.map((each, i) => each + identity.values[v * width + i]));
    hidden.push(row.missing && row.absent[v].every((flag) => flag));
  });
  if (tensors["encoder.calendar.0.weight"]) tokens.push(mlp(tensors, "encoder.calendar", row.calendar));
  if (tensors["encoder.company.weight"]) tokens.push(tensors["encoder.company.weight"].values);
  while (hidden.length < tokens.length) hidden.push(false);
  const flat = tokens.flatMap((token, i) => [...(hidden[i] ? token.map(() => 0) : token)]);
  const query = linear(tensors["encoder.query.weight"], tensors["encoder.query.bias"], flat);
  return { tokens, query, skip: null, hidden };
}

// Keys of a query: the `topk` largest scores among those that are not hidden, in their order.
function selectKeys(q, keys, hidden, topk) {
  const score = (k) => k.reduce((sum, each, i) => sum + each * q[i], 0);
  const allowed = keys.map((_, i) => i).filter((i) => !hidden[i]);
  if (allowed.length <= topk) return allowed;
  return allowed.sort((a, b) => score(keys[b]) - score(keys[a])).slice(0, topk).sort((a, b) => a - b);
}

// Cells of one query-key pair: tanh neurons along the wiring. `clamp` fixes potentials: {"inter 3": 0.5}.
function circuit(tensors, q, k, clamp) {
  const fixed = (layer, cells) => {
    for (const [name, value] of Object.entries(clamp)) {
      const [where, number] = name.split(" ");
      if (where === layer) cells[Number(number)] = value;
    }
    return cells;
  };
  const u = [...q, ...k];
  fixed("sensory", u);
  const inter = fixed("inter", linear(tensors["circuit.inter"], tensors["circuit.inter.bias"], u).map(Math.tanh));
  const drive = linear(tensors["circuit.command"], tensors["circuit.command.bias"], inter);
  let command = fixed("command", drive.map(Math.tanh));
  if (tensors["circuit.recurrent"]) {
    for (let step = 0; step < tensors["circuit.unfolds"].values[0]; step++) {
      const back = linear(tensors["circuit.recurrent"], null, command);
      command = fixed("command", drive.map((each, i) => Math.tanh(each + back[i])));
    }
  }
  const motor = fixed("motor", linear(tensors["circuit.motor"], tensors["circuit.motor.bias"], command));
  return { sensory: u, inter, command, motor };
}

// Gates, and moments of the logit at the internal time t.
function logit(motor, t) {
  const kappa = softplus(motor[0]) + 1e-5, phi = Math.tanh(motor[1]), psi = softplus(motor[2]) + 1e-5;
  return { kappa, phi, psi, t, ...moments(kappa, phi, psi, t) };
}

function moments(kappa, phi, psi, t) {
  const sigma = Math.sqrt(((psi * psi) / (2 * kappa)) * -Math.expm1(-2 * kappa * t));
  return { mu: phi * -Math.expm1(-kappa * t), sigma };
}

function softmax(logits) {
  const top = Math.max(...logits), each = logits.map((a) => Math.exp(a - top));
  const total = each.reduce((a, b) => a + b, 0);
  return each.map((a) => a / total);
}

// Novelty of a described input: variance of the mean, and the logarithm of the least standard deviation of the noise.
function novelty(tensors, described) {
  const at = (name) => tensors[`novelty.${name}`], centre = at("centre").values, whiten = at("whiten");
  const dim = centre.length, white = new Float64Array(whiten.shape[1]);
  for (let i = 0; i < dim; i++)
    for (let j = 0; j < white.length; j++) white[j] += (described[i] - centre[i]) * whiten.values[i * white.length + j];
  const kept = at("kept").values;
  let nearest = Infinity, size = 0;
  for (let r = 0; r < kept.length; r += white.length) {
    let distance = 0;
    for (let j = 0; j < white.length; j++) distance += (white[j] - kept[r + j]) ** 2;
    if (distance < nearest) nearest = distance;
  }
  for (const each of white) size += (each * each) / white.length;
  const frequency = at("frequency"), count = frequency.shape[1], factor = at("factor"), phase = at("phase").values;
  const features = new Float64Array(count);
  for (let r = 0; r < count; r++) {
    let angle = phase[r];
    for (let j = 0; j < white.length; j++) angle += (white[j] / 4) * frequency.values[j * count + r];
    features[r] = Math.sqrt(2 / count) * Math.cos(angle);
  }
  let posterior = 0;
  for (let j = 0; j < factor.shape[1]; j++) {
    let sum = 0;
    for (let r = 0; r < count; r++) sum += features[r] * factor.values[r * factor.shape[1] + j];
    posterior += sum * sum;
  }
  const u = Math.max(posterior, 1e-6) * Math.max(nearest, 1e-3);
  const prior = Math.min((1 + size * at("scale").values[0] ** 2) / 2, 9);
  const logShare = logSigmoid(at("log_amplitude").values[0] + Math.log(u));
  const least = Array.from(at("usual").values, (each) => (logShare + Math.log(each)) / 2);
  return { variance: prior * Math.exp(logShare), least };
}

const ENCODERS = { table: encodeTable, windows: encodeWindow, events: (tensors, row) => encodeEvents(tensors, row) };

// Sensory potentials of the tokens; queries of one row share them.
function senseTokens(tensors, encoded) {
  if (encoded.shared && encoded.shared.sensed.get(tensors).k) return encoded.shared.sensed.get(tensors);
  const sense = (name) => encoded.tokens.map((token) => linear(tensors[`${name}.weight`], tensors[`${name}.bias`], token));
  const found = { k: sense("key"), v: sense("value") };
  return encoded.shared ? Object.assign(encoded.shared.sensed.get(tensors), found) : found;
}

// Draws of mean and log standard deviation of one network for one row, and all of its cells.
function runNetwork(tensors, row, settings, clamp = {}) {
  const { heads, topk, noise, draws } = settings, encoded = ENCODERS[settings.kind](tensors, row);
  const q = linear(tensors["query.weight"], tensors["query.bias"], encoded.sensory || encoded.query), size = q.length / heads;
  const { k, v } = senseTokens(tensors, encoded);
  const part = (z, h) => z.slice(h * size, (h + 1) * size), expected = new Float64Array(q.length), cells = [];
  for (let h = 0; h < heads; h++) {
    const internal = (elapsed) => Math.max(sigmoid(tensors["clock.t_b"].values[h] - tensors["clock.t_a"].values[h] * elapsed), 1e-6);
    const keys = selectKeys(part(q, h), k.map((each) => part(each, h)), encoded.hidden, topk);
    const pairs = keys.map((key) => {
      const cell = circuit(tensors, part(q, h), part(k[key], h), clamp), t = internal(encoded.elapsed ? encoded.elapsed[key] : 1);
      return { key, ...cell, ...logit(cell.motor, t) };
    });
    const weights = softmax(pairs.map((pair) => pair.mu));
    pairs.forEach((pair, i) => {
      pair.weight = weights[i];
      part(v[pair.key], h).forEach((each, d) => { expected[h * size + d] += weights[i] * each; });
    });
    const drawn = Array.from({ length: draws }, (_, n) =>
      softmax(pairs.map((pair, i) => pair.mu + pair.sigma * noise[(n * topk + i) * heads + h])));
    cells.push({ pairs, drawn });
  }
  return { ...readOut(tensors, encoded, v, expected, cells, row, settings), cells, q, k, v };
}

function readOut(tensors, encoded, v, expected, cells, row, { heads, topk, noise, draws, outputs, levels }) {
  const hidden = mlp(tensors, "reader.hidden", [...encoded.query, ...expected]).map(gelu);
  const gate = linear(tensors["reader.gate.weight"], tensors["reader.gate.bias"], hidden);
  const direct = linear(tensors["reader.direct.weight"], tensors["reader.direct.bias"], hidden);
  const weight = tensors["reader.attended.weight"], bias = tensors["reader.attended.bias"].values, size = gate.length / heads;
  const mean = [], logStd = [], tails = [];
  cells.forEach(({ pairs, drawn }, h) =>
    pairs.forEach((pair, i) => {
      pair.values = Array.from(bias, (_, c) => {
        let sum = 0;
        for (let d = h * size; d < (h + 1) * size; d++) sum += weight.values[c * gate.length + d] * (1 + gate[d]) * v[pair.key][d];
        return sum;
      });
      const own = drawn.map((weights) => weights[i]);
      pair.weightMean = own.reduce((a, b) => a + b, 0) / own.length;
      pair.weightStd = Math.sqrt(own.reduce((a, b) => a + (b - pair.weightMean) ** 2, 0) / own.length);
    }));
  for (let n = 0; n < draws; n++) {
    const out = Array.from(bias, (each, c) => each + direct[c]);
    for (const { pairs, drawn } of cells)
      pairs.forEach((pair, i) => pair.values.forEach((value, c) => { out[c] += drawn[n][i] * value; }));
    mean.push(out.slice(0, outputs));
    logStd.push(out.slice(outputs, 2 * outputs));
    tails.push(out.slice(2 * outputs));
  }
  const epistemic = tensors["novelty.centre"] ? novelty(tensors, row.described) : null;
  if (epistemic && tensors["persistence.leads"]) {
    const logUnit = Math.max(logError(tensors, "persistence", row), Math.log(0.1));
    epistemic.variance *= Math.exp(2 * logUnit);
    epistemic.least = epistemic.least.map((each) => each + logUnit);
  }
  if (epistemic) scaleDraws(mean, epistemic.variance, (n) => noise[n * topk * heads]);
  const skip = tensors["reader.skip.weight"] && linear(tensors["reader.skip.weight"], tensors["reader.skip.bias"], encoded.skip);
  for (let n = 0; n < draws; n++)
    for (let c = 0; c < outputs; c++) {
      if (skip) mean[n][c] += skip[c];
      const least = epistemic ? Math.max(epistemic.least[c], -10) : -10;
      logStd[n][c] = Math.min(Math.max(logStd[n][c], least), 3);
      if (tails[n].length) logStd[n][c] = Math.max(logStd[n][c] + Math.min(softplus(tails[n][c] - 1), 1.5) * levels[n], Math.log(0.01));
    }
  if (epistemic && tails[0].length) scaleOffsets(mean, logStd);
  return { mean, logStd, anchor: skip };
}

// Offsets of draws from their mean in proportion to their standard deviation: see `nsac.layers.tails.scale_offsets`.
function scaleOffsets(mean, logStd) {
  for (let c = 0; c < mean[0].length; c++) {
    const centre = average(mean.map((draw) => draw[c])), weight = softmax(logStd.map((draw) => draw[c]));
    const offset = mean.map((draw) => draw[c] - centre), middle = offset.reduce((sum, each, n) => sum + weight[n] * each, 0);
    const scaled = offset.map((each, n) => weight[n] * (each - middle)), square = (values) => average(values.map((each) => each * each));
    const factor = Math.sqrt(square(offset) / Math.max(square(scaled), Number.MIN_VALUE));
    mean.forEach((draw, n) => { draw[c] = centre + factor * scaled[n]; });
  }
}

// Scale draws about their mean so that their variance, averaged over outputs, is `variance`.
function scaleDraws(mean, variance, first) {
  const n = mean.length, outputs = mean[0].length, centre = [];
  for (let c = 0; c < outputs; c++) centre.push(mean.reduce((sum, draw) => sum + draw[c], 0) / n);
  let square = 0;
  const difference = mean.map((draw, i) => draw.map((each, c) => each - centre[c] + 1e-6 * first(i)));
  for (const draw of difference) for (const each of draw) square += (each * each) / (n * outputs);
  const factor = Math.sqrt(variance / Math.max(square, 1e-24));
  difference.forEach((draw, i) => draw.forEach((each, c) => { mean[i][c] = centre[c] + factor * each; }));
}
