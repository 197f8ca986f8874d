"use strict";
// The whole model on one row: inputs, networks, Gaussian process, trees, their stack, calibration and intervals.

// Standardised numbers, from those in their own unit; null and NaN are missing values.
function standardise({ centre, scale }, values) {
  return values.map((value, i) => {
    if (value === null || Number.isNaN(value)) return NaN;
    const z = value / scale[i] - centre[i] / scale[i], size = Math.abs(z);
    return Math.fround(Math.sign(z) * (Math.min(size, 2) + Math.log1p(Math.max(size - 2, 0))));
  });
}

// A row of a table, from standardised numbers and codes of categories, 0 if missing.
function prepareTable({ table: { sizes, missing } }, x, codes) {
  const known = x.map((each) => (Number.isNaN(each) ? 0 : each)), flags = x.map((each) => (Number.isNaN(each) ? 1 : 0));
  const numbers = missing ? [...known, ...flags] : known;
  const oneHot = (code, size) => Array.from({ length: size + 1 }, (_, i) => (i === code ? 1 : 0));
  const described = [...numbers, ...codes.flatMap((code, i) => oneHot(code, sizes[i]))];
  const design = [...numbers, ...codes.flatMap((code, i) => oneHot(Math.min(code, 64), Math.min(sizes[i], 64)))];
  return { x, numbers, codes, described, design };
}

function covariance(u, v, variances) {
  let square = 0, product = 0;
  for (let i = 0; i < u.length; i++) { square += (u[i] - v[i]) ** 2; product += u[i] * v[i]; }
  const r = Math.sqrt(3 * square), smooth = variances[0] * (1 + r) * Math.exp(-r) + variances[1] * product;
  return smooth + (variances[2] ? variances[2] * Math.exp(-r / 0.05) : 0);
}

// Four sums at a time: a processor need not wait for the sum before.
function dot(a, b, n) {
  let s0 = 0, s1 = 0, s2 = 0, s3 = 0, i = 0;
  for (; i + 3 < n; i += 4) { s0 += a[i] * b[i]; s1 += a[i + 1] * b[i + 1]; s2 += a[i + 2] * b[i + 2]; s3 += a[i + 3] * b[i + 3]; }
  for (; i < n; i++) s0 += a[i] * b[i];
  return s0 + s1 + s2 + s3;
}

// One more row of a Cholesky factor.
function choleskyRow(rows, entry) {
  const i = rows.length, row = new Float64Array(i + 1);
  for (let j = 0; j < i; j++) row[j] = (entry(i, j) - dot(row, rows[j], j)) / rows[j][j];
  row[i] = Math.sqrt(Math.max(entry(i, i) - dot(row, row, i), 1e-300));
  rows.push(row);
}

// L^-1 b and L^-T b for the rows of a Cholesky factor L.
function solveLower(rows, b) {
  const solved = new Float64Array(b.length);
  for (let i = 0; i < b.length; i++) solved[i] = (b[i] - dot(rows[i], solved, i)) / rows[i][i];
  return solved;
}

function solveUpper(rows, b) {
  const solved = Float64Array.from(b);
  for (let i = b.length - 1; i >= 0; i--) {
    solved[i] /= rows[i][i];
    for (let j = 0; j < i; j++) solved[j] -= rows[i][j] * solved[i];
  }
  return solved;
}

