"use strict";
// Irregular series: every observation is a token, and a query is a channel and a lead time. See `nsac.models.events`.

const CYCLES = [0.25, 0.5, 1, 2, 4, 8], WIDTHS = [0.02, 0.1, 0.5], LINEAR = 5;
const logAge = (age) => Math.log1p(age / 0.01);
const timeFeatures = (tau) => [...CYCLES.map((c) => Math.sin(2 * Math.PI * c * tau)), ...CYCLES.map((c) => Math.cos(2 * Math.PI * c * tau))];
const compress = (x) => (Math.abs(x) <= LINEAR ? x : Math.sign(x) * LINEAR * (1 + Math.log(Math.abs(x) / LINEAR)));
const expand = (z) => (Math.abs(z) <= LINEAR ? z : Math.sign(z) * LINEAR * Math.exp(Math.abs(z) / LINEAR - 1));
const fillUnknown = (values) => [...values.map((each) => (Number.isNaN(each) ? 0 : compress(each))), ...values.map((each) => (Number.isNaN(each) ? 1 : 0))];
const byTime = (a, b) => a.time - b.time || a.channel - b.channel || a.value - b.value;

// Offset and scale of every channel from its own observations, and where they lie among all series.
function seriesUnits({ scale, channels, withLevels }, tokens) {
  const units = channels.map((_, c) => {
    const values = tokens.filter((token) => token.channel === c).map((token) => token.value), n = values.length;
    const at = (name) => scale[name][c];
    if (!n) return { offset: at("mean"), scale: at("std"), place: 0, width: 0 };
    const centre = average(values), variance = average(values.map((each) => (each - centre) ** 2));
    const typical = Math.exp(at("level") + at("slope") * Math.log(Math.abs(centre) + at("size"))), prior = typical ** 2;
    const shrinkage = Math.min(prior, at("typical") ** 2) / at("between"), offset = (n * centre + shrinkage * at("mean")) / (n + shrinkage);
    const std = Math.sqrt(Math.max((n * variance + 2 * prior) / (n + 2), 0.02 ** 2 * prior));
    return { offset, scale: std, place: Math.tanh((offset - at("mean")) / Math.sqrt(at("between")) / 2), width: Math.tanh(Math.log(std / typical) / 2) };
  });
  return { units, levels: withLevels ? [...units.map((each) => each.place), ...units.map((each) => each.width)] : [] };
}

// Statistics of one channel: values x at times tau, which ascend.
function channelStatistics(own) {
  const n = own.length, xs = own.map((each) => each.x), zero = WIDTHS.map(() => 0);
  if (!n) return { count: 0, last: 0, age: 0, mean: 0, recent: zero, features: new Array(14).fill(0) };
  const latest = own[n - 1].tau, ended = own.filter((each) => each.tau === latest), last = average(ended.map((each) => each.x)), mean = average(xs);
  const std = Math.sqrt(average(xs.map((each) => (each - mean) ** 2))), recent = [], slope = [];
  for (const width of WIDTHS) {
    const weight = own.map((each) => Math.exp((each.tau - latest) / width)), total = weight.reduce((a, b) => a + b, 0);
    const mean = (f) => own.reduce((sum, each, i) => sum + weight[i] * f(each, i), 0) / total, middle = mean((each) => each.tau - latest);
    const centred = own.map((each) => (each.tau - latest - middle) / width);
    recent.push(mean((each) => each.x));
    slope.push(mean((each, i) => centred[i] * each.x) / (mean((_, i) => centred[i] ** 2) + 0.2 ** 2));
  }
  const features = [1, Math.log1p(n), last, logAge(-latest), mean, Math.log(std + 0.05) - Math.log(0.05), Math.min(...xs), Math.max(...xs),
    ...recent.map((each) => each - last), ...slope];
  return { count: n, last, age: -latest, mean, recent, features };
}

// Observations as the networks read them; what does not depend on the query is computed once per network.
function prepareEvents(model, input) {
  const { events } = model, tokens = input.tokens.slice().sort(byTime), { units, levels } = seriesUnits(events, tokens);
  const known = tokens.map(({ channel, time, value }) => ({ channel, tau: time / events.timeScale, x: compress((value - units[channel].offset) / units[channel].scale) }));
  const statistics = events.channels.map((_, c) => channelStatistics(known.filter((token) => token.channel === c)));
  return { tokens, known, units, statistics, first: known.length ? known[0].tau : 0, static: fillUnknown([...input.static, ...levels]), sensed: new Map() };
}

function senseEvents(tensors, row) {
  if (row.sensed.has(tensors)) return row.sensed.get(tensors);
  const identity = tensors["encoder.identity.weight"], width = identity.shape[1];
  const embed = (channel) => Array.from(identity.values.subarray(channel * width, (channel + 1) * width));
  const state = mlp(tensors, "encoder.state", [...row.statistics.flatMap((each) => each.features), ...row.static]);
  const tokens = row.known.map(({ channel, tau, x }) => {
    const { mean, age } = row.statistics[channel];
    const numbers = [x, x - mean, logAge(-tau), logAge(-age - tau), tau];
    return [...mlp(tensors, "encoder.token", [...embed(channel), ...numbers, ...timeFeatures(tau)]), ...timeFeatures(tau - row.first)];
  });
  const found = { embed, state, tokens };
  row.sensed.set(tensors, found);
  return found;
}

