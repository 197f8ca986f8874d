"use strict";
// Windows of a series as inputs: missing values are null.

// Linear in time between observed values, constant at the ends, and 0 without any.
function interpolate(values, round = (each) => each) {
  const known = values.map((each, i) => (Number.isNaN(each) ? -1 : i)).filter((i) => i >= 0);
  if (!known.length) return values.map(() => 0);
  return values.map((each, i) => {
    if (!Number.isNaN(each)) return each;
    const before = known.filter((j) => j < i).pop(), after = known.find((j) => j > i);
    if (before === undefined) return values[after];
    if (after === undefined) return values[before];
    return round(values[before] + round(round(round(values[after] - values[before]) * (i - before)) / (after - before)));
  });
}

function ageOf(values) {
  let age = 0;
  while (age < values.length && Number.isNaN(values[values.length - 1 - age])) age++;
  return age;
}

// See `level_of` in `nsac.models.windows`.
function cutLevel(value, maxLevel) {
  return maxLevel === null ? value : Math.min(Math.max(value, -maxLevel), maxLevel);
}

// `values` are one array per channel, in their own unit; `calendar` are the numbers of the time of the forecast.
function prepareWindow(model, { values, calendar }) {
  const { centre, scale, missing, withAge, maxLevel } = model.windows;
  const z = values.map((channel, v) => channel.map((each) => (each === null ? NaN : (each - centre[v]) / scale[v])));
  const filled = z.map((channel) => interpolate(channel)), absent = z.map((channel) => channel.map((each) => (Number.isNaN(each) ? 1 : 0)));
  const age = ageOf(z[0]), known = withAge ? [...calendar, Math.log1p(age)] : calendar;
  const steps = filled[0].length, statistics = [(c) => c[steps - 1], (c) => Math.min(...c), (c) => Math.max(...c)];
  for (const lag of [1, Math.max(1, Math.floor(steps / 4))])
    statistics.push((c) => {
      const changes = lag < steps ? c.slice(lag).map((each, i) => (each - c[i]) ** 2) : [0];
      return Math.log(Math.sqrt(average(changes)) + 0.01);
    });
  const described = statistics.flatMap((statistic) => filled.map(statistic));
  if (missing) described.push(...absent.map(average));
  const levels = filled.map((channel) => cutLevel(channel[steps - 1], maxLevel));
  return { z, filled, levels, absent, missing, calendar: known, age, described };
}

// Root of the roughness of the latest steps up to the last known one, over the typical one.
function recentRoughness(target, age, typical) {
  if (typical === null) return 1;
  const steps = target.length, recent = Math.min(steps, Math.max(2, Math.floor(steps / 4))), shift = Math.min(age, steps - recent);
  let square = 0;
  for (let i = steps - recent + 1; i < steps; i++) square += (target[i - shift] - target[i - 1 - shift]) ** 2;
  return (square / Math.max(1, recent - 1) / typical ** 2 + 0.3 ** 2) ** 0.25;
}

