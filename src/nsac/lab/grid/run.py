"""One run: a task, a method and a seed to a record; a pure function of the config."""

import contextlib
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nsac._torch import single_threaded
from nsac.lab.grid.config import RunConfig, run_config
from nsac.lab.grid.store import Record, now_and_here
from nsac.lab.tasks.base import Task, WindowSplit, load_task
from nsac.methods import AbstractMethod, fit
from nsac.training import Progress, TrainConfig
from nsac.uncertainty import Prediction, SplitConformal, VarianceScale

CALIBRATED = ("nll", "crps", "ece_paper", "calibration_error", "interval_score_90", "sharpness")
"""Scores of the distribution; `_calibrated` is after the variance scale. The means are the same."""

PIT_BINS = 20
"""Even bins of F(y); their cumulative shares are the reliability curve at 0.05, 0.10, ..."""

SHOWN, STRETCH = 150, 600
"""Test rows kept for pictures; of forecasts every fourth of a stretch in the middle of the test part."""

DIGITS = 5
"""Of numbers in pictures."""

Predict = Callable[[dict[str, Tensor]], Prediction]


def run(task: str, protocol: str, method: str, seed: int) -> Record:
    """Fit, calibrate, score; with the numbers of the task's file."""
    return run_once(run_config(task, protocol, method, seed))


@dataclass(frozen=True)
class Outcome:
    """What is left after a run, besides its record."""

    record: Record
    method: AbstractMethod
    task: Task
    calibration: VarianceScale


def run_once(config: RunConfig) -> Record:
    """Fit, calibrate, score."""
    return run_fitted(config).record


def run_fitted(config: RunConfig, report: Callable[[Progress], None] | None = None) -> Outcome:
    """Fit on train and validation, calibrate on calibration, score on test; the fitted method stays.

    Metrics are those of `Task.score`. With `_calibrated`: of the distribution whose deviations the calibration part
    scaled; `coverage_90_calibrated` and `width_90_calibrated` are of split-conformal intervals, and with `_scaled` of
    the scaled distribution's.
    """
    with single_threaded():
        forget_peak()
        start = time.process_time(), time.perf_counter()
        task = load_task(config.task, config.protocol, config.seed)  # pyright: ignore[reportArgumentType]
        method, fitting = config.build(task.problem), Watch()
        train = TrainConfig.from_dict(config.train)
        with fitting:
            results = fit(method, task.train, task.validation, train, seed=config.seed, report=report)
        predicting = Watch()

        def predict(batch: dict[str, Tensor]) -> Prediction:
            with predicting:
                return method.predict(batch, config.num_samples)

        metrics, pit, bands, seconds, scale = _evaluate(task, predict, predicting)
        record = Record(
            task=config.task,
            protocol=config.protocol,
            method=config.method,
            seed=config.seed,
            key=config.key,
            config=config.to_dict(),
            text=task.text,
            unit=task.unit,
            rows={part: len(getattr(task, part)) for part in ("train", "validation", "calibration", "test")},
            metrics=metrics,
            pit=pit,
            bands=bands,
            training=[
                {name: getattr(result, name) for name in ("steps", "best_step", "best_score", "stopped_early")}
                for result in results
            ],
            parameters=sum(parameter.numel() for parameter in method.parameters()),
            seconds={
                "fit_cpu": fitting.cpu,
                "fit_wall": fitting.wall,
                **seconds,
                "total_cpu": time.process_time() - start[0],
                "total_wall": time.perf_counter() - start[1],
            },
            peak_memory=peak_memory(),
            **now_and_here(),
        )
        return Outcome(record, method, task, scale)


def _evaluate(task: Task, predict: Predict, watch: "Watch"):
    scale, margin = calibrate(task, _collect(task, predict, "calibration"))
    watch.reset()
    seen = _collect(task, predict, "test", scale)
    seconds = {"predict_cpu": watch.cpu, "predict_wall": watch.wall}
    half = margin.to(seen.std) * seen.std
    raw, scaled = task.score(predict), task.score(lambda batch: scale(predict(batch)))
    metrics: dict[str, float | None] = {**raw}
    for group in ("", *task.groups):
        place = (slice(None), task.groups[group]) if group else slice(None)
        prefix = f"{group}_" if group else ""
        metrics |= {f"{prefix}{name}_calibrated": scaled[prefix + name] for name in CALIBRATED}
        metrics |= {f"{prefix}{name}_scaled": scaled[prefix + name] for name in ("coverage_90", "width_90")}
        inside = ((seen.y - seen.mean).abs() <= half)[place]
        metrics[f"{prefix}coverage_90_calibrated"] = inside.double().mean().item()
        metrics[f"{prefix}width_90_calibrated"] = 2 * half[place].double().mean().item()
    pit = {"raw": _histogram(seen.level), "calibrated": _histogram(seen.level_calibrated)}
    return metrics, pit, _bands(task, seen, half), seconds, scale