function makeKernel(tensors) {
  const inverse = tensors["kernel.inverse_length"].values, variances = tensors["kernel.variances"].values;
  const rows = tensors["kernel.rows"], [m, inputs] = rows.shape, inducing = [];
  for (let i = 0; i < m; i++) inducing.push(Float64Array.from(inverse, (each, j) => each * rows.values[i * inputs + j]));
  const coefficient = tensors["kernel.coefficient"], outputs = coefficient.shape[1], packed = tensors["kernel.triangle"];
  const noise = packed ? null : tensors["kernel.noise"].values, jitter = packed ? 0 : tensors["kernel.jitter"].values[0];
  const entry = (added) => (i, j) => covariance(inducing[i], inducing[j], variances) + (i === j ? added(i) : 0);
  const noisy = { rows: [], entry: entry((i) => noise[i]) }, prior = { rows: [], entry: entry(() => jitter) };
  const factors = packed ? [] : jitter ? [noisy, prior] : [noisy];
  // A factor takes up to a second for many rows, so it can be computed in slices of some milliseconds.
  function prepare(milliseconds = Infinity) {
    const start = Date.now();
    for (const factor of factors)
      while (factor.rows.length < m && Date.now() - start < milliseconds) choleskyRow(factor.rows, factor.entry);
    return factors.every((factor) => factor.rows.length === m);
  }
  // The variance of f is k(x, x) - |F k|^2: F is stored, or the inverse of the factor of K + N, after M = I - j (K + jI)^-1.
  function explainedVariance(k) {
    if (!packed) {
      prepare();
      const without = jitter ? solveUpper(prior.rows, solveLower(prior.rows, k)) : k;
      return solveLower(noisy.rows, k.map((each, i) => each - jitter * without[i])).reduce((sum, each) => sum + each * each, 0);
    }
    let total = 0;
    for (let i = 0, at = 0, size = tensors["kernel.size"].values[0]; i < size; i++) {
      let sum = 0;
      for (let j = i; j < size; j++) sum += packed.values[at++] * k[j];
      total += sum * sum;
    }
    return total;
  }
  const run = (design) => {
    const u = design.map((each, i) => each * inverse[i]), mean = new Array(outputs).fill(0);
    const k = inducing.map((row) => covariance(u, row, variances));
    for (let i = 0; i < m; i++) for (let c = 0; c < outputs; c++) mean[c] += k[i] * coefficient.values[i * outputs + c];
    const prior = variances[0] + variances[2] + variances[1] * u.reduce((sum, each) => sum + each * each, 0);
    return { mean, variance: Math.max(prior - explainedVariance(k), 0) };
  };
  return Object.assign(run, { prepare });
}

// Mean over the boosted models; a leaf has no children.
function runTrees(tensors, design, outputs) {
  const at = (name) => tensors[`trees.${name}`].values, start = at("start"), first = at("first"), totals = at("total");
  const feature = at("feature"), left = at("left"), right = at("right"), threshold = at("threshold"), value = at("value");
  const models = start.length / outputs, mean = new Array(outputs).fill(0);
  start.forEach((each, i) => { mean[i % outputs] += each / models; });
  for (let tree = 0; tree < totals.length; tree++) {
    let node = 0;
    while (left[first[tree] + node])
      node = design[feature[first[tree] + node]] <= threshold[first[tree] + node] ? left[first[tree] + node] : right[first[tree] + node];
    mean[totals[tree] % outputs] += value[first[tree] + node] / models;
  }
  return mean;
}

function rangeVariance({ lower, upper, slopeLower, slopeUpper }, x) {
  return x.reduce((total, each, i) => {
    if (Number.isNaN(each)) return total;
    const size = Math.abs(each), value = size > 2 ? Math.sign(each) * (2 + Math.expm1(Math.min(size - 2, 30))) : each;
    const beyond = Math.max(value - upper[i], 0) - Math.max(lower[i] - value, 0);
    return total + ((beyond > 0 ? slopeUpper[i] : slopeLower[i]) * beyond) ** 2;
  }, 0);
}

// Draws of the stack of networks, process and trees, (draws, outputs): see `nsac.estimators.stack`.
function stackDraws(model, ensemble, row) {
  const { stack, outputs } = model, { mean: kernel, variance } = model.kernel(row.design);
  const trees = runTrees(model.tensors, row.design, outputs), extra = rangeVariance(model.ranges, row.x);
  const draws = stack.normal.map(() => ({ mean: [], logStd: [] }));
  for (let c = 0; c < outputs; c++) {
    const means = [ensemble.mean[c], kernel[c], trees[c]], w = stack.weights.map((each) => each[c]);
    const total = Math.max(w.reduce((a, b) => a + b, 0), 1e-12), share = w.map((each) => each / total);
    const centre = share.reduce((sum, each, i) => sum + each * means[i], 0);
    const apart = share.reduce((sum, each, i) => sum + each * (means[i] - centre) ** 2, 0);
    let mean = w.reduce((sum, each, i) => sum + each * means[i], 0);
    mean = Math.min(Math.max(mean, stack.limits[0][c]), stack.limits[1][c]);
    const noise = Math.min(stack.aleatoric[0][c] + stack.aleatoric[1][c] * ensemble.aleatoric[c], stack.maxNoise[c]);
    const gamma = stack.epistemic.map((each) => each[c]);
    let spread = gamma[0] * ensemble.epistemic[c] + gamma[1] * variance + gamma[2] * apart + extra;
    if (stack.maxEpistemic) spread = Math.min(spread, stack.maxEpistemic[c]);
    draws.forEach((draw, n) => {
      draw.mean.push(mean + stack.normal[n] * Math.sqrt(spread));
      draw.logStd.push(Math.log(noise) / 2 + Math.log(stack.scale[n][c]));
    });
  }
  return draws;
}