// Unit and offset of the forecasts, by lead time.
function lastAndUnit(model, row) {
  const { centre, scale, change, roughness } = model.windows, target = row.filled[0], steps = target.length;
  const age = Math.min(row.age, change.length - model.outputs), rough = recentRoughness(target, age, roughness);
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

// What the linear regression reads; see `design` in `nsac.estimators.window_models`.
function linearInputs(row, cyclic) {
  const steps = row.filled[0].length, half = Math.max(1, Math.floor(steps / 2)), last = row.filled.map((channel) => channel[steps - 1]), inputs = [];
  for (let t = 0; t < steps - 1; t++) row.filled.forEach((channel, v) => inputs.push(channel[t] - last[v]));
  inputs.push(...row.levels, ...row.calendar);
  if (cyclic) {
    const [sine, cosine] = row.calendar, double = [2 * sine * cosine, cosine ** 2 - sine ** 2];
    const changes = row.filled[0].slice(0, -1).slice(-half).map((each) => each - last[0]);
    const varying = [...row.levels, ...row.filled.map((channel, v) => average(channel.slice(-half)) - last[v]), ...changes];
    inputs.push(...double);
    for (const turn of [sine, cosine, ...double]) inputs.push(...varying.map((each) => each * turn));
  }
  return [...inputs, 1];
}

// The same of models of older folders.
function olderLinearInputs(model, row) {
  const { amplitudes, roughness } = model.windows.models, steps = row.filled[0].length, inputs = [];
  const common = roughness === null ? 1 : recentRoughness(row.filled[0], row.missing ? row.age : 0, roughness);
  const differences = roughness !== null || amplitudes.length;
  const sizes = row.filled.map((channel, v) => {
    if (roughness !== null) return common; // in the oldest folders each channel has its own unit
    const last = channel[steps - 1], square = average(channel.map((each) => (each - last) ** 2));
    return amplitudes.length ? Math.sqrt(square + (0.3 * amplitudes[v]) ** 2) : 1;
  });
  for (let t = 0; t < steps; t++)
    row.filled.forEach((channel, v) => inputs.push(!differences || t === steps - 1 ? channel[t] : (channel[t] - channel[steps - 1]) / sizes[v]));
  return [...inputs, ...row.calendar, 1];
}

// Linear regression on the whole window, by lead time, in the unit of the networks.
function runLinear(model, row) {
  const { values, shape } = model.tensors.linear, { drawShare, cyclic } = model.windows.models, { unit } = lastAndUnit(model, row);
  const inputs = drawShare === null ? olderLinearInputs(model, row) : linearInputs(row, cyclic);
  return Array.from({ length: shape[1] }, (_, h) => {
    const sum = inputs.reduce((total, each, i) => total + each * values[i * shape[1] + h], 0);
    return drawShare === null ? sum : (sum * model.windows.scale[0]) / unit[h];
  });
}

// What trees read about a window and a lead time, in single precision; see `nsac.estimators.window_models`.
function leadFeatures(model, row) {
  const { lags, season, turns, calendarSteps } = model.windows.models, f = Math.fround, steps = row.filled[0].length;
  const x = row.z.map((channel, v) => interpolate((row.missing ? channel : row.filled[v]).map(f), f));
  const rounded = (each) => Math.round(f(each * calendarSteps)) / calendarSteps;
  const last = x.map((channel) => channel[steps - 1]), half = Math.max(1, Math.floor(steps / 2));
  const target = x[0].map((each) => f(each - last[0])), near = target.slice(-half), mean = (values) => f(average(values));
  const window = [...lags.map((lag) => target[steps - 1 - lag]), Math.max(...near), Math.min(...near), mean(target), ...last.map((each) => cutLevel(each, model.windows.maxLevel))];
  for (const lag of [Math.floor(steps / 16), Math.floor(steps / 2)]) if (lag) window.push(...x.map((channel, v) => f(channel[steps - 1 - lag] - last[v])));
  window.push(...x.map((channel, v) => f(mean(channel.slice(-half)) - last[v])), ...row.calendar.map(f).map(rounded));
  return Array.from({ length: model.outputs }, (_, i) => {
    const h = i + 1, lead = [h];
    turns.forEach(({ cosines, sines }, k) => {
      const sine = f(row.calendar[2 * k]), cosine = f(row.calendar[2 * k + 1]), c = cosines[i], s = sines[i];
      lead.push(rounded(f(f(sine * c) + f(cosine * s))), rounded(f(f(cosine * c) - f(sine * s))));
    });
    if (season) {
      const place = steps - 1 + h - season * Math.floor((h + season - 1) / season);
      for (const shift of [0, 1]) lead.push(f(x[0][Math.min(place + shift, steps - 1)] - last[0]));
    }
    return [...window, ...lead];
  });
}

// The distribution of the networks, moved to the weighted mean of all models.
function moveDraws(model, row, draws) {
  const { weights, drawShare } = model.windows.models, linear = runLinear(model, row), share = drawShare === null ? 1 : drawShare;
  const grown = weights[2] ? leadFeatures(model, row).map((features) => runTrees(model.tensors, features, 1)[0]) : linear.map(() => 0);
  const shift = linear.map((each, h) => (weights[0] - share) * average(draws.map((draw) => draw.mean[h])) + weights[1] * each + weights[2] * grown[h]);
  return draws.map(({ mean, logStd }) => ({ mean: mean.map((each, h) => share * each + shift[h]), logStd }));
}

function windowDraws(model, input, clamp) {
  const row = prepareWindow(model, input), { unit, offset } = lastAndUnit(model, row), found = drawsOf(model, row, clamp);
  const draws = model.windows.models ? moveDraws(model, row, found.draws) : found.draws;
  return { ...found, draws, unit, offset, factor: outageFactor(model, row.age), margin: model.margins[0] };
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
  const settings = { kind: facts.kind, heads: facts.heads, topk: facts.topk, noise: tensors.noise.values, draws: facts.draws, outputs: facts.outputs, levels: facts.levels };
  const model = { ...facts, tensors, members, settings };
  if (facts.stack) model.kernel = makeKernel(tensors);
  return model;
}
if (typeof module !== "undefined") module.exports = { makeModel, predict };
