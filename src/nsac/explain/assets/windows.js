"use strict";
// Windows of a series as inputs: missing values are null.

// Linear in time between observed values, constant at the ends, and 0 without any.
function interpolate(values) {
  const known = values.map((each, i) => (Number.isNaN(each) ? -1 : i)).filter((i) => i >= 0);
  if (!known.length) return values.map(() => 0);
  return values.map((each, i) => {
    if (!Number.isNaN(each)) return each;
    const before = known.filter((j) => j < i).pop(), after = known.find((j) => j > i);
    if (before === undefined) return values[after];
    if (after === undefined) return values[before];
    return values[before] + ((values[after] - values[before]) * (i - before)) / (after - before);
  });
}

function ageOf(values) {
  let age = 0;
  while (age < values.length && Number.isNaN(values[values.length - 1 - age])) age++;
  return age;
}

// `values` are one array per channel, in their own unit; `calendar` are the numbers of the time of the forecast.
function prepareWindow(model, { values, calendar }) {
  const { centre, scale, missing, withAge } = model.windows;
  const z = values.map((channel, v) => channel.map((each) => (each === null ? NaN : (each - centre[v]) / scale[v])));
  const filled = z.map(interpolate), absent = z.map((channel) => channel.map((each) => (Number.isNaN(each) ? 1 : 0)));
  const age = ageOf(z[0]), known = withAge ? [...calendar, Math.log1p(age)] : calendar;
  const steps = filled[0].length, statistics = [(c) => c[steps - 1], (c) => Math.min(...c), (c) => Math.max(...c)];
  for (const lag of [1, Math.max(1, Math.floor(steps / 4))])
    statistics.push((c) => {
      const changes = lag < steps ? c.slice(lag).map((each, i) => (each - c[i]) ** 2) : [0];
      return Math.log(Math.sqrt(average(changes)) + 0.01);
    });
  const described = statistics.flatMap((statistic) => filled.map(statistic));
  if (missing) described.push(...absent.map(average));
  return { z, filled, absent, missing, calendar: known, age, described };
}

// Unit and offset of the forecasts, by lead time.
function lastAndUnit(model, row) {
  const { centre, scale, change, roughness } = model.windows, target = row.filled[0], steps = target.length;
  const age = Math.min(row.age, change.length - model.outputs), recent = Math.min(steps, Math.max(2, Math.floor(steps / 4)));
  const shift = Math.min(age, steps - recent);
  let square = 0;
  for (let i = steps - recent + 1; i < steps; i++) square += (target[i - shift] - target[i - 1 - shift]) ** 2;
  const rough = roughness === null ? 1 : (square / Math.max(1, recent - 1) / roughness ** 2 + 0.3 ** 2) ** 0.25;
  const unit = Array.from({ length: model.outputs }, (_, h) => scale[0] * rough * change[age + h]);
  return { unit, offset: unit.map(() => centre[0] + scale[0] * target[steps - 1]) };
}

// Factors on the standard deviation for the age of the last known value.
function outageFactor(model, age) {
  const { outageAges, outageScale } = model.windows;
  const left = outageAges.filter((each) => age >= each).length - 1, right = Math.min(left + 1, outageAges.length - 1);
  const share = Math.min((age - outageAges[left]) / Math.max(outageAges[right] - outageAges[left], 1), 1);
  return outageScale[left].map((each, h) => each + share * (outageScale[right][h] - each));
}

function windowDraws(model, input, clamp) {
  const row = prepareWindow(model, input), { unit, offset } = lastAndUnit(model, row);
  return { ...drawsOf(model, row, clamp), unit, offset, factor: outageFactor(model, row.age) };
}

// The model of a page, from its description and tensors.
function makeModel(facts, packed) {
  const tensors = unpack(packed), members = [];
  for (let i = 0; i < facts.members; i++) {
    const own = {};
    for (const [name, tensor] of Object.entries(tensors))
      if (name.startsWith(`${i}:`)) own[name.slice(`${i}:`.length)] = tensor;
    members.push(own);
  }
  const settings = { kind: facts.kind, heads: facts.heads, topk: facts.topk, noise: tensors.noise.values, draws: facts.draws, outputs: facts.outputs };
  const model = { ...facts, tensors, members, settings };
  if (facts.stack) model.kernel = makeKernel(tensors);
  return model;
}
if (typeof module !== "undefined") module.exports = { makeModel, predict };
