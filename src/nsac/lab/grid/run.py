"""One run: from a task, a method and a seed to a record, with its cost and its provenance."""

import contextlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from nsac._torch import single_threaded
from nsac.lab.grid.config import RunConfig
from nsac.lab.grid.evaluation import calibrate, evaluate
from nsac.lab.grid.store import Record
from nsac.lab.tasks.base import SPLITS, Task, load_task
from nsac.methods import AbstractMethod, fit
from nsac.training import Progress, TrainConfig
from nsac.uncertainty import Prediction, VarianceScale

LIBRARIES = ("nsac", "torch", "numpy", "scikit-learn", "scoringrules", "pandas")  # that the results depend on
TRAINING = ("steps", "best_step", "best_score", "stopped_early")  # fields of a `TrainResult` in a record
GIT_TIMEOUT_SECONDS = 10


class Outcome(NamedTuple):
    """Everything a run produces."""

    record: Record
    method: AbstractMethod  # fitted
    task: Task
    calibration: VarianceScale


def run_once(config: RunConfig) -> Record:
    """Fit, calibrate and score."""
    return run_fitted(config).record


def run_fitted(
    config: RunConfig, report: Callable[[Progress], None] | None = None, task: Task | None = None
) -> Outcome:
    """Fit on train and validation, calibrate on calibration, score on test; the fitted method is returned as well.

    The task is that of the configuration, unless one is given.
    """
    with single_threaded():
        reset_peak_memory()
        whole, fitting, predicting = Stopwatch(), Stopwatch(), Stopwatch()
        with whole:
            task = task or load_task(config.task, config.protocol, config.seed)  # pyright: ignore[reportArgumentType]
            method = config.build(task.problem)
            train = TrainConfig.from_dict(config.train)
            with fitting:
                results = fit(method, task.train, task.validation, train, seed=config.seed, report=report)

            def predict(batch: dict[str, Tensor]) -> Prediction:
                with predicting:
                    return method.predict(batch, config.num_samples)

            calibration = calibrate(task, predict)
            predicting = Stopwatch()  # of the test split alone
            evaluation = evaluate(task, predict, calibration)
        record = Record(
            **{name: getattr(config, name) for name in ("task", "protocol", "method", "seed", "key")},
            config=config.to_dict(),
            text=task.text,
            unit=task.unit,
            rows={split: len(task.split(split)) for split in SPLITS},
            **evaluation._asdict(),
            training=[{name: getattr(result, name) for name in TRAINING} for result in results],
            parameters=sum(parameter.numel() for parameter in method.parameters()),
            seconds=fitting.seconds("fit") | predicting.seconds("predict") | whole.seconds("total"),
            peak_memory=peak_memory(),
            **provenance(),
        )
        return Outcome(record, method, task, calibration.scale)


class Stopwatch:
    """CPU and wall-clock seconds inside its `with` blocks, summed."""

    def __init__(self):
        self.cpu, self.wall = 0.0, 0.0

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
    """Largest resident memory of this process in megabytes, since `reset_peak_memory`; 0 where it is not counted."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
    if sys.platform == "win32":
        return 0.0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # bytes that `ru_maxrss` counts in
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def provenance() -> dict[str, Any]:
    """Code, library versions, type of machine and time, as fields of a record; nothing that identifies the machine."""
    versions = {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}
    machine = {"system": platform.system(), "architecture": platform.machine(), "cores": os.cpu_count()}
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line for line in lines if line.startswith("model name"))
        machine["processor"] = processor.partition(":")[2].strip()
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return {"commit": commit(), "versions": versions, "machine": machine, "made": made}


@cache
def commit() -> str | None:
    """Commit of the running code, with `+` if its files have changed since; None outside of a repository."""
    try:
        if not _git("ls-files", "."):  # installed into a folder that another repository ignores
            return None
        changed = _git("status", "--porcelain", "--untracked-files=no", ".")
        return _git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).resolve().parents[2]), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GIT_TIMEOUT_SECONDS)
    return done.stdout.strip()
