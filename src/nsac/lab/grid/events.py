"""Evaluation of events: entries are ragged, so calibration and scores are per channel instead of per column."""

from typing import NamedTuple

import torch
from torch import Tensor

from nsac.lab.tasks.base import Predict, Task, TaskBatch
from nsac.methods import EventsProblem
from nsac.methods.baselines import query_statistics
from nsac.uncertainty import Prediction, Scores, VarianceScale, conformal_margin

BATCH_ROWS = 64  # rows predicted at a time: a row has hundreds of queries
MIN_CHANNEL_ROWS = 200  # calibration entries from which on a channel has its own calibration
MIN_WORST_ROWS = 1000  # test entries from which on a channel counts for the lowest coverage
MIN_VARYING_STD = (
    1e-3  # standard deviation of a channel's targets, in the unit of the model, below which it is constant
)


class Entries(NamedTuple):
    """Observed targets of a batch and their predictions, in the unit of the scores."""

    prediction: Prediction  # (n,)
    y: Tensor
    channel: Tensor
    lead: Tensor
    last: Tensor  # last value of the channel
    unit: Tensor  # the unit of the model in that of the scores


def entries_of(task: Task, batch: TaskBatch, predict: Predict) -> Entries | None:
    """The observed targets of a batch; None if there are none."""
    inputs = batch.inputs
    known = ~inputs["y"].isnan()
    if not known.any():
        return None
    scale = batch.scale.expand_as(inputs["y"])
    last = batch.shift + scale * query_statistics(inputs, task.problem).last.unsqueeze(-1)
    channel, lead = inputs["query_channel"].unsqueeze(-1)[known], inputs["query_times"].unsqueeze(-1)[known]
    return Entries(batch.restore(predict(inputs))[known], batch.y[known], channel, lead, last[known], scale[known])


def calibrate_channels(task: Task, predict: Predict, coverage: float) -> tuple[VarianceScale, Tensor]:
    """Variance scale and conformal margin of each channel, (C,); those of all channels where one has few entries."""
    assert isinstance(task.problem, EventsProblem)
    columns = []
    for batch in task.batches("calibration", BATCH_ROWS):
        entries = entries_of(task, batch, predict)
        if entries is not None:
            p = entries.prediction
            columns.append((entries.y.double(), p.mean.double(), p.std.double(), entries.channel))
    y, mean, std, channel = (torch.cat(column) for column in zip(*columns, strict=True))
    scale, margin = y.new_ones(task.problem.channels), y.new_ones(task.problem.channels)
    for each in range(-1, task.problem.channels):
        chosen = channel == each if each >= 0 else torch.ones_like(channel, dtype=torch.bool)
        if each >= 0 and chosen.sum() < MIN_CHANNEL_ROWS:
            continue
        place = slice(None) if each < 0 else each
        prediction = Prediction.gaussian(mean[chosen], std[chosen])
        if not torch.equal(prediction.mean, y[chosen]):  # a constant channel needs no scale
            scale[place] = VarianceScale.fit(prediction, y[chosen]).scale
        margin[place] = conformal_margin((y[chosen] - prediction.mean).abs() / prediction.std, coverage)
    return VarianceScale(scale), margin


