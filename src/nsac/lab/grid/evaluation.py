"""Evaluation of a fitted and calibrated method: the test split is predicted once, and all results follow from that."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nsac.lab.grid.calibration import Calibration
from nsac.lab.tasks.base import GroupScores, Predict, Task, WindowSplit

CALIBRATED = ("nll", "crps", "ece_paper", "calibration_error", "interval_score_90", "sharpness")
"""Scores of the distribution; with `_calibrated` they are those after the variance scale. The means do not change."""

PIT_BINS = 20
"""Equal bins of F(y); their cumulative shares are the reliability curve at 0.05, 0.10, ..."""

MAX_BAND_ROWS = 150
"""Test rows that a panel of the figure shows at most."""

WINDOW_BAND_SPAN = 600
"""Consecutive test windows that the panel of a forecasting task is subsampled from."""

BAND_DIGITS = 5
"""Significant digits of the numbers in a panel."""


@dataclass(frozen=True)
class Evaluation:
    """Results on the test split, in the form of the record's fields of the same names."""

    metrics: dict[str, float | None]
    pit: dict[str, list[int]]
    bands: list[dict[str, Any]]


class Predicted(NamedTuple):
    """Test rows, (rows, ...) each, in the unit of the scores."""

    y: Tensor
    mean: Tensor
    std: Tensor
    epistemic_std: Tensor
    pit: Tensor
    """F(y)"""
    pit_calibrated: Tensor
    """F(y) after the variance scale"""

    @classmethod
    def concatenate(cls, batches: Sequence["Predicted"]) -> "Predicted":
        """All rows of several batches."""
        return cls(*(torch.cat(columns) for columns in zip(*batches, strict=True)))


def evaluate(task: Task, predict: Predict, calibration: Calibration) -> Evaluation:
    """Predict every batch of the test split once; score it raw, with the variance scale, and with conformal intervals.

    Metrics are those of `Task.score`. With `_calibrated` they are of the distribution after the variance scale;
    `coverage_90_calibrated` and `width_90_calibrated` are of split-conformal intervals, and with `_scaled` of the
    scaled distribution's intervals.
    """
    entries = task.entries("test")
    raw, scaled, batches = GroupScores(entries), GroupScores(entries), []
    for batch in task.batches("test"):
        prediction, y = predict(batch.inputs), batch.y
        restored = batch.restore(prediction)
        raw.add(restored, y)
        scaled.add(batch.restore(calibration.scale(prediction)), y)
        epistemic_std = restored.epistemic.clamp(min=0).sqrt()
        pits = restored.cdf(y), calibration.scale(restored).cdf(y)
        batches.append(Predicted(y, restored.mean, restored.std, epistemic_std, *pits))
    rows = Predicted.concatenate(batches)
    half = calibration.margin.to(rows.std) * rows.std
    after = scaled.table()
    metrics: dict[str, float | None] = {**raw.table()}
    for prefix, index in entries.items():
        metrics |= {f"{prefix}{name}_calibrated": after[prefix + name] for name in CALIBRATED}
        metrics |= {f"{prefix}{name}_scaled": after[prefix + name] for name in ("coverage_90", "width_90")}
        covered = ((rows.y - rows.mean).abs() <= half)[index]
        metrics[f"{prefix}coverage_90_calibrated"] = covered.double().mean().item()
        metrics[f"{prefix}width_90_calibrated"] = 2 * half[index].double().mean().item()
    pit = {"raw": _histogram(rows.pit), "calibrated": _histogram(rows.pit_calibrated)}
    return Evaluation(metrics, pit, _bands(task, rows, half))


def _histogram(pit: Tensor) -> list[int]:
    bins = (pit.flatten().double() * PIT_BINS).long().clamp(0, PIT_BINS - 1)
    return bins.bincount(minlength=PIT_BINS).tolist()


def _bands(task: Task, rows: Predicted, half: Tensor) -> list[dict[str, Any]]:
    """Panels of a figure: rows of a table, forecasts half the horizon ahead, or one series at all its query times."""
    values = {"y": rows.y, "mean": rows.mean, "std": rows.std, "epistemic": rows.epistemic_std, "half_90": half}
    if task.problem.kind == "series":
        times = task.test.batch(torch.tensor([0]))["query_times"][0]
        panels = []
        for i in range(rows.y.shape[-1]):
            series = {name: value[0, :, i] for name, value in values.items()}
            panels.append(_panel(f"output {i + 1}, first test row, over time", times, series))
        return panels
    shown, column, name = torch.arange(len(rows.y)), 0, "test rows, in order"
    if isinstance(task.test, WindowSplit):
        shown = shown[max(0, len(shown) - WINDOW_BAND_SPAN) // 2 :][:WINDOW_BAND_SPAN]
        step, targets = task.test.horizon // 2, task.problem.output_dim // task.test.horizon
        column = (step + 1) * targets - 1
        # The name is part of a record's result, so its words stay those of the existing records.
        name = f"the last target, {step + 1} of {task.test.horizon} steps ahead, a stretch of the test part"
    shown = shown[torch.linspace(0, len(shown) - 1, min(MAX_BAND_ROWS, len(shown))).round().long()]
    chosen = {key: value[shown, column] for key, value in values.items()}
    return [_panel(name, shown, chosen, ordered=task.problem.kind != "table")]


def _panel(name: str, at: Tensor, values: dict[str, Tensor], ordered: bool = True) -> dict[str, Any]:
    panel: dict[str, Any] = {"name": name, "ordered": ordered}
    for key, column in {"at": at, **values}.items():
        panel[key] = [float(f"{value:.{BAND_DIGITS}g}") for value in column.tolist()]
    return panel