// A query with its own `channel`, `lead` and `future`, and the tokens.
function encodeEvents(tensors, { row, channel, lead, future }) {
  const { embed, state, tokens } = senseEvents(tensors, row), own = row.statistics[channel], age = Math.abs(lead + own.age);
  const query = mlp(tensors, "encoder.query", [...embed(channel), ...own.features, lead, logAge(Math.abs(lead)), logAge(age), ...timeFeatures(lead), ...state, ...fillUnknown(future)]);
  const anchors = [own.last, (own.mean * own.count) / (own.count + 1), 0, ...own.recent].map(expand);
  const weights = softmax(Array.from(linear(tensors["encoder.anchor.weight"], tensors["encoder.anchor.bias"], query)));
  const skip = [weights.reduce((sum, each, i) => sum + each * anchors[i], 0)];
  const elapsed = row.known.map(({ tau }) => Math.abs(lead - tau));
  return { tokens, query, sensory: [...query, ...timeFeatures(lead - row.first)], skip, elapsed, hidden: tokens.map(() => false), shared: row };
}

function describeEvents(row, channel, lead, future) {
  const own = row.statistics[channel], seen = row.statistics.filter((each) => each.count), share = Math.max(seen.length, 1);
  const sum = (f) => seen.reduce((total, each) => total + f(each), 0);
  const about = [Math.log1p(seen.length), Math.log1p(sum((each) => each.count)), sum((each) => each.last) / share, Math.sqrt(sum((each) => each.last ** 2) / share)];
  return [...own.features, lead, logAge(Math.abs(lead + own.age)), ...about, ...row.static, ...fillUnknown(future)];
}

// Logarithm of the error of a baseline at the channel and lead time of a query: see `nsac.methods.baselines`.
function logError(tensors, name, { channel, clock }) {
  const [low, high] = tensors[`${name}.leads`].values, errors = tensors[`${name}.log_std`].values, bins = 12;
  const bin = Math.trunc(((clock - low) / Math.max(high - low, 1e-12)) * bins);
  return errors[channel * bins + Math.min(Math.max(bin, 0), bins - 1)];
}

// A share of the draws of a network, moved to the mean of the trees: see `nsac.methods.event_stack`.
function poolWithTrees(tensors, query, { mean, logStd, anchor }) {
  const [share, discount, factor] = tensors["stack.choice"].values, { row, channel, lead, future } = query, own = row.statistics[channel];
  const centre = average(mean.map((draw) => draw[0])), moved = mean.map((_, n) => Math.floor((n + 1) * share) - Math.floor(n * share)), few = share - average(moved);
  let shift = mean.map(() => 0);
  if (share) {
    const inputs = [...own.features, lead, lead + own.age, ...row.statistics.map((each) => each.last), ...row.statistics.map((each) => Math.log1p(each.count)),
      ...row.static, ...fillUnknown(future)].map(Math.fround);
    const place = Array.from(tensors["stack.targets"].values).indexOf(channel), trees = expand(own.last) + runTrees(tensors, inputs, tensors["stack.targets"].values.length)[place];
    const error = discount * Math.exp(2 * logError(tensors, "stack.trees", query)), variance = logStd.map((draw) => Math.exp(2 * draw[0]));
    shift = variance.map((each) => ((trees - centre) * each) / (each + error));
  }
  const pooled = mean.map((draw, n) => draw[0] + (moved[n] + few) * shift[n]), back = (factor - 1) * (average(pooled) - anchor[0]);
  return { mean: pooled.map((each) => [each + back]), logStd };
}

// Draws of all queries, {channel, lead, future}, with lead times on the clock; `networks` have the cells of query `focus`.
function eventDraws(model, input, clamp, queries, focus) {
  const { events } = model, row = prepareEvents(model, input), draws = [], unit = [], offset = [], factor = [], margin = [];
  const margins = events.margins[missingClass(events.patterns, row.statistics.map((each) => each.count || NaN), [])];
  let networks = null;
  queries.forEach(({ channel, lead, future }, c) => {
    const tau = lead / events.timeScale, described = describeEvents(row, channel, tau, future);
    const found = drawsOf(model, { row, channel, clock: lead, lead: tau, future, described }, clamp);
    found.draws.forEach(({ mean, logStd }, n) => {
      draws[n] = draws[n] || { mean: [], logStd: [] };
      draws[n].mean.push(mean[0]);
      draws[n].logStd.push(logStd[0]);
    });
    if (c === focus) networks = found.networks;
    const edges = events.edges[channel], column = channel * (edges.length + 1) + edges.filter((edge) => lead > edge).length;
    unit.push(row.units[channel].scale);
    offset.push(row.units[channel].offset);
    factor.push(events.scales[column]);
    margin.push(margins[column]);
  });
  return { draws, networks, unit, offset, factor, margin, tokens: row.tokens };
}

// Rows of the page from its tensors: observations in order of time, the queries of the outputs and attributes.
function unpackEvents(data, model) {
  const { leads, future, static: known } = model.tensors, row = (tensor, i, size) => (tensor ? Array.from(tensor.values.subarray(i * size, (i + 1) * size)) : []);
  const futures = future ? future.shape[2] : 0, count = data.queryChannels.length;
  return data.events.map((tokens, i) => ({
    tokens: tokens.map(([channel, time, value], id) => ({ channel, time, value, id })),
    queries: data.queryChannels.map((channel, c) => ({ channel, lead: leads.values[i * count + c], future: row(future, i * count + c, futures) })),
    static: row(known, i, known ? known.shape[1] : 0), row: i,
  }));
}

// Queries of one channel along the horizon.
function gridQueries(data, model, input, channel) {
  const future = model.tensors["grid.future"], size = future ? future.shape[2] : 0, count = data.gridLeads.length;
  return data.gridLeads.map((lead, g) => {
    const at = (input.row * count + g) * size;
    return { channel, lead, future: future ? Array.from(future.values.subarray(at, at + size)) : [] };
  });
}
