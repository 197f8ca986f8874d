"""One run: from a task, a method and a seed to a record; a pure function of the configuration."""

import contextlib
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from nsac._torch import single_threaded
from nsac.lab.grid.calibration import calibrate
from nsac.lab.grid.config import RunConfig
from nsac.lab.grid.evaluation import evaluate
from nsac.lab.grid.provenance import provenance
from nsac.lab.grid.store import Record
from nsac.lab.tasks.base import SPLITS, Task, load_task
from nsac.methods import AbstractMethod, fit
from nsac.training import Progress, TrainConfig, TrainResult
from nsac.uncertainty import Prediction, VarianceScale


@dataclass(frozen=True)
class Outcome:
    """Everything a run produces."""

    record: Record
    method: AbstractMethod
    """fitted"""
    task: Task
    calibration: VarianceScale


def run_once(config: RunConfig) -> Record:
    """Fit, calibrate and score."""
    return run_fitted(config).record


def run_fitted(config: RunConfig, report: Callable[[Progress], None] | None = None) -> Outcome:
    """Fit on train and validation, calibrate on calibration, score on test; the fitted method is returned as well.

    See `evaluation.evaluate` for the metrics.
    """
    with single_threaded():
        reset_peak_memory()
        whole = Stopwatch()
        with whole:
            task = load_task(config.task, config.protocol, config.seed)  # pyright: ignore[reportArgumentType]
            method = config.build(task.problem)
            train = TrainConfig.from_dict(config.train)
            fitting = Stopwatch()
            with fitting:
                results = fit(method, task.train, task.validation, train, seed=config.seed, report=report)
            predicting = Stopwatch()

            def predict(batch: dict[str, Tensor]) -> Prediction:
                with predicting:
                    return method.predict(batch, config.num_samples)

            calibration = calibrate(task, predict)
            predicting.reset()
            evaluation = evaluate(task, predict, calibration)
        record = Record(
            task=config.task,
            protocol=config.protocol,
            method=config.method,
            seed=config.seed,
            key=config.key,
            config=config.to_dict(),
            text=task.text,
            unit=task.unit,
            rows={split: len(task.split(split)) for split in SPLITS},
            metrics=evaluation.metrics,
            pit=evaluation.pit,
            bands=evaluation.bands,
            training=[_training(result) for result in results],
            parameters=sum(parameter.numel() for parameter in method.parameters()),
            seconds={**fitting.seconds("fit"), **predicting.seconds("predict"), **whole.seconds("total")},
            peak_memory=peak_memory(),
            **provenance(),
        )
        return Outcome(record, method, task, calibration.scale)


def _training(result: TrainResult) -> dict[str, Any]:
    return {name: getattr(result, name) for name in ("steps", "best_step", "best_score", "stopped_early")}


class Stopwatch:
    """CPU and wall-clock seconds inside its `with` blocks, summed."""

    def __init__(self):
        self.reset()

    def reset(self) -> None:
        """Set both sums to 0."""
        self.cpu = 0.0
        self.wall = 0.0

    def seconds(self, name: str) -> dict[str, float]:
        """Both sums, as fields of a record."""
        return {f"{name}_cpu": self.cpu, f"{name}_wall": self.wall}

    def __enter__(self) -> None:
        self._start = time.process_time(), time.perf_counter()

    def __exit__(self, *exception: object) -> None:
        self.cpu += time.process_time() - self._start[0]
        self.wall += time.perf_counter() - self._start[1]


def reset_peak_memory() -> None:
    """Make `peak_memory` count from here on."""
    with contextlib.suppress(OSError):  # Linux only; elsewhere the peak is over the lifetime of the process
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> float:
    """Largest resident memory of this process in megabytes, since `reset_peak_memory`."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