@dataclass(frozen=True)
class Seen:
    """What was predicted for a part and what came, (rows, ...), in the unit of the scores."""

    y: Tensor
    mean: Tensor
    std: Tensor
    epistemic: Tensor
    """deviation"""
    level: Tensor
    """F(y)"""
    level_calibrated: Tensor


def _collect(task: Task, predict: Predict, part: str, scale: VarianceScale | None = None, size: int = 256) -> Seen:
    parts: list[tuple[Tensor, ...]] = []
    for rows in torch.arange(len(getattr(task, part))).split(size):
        p, y = task.restore(predict, part, rows)
        level = p.cdf(y)
        after = level if scale is None else scale(p).cdf(y)
        parts.append((y, p.mean, p.std, p.epistemic.clamp(min=0).sqrt(), level, after))
    return Seen(*(torch.cat(each) for each in zip(*parts, strict=True)))


def calibrate(task: Task, known: Seen) -> tuple[VarianceScale, Tensor]:
    """Factor on deviations, and half the conformal 90 % interval in deviations, per column.

    Where a task has groups, all entries of a group have the same two numbers per output: its rows are few and its
    columns many. Entries of a row are not independent, so the quantile is taken at level 0.9 (1 + 1 / rows), with which
    an entry of a new row is covered with probability at least 0.9 (Lee, Barber and Willett, 2023). Factor and margin
    are ratios, so they hold in the unit of the model as well.
    """
    columns = known.y.shape[1:]
    level = 0.9 * (1 + 1 / len(known.y)) if task.groups else 0.9
    factor, margin = (torch.ones(columns, dtype=torch.float64) for _ in range(2))
    for stretch in task.groups.values() or [slice(None)]:
        y, mean, std = (v[:, stretch].double() for v in (known.y, known.mean, known.std))
        if task.groups:
            y, mean, std = (v.flatten(0, 1) for v in (y, mean, std))
        p = Prediction.gaussian(mean, std)
        unit = Prediction.gaussian(torch.zeros_like(mean[:1]), torch.ones_like(mean[:1]))
        factor[stretch] = VarianceScale.fit(p, y).scale
        margin[stretch] = SplitConformal.fit(p, y).interval(unit, level)[1][0]
    return VarianceScale(factor), margin


def _histogram(level: Tensor) -> list[int]:
    bins = (level.flatten().double() * PIT_BINS).long().clamp(0, PIT_BINS - 1)
    return bins.bincount(minlength=PIT_BINS).tolist()


def _bands(task: Task, seen: Seen, half: Tensor) -> list[dict[str, Any]]:
    """Panels of a picture: rows of a table, forecasts half the horizon ahead, or one row at all its queries."""
    values = {"y": seen.y, "mean": seen.mean, "std": seen.std, "epistemic": seen.epistemic, "half_90": half}
    if task.problem.kind == "series":
        at = task.test.batch(torch.tensor([0]))["query_times"][0]
        return [
            _panel(f"output {i + 1}, first test row, over time", at, {name: v[0, :, i] for name, v in values.items()})
            for i in range(seen.y.shape[-1])
        ]
    rows, column, name = torch.arange(len(seen.y)), 0, "test rows, in order"
    if isinstance(task.test, WindowSplit):
        rows = rows[max(0, len(rows) - STRETCH) // 2 :][:STRETCH]
        step, targets = task.test.horizon // 2, task.problem.output_dim // task.test.horizon
        column = (step + 1) * targets - 1
        name = f"the last target, {step + 1} of {task.test.horizon} steps ahead, a stretch of the test part"
    rows = rows[torch.linspace(0, len(rows) - 1, min(SHOWN, len(rows))).round().long()]
    return [_panel(name, rows, {name: v[rows, column] for name, v in values.items()}, task.problem.kind != "table")]


def _panel(name: str, at: Tensor, values: dict[str, Tensor], ordered: bool = True) -> dict[str, Any]:
    return {"name": name, "ordered": ordered} | {
        key: [float(f"{v:.{DIGITS}g}") for v in column.tolist()] for key, column in {"at": at, **values}.items()
    }


class Watch:
    """Seconds inside its `with` blocks, summed."""

    def __init__(self):
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.cpu = self.wall = 0.0

    def __enter__(self) -> None:
        self._start = time.process_time(), time.perf_counter()

    def __exit__(self, *exception) -> None:
        self.cpu += time.process_time() - self._start[0]
        self.wall += time.perf_counter() - self._start[1]


def forget_peak() -> None:
    """Count the peak from here on."""
    with contextlib.suppress(OSError):  # Linux only; elsewhere the peak is that of the process's life
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> float:
    """Megabytes this process held at most, since `forget_peak`."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