def evaluate_channels(
    task: Task, predict: Predict, scale: VarianceScale, margin: Tensor, kept: tuple[str, ...]
) -> tuple[dict[str, float], dict[str, list[Tensor]]]:
    """Scores of the test split, and the probability integral transform of its entries, raw and calibrated.

    Besides the standard scores, with suffixes as for other tasks: `mse_channels` and `mae_channels`, means over
    channels of the errors of a channel; `mse_channels_ratio`, to the error of the last value; `coverage_90_worst`, the
    lowest coverage among channels with many entries; `nll_varying`, without channels whose targets are constant.
    """
    raw, scaled, levels = Scores(), Scores(), {"raw": [], "calibrated": []}
    leads = {name: (Scores(), ends) for name, ends in task.leads.items()}
    columns: list[dict[str, Tensor]] = []
    for batch in task.batches("test", BATCH_ROWS):
        entries = entries_of(task, batch, predict)
        if entries is None:
            continue
        p, y, channel = entries.prediction, entries.y, entries.channel
        log_scale = scale.scale.log().to(y)[channel]
        calibrated = _widen(p, log_scale)
        raw.add(p, y)
        scaled.add(calibrated, y)
        for scores, (low, high) in leads.values():
            inside = (entries.lead >= low) & (entries.lead < high)
            if inside.any():
                scores.add(p[inside], y[inside])
        levels["raw"].append(p.cdf(y))
        levels["calibrated"].append(calibrated.cdf(y))
        half = margin.to(y)[channel] * p.std
        columns.append(
            {
                "channel": channel,
                "error": (y - p.mean).double(),
                "last": (y - entries.last).double(),
                "covered": ((y - p.mean).abs() <= half).double(),
                "width": 2 * half.double(),
                "nll": -p.log_prob(y).double(),
                "y": (y / entries.unit).double(),
            }  # fmt: skip
        )
    rows = {name: torch.cat([each[name] for each in columns]) for name in columns[0]}
    after, metrics = scaled.table(), {**raw.table()}
    metrics |= {f"{name}_calibrated": after[name] for name in kept}
    metrics |= {f"{name}_scaled": after[name] for name in ("coverage_90", "width_90")}
    metrics |= {f"{name}_90_calibrated": rows[key].mean().item() for name, key in _CONFORMAL.items()}
    metrics |= {
        f"{lead}_{name}": value for lead, (scores, _) in leads.items() for name, value in scores.table().items()
    }
    return metrics | _per_channel(rows, len(task.channels)), levels


_CONFORMAL = {"coverage": "covered", "width": "width"}


def _per_channel(rows: dict[str, Tensor], channels: int) -> dict[str, float]:
    channel = rows["channel"]
    count = torch.bincount(channel, minlength=channels)

    def mean(values: Tensor) -> Tensor:
        return torch.bincount(channel, values, channels) / count.clamp(min=1)

    seen, many = count > 0, count >= MIN_WORST_ROWS
    squared, last = mean(rows["error"].square())[seen].mean(), mean(rows["last"].square())[seen].mean()
    varying = (mean(rows["y"].square()) - mean(rows["y"]).square()).clamp(min=0).sqrt() > MIN_VARYING_STD
    table = {
        "mse_channels": squared,
        "mae_channels": mean(rows["error"].abs())[seen].mean(),
        "mse_channels_ratio": squared / last,
        "mse_ratio": rows["error"].square().mean() / rows["last"].square().mean(),
        "nll_varying": rows["nll"][varying[channel]].mean(),
    }
    if many.any():
        table["coverage_90_worst"] = mean(rows["covered"])[many].min()
    return {name: value.item() for name, value in table.items()}


def _widen(prediction: Prediction, log_scale: Tensor) -> Prediction:
    """All draws stretched about their mean by the scale of their channel."""
    centre = prediction.mean
    return Prediction(centre + (prediction.mean_draws - centre) * log_scale.exp(), prediction.log_std_draws + log_scale)


def longest_row(task: Task, predict: Predict, margin: Tensor) -> tuple[str, Tensor, dict[str, Tensor]]:
    """The channel with most targets in the last test row: its name, lead times, and columns of a panel."""
    *_, batch = task.batches("test", BATCH_ROWS)
    rows = (~batch.inputs["y"].isnan()).sum((1, 2)).argmax().view(1)
    one = TaskBatch({name: value[rows] for name, value in batch.inputs.items()}, batch.shift[rows], batch.scale[rows])
    entries = entries_of(task, one, predict)
    assert entries is not None
    chosen = entries.channel == entries.channel.mode().values
    p, channel = entries.prediction[chosen], entries.channel[chosen]
    values = {"y": entries.y[chosen], "mean": p.mean, "std": p.std, "epistemic": p.epistemic.clamp(min=0).sqrt()}
    values["half_90"] = margin.to(p.std)[channel] * p.std
    return task.channels[int(channel[0])], entries.lead[chosen], values