const average = (values) => values.reduce((a, b) => a + b, 0) / values.length;

function momentsOf(draws, c) {
  const means = draws.map((draw) => draw.mean[c]), mean = average(means);
  return { mean, aleatoric: average(draws.map((draw) => Math.exp(2 * draw.logStd[c]))),
    epistemic: average(means.map((each) => (each - mean) ** 2)) };
}

function runNetworks(model, row, clamp) {
  return model.members.map((member, i) => runNetwork(member, row, model.settings, clamp && clamp.member === i ? clamp.cells : {}));
}

// Prediction of one row as it is, before calibration: draws, and the networks with their cells.
function drawsOf(model, row, clamp) {
  const networks = runNetworks(model, row, clamp), all = networks.flatMap((network, i) => {
    const { mean, logStd } = model.members[i]["stack.choice"] ? poolWithTrees(model.members[i], row, network) : network;
    return mean.map((each, n) => ({ mean: each, logStd: logStd[n] }));
  });
  if (!model.stack) return { networks, draws: all };
  const ensemble = { mean: [], aleatoric: [], epistemic: [] };
  for (let c = 0; c < model.outputs; c++) {
    const { mean, aleatoric } = momentsOf(all, c);
    ensemble.mean.push(mean);
    ensemble.aleatoric.push(aleatoric);
    ensemble.epistemic.push(average(networks.map((network) =>
      momentsOf(network.mean.map((each, n) => ({ mean: each, logStd: network.logStd[n] })), c).epistemic)));
  }
  return { networks, ensemble, draws: stackDraws(model, ensemble, row) };
}

// With values of donors where none was missing in training: draw n has those of donor n modulo 20.
function tableDraws(model, { values, codes }, clamp) {
  const { donors, learned } = model.table, x = standardise(model.table, values);
  const absentX = x.map((each, i) => Number.isNaN(each) && !learned.x[i]);
  const absentC = codes.map((each, i) => !each && !learned.c[i]);
  const imputed = absentX.some(Boolean) || absentC.some(Boolean);
  const run = (k) => drawsOf(model, !imputed ? prepareTable(model, x, codes) : prepareTable(
    model, x.map((each, i) => (absentX[i] ? donors[k].x[i] : each)), codes.map((each, i) => (absentC[i] ? donors[k].c[i] : each))), clamp);
  const result = run(0);
  for (let k = 1; imputed && k < Math.min(20, result.draws.length, donors.length); k++) {
    const other = run(k).draws;
    for (let n = k; n < other.length; n += 20) result.draws[n] = other[n];
  }
  const margin = model.margins[Math.min(missingClass(model.table.patterns, x, codes), model.margins.length - 1)];
  return { ...result, unit: model.unit, offset: model.offset, factor: new Array(model.outputs).fill(1), margin };
}

// Class of a row by its missing values, whose margins are its own.
function missingClass(patterns, x, codes) {
  if (!patterns) return 0;
  const { learned, frequent, counts } = patterns;
  const absent = [...x.map(Number.isNaN), ...codes.map((code) => code === 0)].map((each, i) => each && learned[i]);
  const same = frequent.findIndex((pattern) => pattern.every((each, i) => each === absent[i]));
  const number = absent.filter(Boolean).length, place = frequent.length - 1 + counts.filter((each) => number >= each).length;
  return same >= 0 ? same : place < frequent.length ? frequent.length + counts.length : place;
}

