"""Calibration and evaluation of a fitted method: calibration and test split are predicted once, all else follows."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from nsac.lab.grid.events import calibrate_channels, evaluate_channels, longest_row
from nsac.lab.tasks.base import GroupScores, Predict, Task, WindowSplit
from nsac.uncertainty import Prediction, VarianceScale, conformal_margin

COVERAGE = 0.9  # nominal, of the conformal intervals
CALIBRATED = ("nll", "crps", "ece_paper", "calibration_error", "interval_score_90", "sharpness")
"""Scores of the distribution; with `_calibrated` they are those after the variance scale. The means do not change."""
PIT_BINS = 20  # equal bins of F(y); their cumulative shares are the reliability curve at 0.05, 0.10, ...
MAX_BAND_ROWS = 150  # test rows that a panel of the figure shows at most
WINDOW_BAND_SPAN = 600  # consecutive test windows that the panel of a forecasting task is subsampled from
BAND_DIGITS = 5  # significant digits of the numbers in a panel


class Calibration(NamedTuple):
    """What the calibration split determines; both are ratios, so they apply in the unit of the model as well."""

    scale: VarianceScale  # factor on the standard deviation, per column
    margin: Tensor  # half the conformal 90 % interval in predicted standard deviations, per column


class Evaluation(NamedTuple):
    """Results on the test split, in the form of the record's fields of the same names."""

    metrics: dict[str, float | None]
    pit: dict[str, list[int]]
    bands: list[dict[str, Any]]


def calibrate(task: Task, predict: Predict) -> Calibration:
    """Variance scale and conformal margin of each column, from the calibration split.

    Where a task has groups, all entries of a group share the two numbers per output, since its rows are few and its
    columns many. Entries of one row are not independent, so the margin is then taken at coverage 0.9 (1 + 1 / rows),
    with which an entry of another row is covered with probability at least 0.9 (Lee, Barber and Willett, 2023).
    """
    if task.problem.kind == "events":
        return Calibration(*calibrate_channels(task, predict, COVERAGE))
    batches = []
    for batch in task.batches("calibration"):
        prediction = batch.restore(predict(batch.inputs))
        batches.append((batch.y, prediction.mean, prediction.std))
    y, mean, std = zip(*batches, strict=True)
    y, mean, std = torch.cat(y).double(), torch.cat(mean).double(), torch.cat(std).double()
    coverage = COVERAGE * (1 + 1 / len(y)) if task.groups else COVERAGE
    scale, margin = torch.ones_like(y[0]), torch.ones_like(y[0])
    for columns in task.groups.values() or [slice(None)]:
        chosen = y[:, columns], mean[:, columns], std[:, columns]
        if task.groups:
            chosen = [each.flatten(0, 1) for each in chosen]
        observed, prediction = chosen[0], Prediction.gaussian(*chosen[1:])
        scale[columns] = VarianceScale.fit(prediction, observed).scale
        margin[columns] = conformal_margin((observed - prediction.mean).abs() / prediction.std, coverage)
    return Calibration(VarianceScale(scale), margin)


def evaluate(task: Task, predict: Predict, calibration: Calibration) -> Evaluation:
    """Predict every batch of the test split once; score it raw, with the variance scale, and with conformal intervals.

    Metrics are those of `Task.score`. With `_calibrated` they are of the distribution after the variance scale;
    `coverage_90_calibrated` and `width_90_calibrated` are of split-conformal intervals, and with `_scaled` of the
    scaled distribution's intervals.
    """
    if task.problem.kind == "events":
        found, levels = evaluate_channels(task, predict, *calibration, CALIBRATED)
        pit = {kind: _histogram(torch.cat(level)) for kind, level in levels.items()}
        name, at, columns = longest_row(task, predict, calibration.margin)
        return Evaluation({**found}, pit, [_panel(f"{name}, one test row, over lead time", at, columns)])
    entries = task.entries("test")
    raw, scaled, batches = GroupScores(entries), GroupScores(entries), []
    for batch in task.batches("test"):
        prediction, y = predict(batch.inputs), batch.y
        restored = batch.restore(prediction)
        raw.add(restored, y)
        scaled.add(batch.restore(calibration.scale(prediction)), y)
        columns = {"y": y, "mean": restored.mean, "std": restored.std}
        columns["epistemic"] = restored.epistemic.clamp(min=0).sqrt()
        columns |= {"raw": restored.cdf(y), "calibrated": calibration.scale(restored).cdf(y)}
        batches.append(columns)
    rows = {name: torch.cat([columns[name] for columns in batches]) for name in batches[0]}
    pit = {kind: _histogram(rows.pop(kind)) for kind in ("raw", "calibrated")}
    rows["half_90"] = half = calibration.margin.to(rows["std"]) * rows["std"]
    after = scaled.table()
    metrics: dict[str, float | None] = {**raw.table()}
    for prefix, index in entries.items():
        metrics |= {f"{prefix}{name}_calibrated": after[prefix + name] for name in CALIBRATED}
        metrics |= {f"{prefix}{name}_scaled": after[prefix + name] for name in ("coverage_90", "width_90")}
        covered = ((rows["y"] - rows["mean"]).abs() <= half)[index]
        metrics[f"{prefix}coverage_90_calibrated"] = covered.double().mean().item()
        metrics[f"{prefix}width_90_calibrated"] = 2 * half[index].double().mean().item()
    return Evaluation(metrics, pit, _bands(task, rows))


def _histogram(pit: Tensor) -> list[int]:
    bins = (pit.flatten().double() * PIT_BINS).long().clamp(0, PIT_BINS - 1)
    return bins.bincount(minlength=PIT_BINS).tolist()


def _bands(task: Task, columns: dict[str, Tensor]) -> list[dict[str, Any]]:
    """Panels of a figure: rows of a table, forecasts half the horizon ahead, or one series at all its query times."""
    if task.problem.kind == "series":
        times = task.test.batch(torch.tensor([0]))["query_times"][0]
        outputs = [{name: values[0, :, i] for name, values in columns.items()} for i in range(columns["y"].shape[-1])]
        return [_panel(f"output {i}, first test row, over time", times, each) for i, each in enumerate(outputs, 1)]
    shown, entry, name = torch.arange(len(columns["y"])), 0, "test rows, in order"
    if isinstance(task.test, WindowSplit):
        shown = shown[max(0, len(shown) - WINDOW_BAND_SPAN) // 2 :][:WINDOW_BAND_SPAN]
        step, targets = task.test.horizon // 2, task.problem.output_dim // task.test.horizon
        entry = (step + 1) * targets - 1
        # The name is part of a record's result, so its words stay those of the existing records.
        name = f"the last target, {step + 1} of {task.test.horizon} steps ahead, a stretch of the test part"
    shown = shown[torch.linspace(0, len(shown) - 1, min(MAX_BAND_ROWS, len(shown))).round().long()]
    chosen = {key: values[shown, entry] for key, values in columns.items()}
    return [_panel(name, shown, chosen, ordered=task.problem.kind != "table")]


def _panel(name: str, at: Tensor, values: dict[str, Tensor], ordered: bool = True) -> dict[str, Any]:
    panel: dict[str, Any] = {"name": name, "ordered": ordered}
    for key, column in {"at": at, **values}.items():
        panel[key] = [float(f"{value:.{BAND_DIGITS}g}") for value in column.tolist()]
    return panel