function linkInverse(link, z) {
  if (link.name === "identity") return z;
  let y;
  if (link.name === "logit") {
    const width = link.upper - link.lower + 2 * link.margin;
    y = z < 0 ? link.lower + width * sigmoid(z) - link.margin : link.upper - (width * sigmoid(-z) - link.margin);
  } else {
    const t = link.upper === null ? z : -z;
    const distance = (link.name === "log" ? Math.exp(Math.min(t, 300)) : link.scale * softplus(t)) - link.margin;
    y = link.upper === null ? (link.lower || 0) + distance : link.upper - distance;
  }
  return Math.min(Math.max(y, link.lower === null ? -Infinity : link.lower), link.upper === null ? Infinity : link.upper);
}

// Mean and variances of the target: quadrature over each draw, if there is a link.
function targetMoments(model, draws, c) {
  const { link, nodes, weights } = model;
  if (link.name === "identity") return momentsOf(draws, c);
  const within = [], means = draws.map((draw) => {
    const centre = linkInverse(link, draw.mean[c]), std = Math.exp(draw.logStd[c]);
    let first = 0, second = 0;
    nodes.forEach((node, i) => {
      const distance = linkInverse(link, draw.mean[c] + std * node) - centre;
      first += weights[i] * distance;
      second += weights[i] * distance * distance;
    });
    within.push(Math.max(second - first * first, (1e-6 * link.margin) ** 2));
    return Math.min(Math.max(centre + first, link.lower === null ? -Infinity : link.lower), link.upper === null ? Infinity : link.upper);
  });
  const mean = average(means);
  return { mean, aleatoric: average(within), epistemic: average(means.map((each) => (each - mean) ** 2)) };
}

// Quantile of the mixture of draws, by bisection.
function mixtureQuantile(draws, c, q) {
  const cdf = (y) => average(draws.map((draw) => 0.5 * (1 + erf((y - draw.mean[c]) / Math.exp(draw.logStd[c]) / Math.SQRT2))));
  let low = Math.min(...draws.map((d) => d.mean[c] - 40 * Math.exp(d.logStd[c])));
  let high = Math.max(...draws.map((d) => d.mean[c] + 40 * Math.exp(d.logStd[c])));
  for (let i = 0; i < 100; i++) { const middle = (low + high) / 2; if (cdf(middle) < q) low = middle; else high = middle; }
  return (low + high) / 2;
}

// Calibrated prediction of one row, by output: mean, variances and interval; and the networks with their cells, of a
// series of events those of the output `focus`.
function predict(model, input, clamp = null, focus = 0) {
  if (model.kind === "events") return finish(model, eventDraws(model, input, clamp, input.queries, focus));
  return finish(model, (model.kind === "table" ? tableDraws : windowDraws)(model, input, clamp));
}

// One output alone, which is faster where each is computed by itself.
function predictOutput(model, input, clamp, c) {
  return model.kind === "events" ? finish(model, eventDraws(model, input, clamp, [input.queries[c]], 0)).outputs[0] : predict(model, input, clamp).outputs[c];
}

function finish(model, { draws, networks, ensemble, unit, offset, factor, margin, tokens }) {
  const outputs = unit.map((_, c) => {
    const centre = average(draws.map((draw) => draw.mean[c])), stretch = factor[c] * (model.kind === "events" ? 1 : model.scale[c]);
    const one = draws.map((draw) => ({ mean: [offset[c] + unit[c] * (centre + stretch * (draw.mean[c] - centre))],
      logStd: [draw.logStd[c] + Math.log(stretch) + Math.log(unit[c])] }));
    const { mean, aleatoric, epistemic } = momentsOf(one, 0), half = margin[c] === null ? 0 : margin[c] * Math.sqrt(aleatoric + epistemic);
    const ends = margin[c] === null
      ? [mixtureQuantile(one, 0, (1 - model.coverage) / 2), mixtureQuantile(one, 0, (1 + model.coverage) / 2)]
      : [mean - half, mean + half];
    const [lower, upper] = ends.map((end) => linkInverse(model.link, end));
    const target = targetMoments(model, one, 0);
    return { ...target, std: Math.sqrt(target.aleatoric + target.epistemic), lower, upper };
  });
  return { outputs, networks, ensemble, tokens };
}
