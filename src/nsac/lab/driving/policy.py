"""A driving policy: a fitted method that turns frames into an action with its uncertainty; its training and folder."""

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from nsac.estimators.files import ModelError, read_model, write_model
from nsac.lab.driving.world import DrivingError
from nsac.lab.grid.config import RunConfig, run_config
from nsac.lab.grid.run import run_fitted
from nsac.lab.grid.store import RESULTS, Record, Store
from nsac.lab.tasks import carracing, udacity
from nsac.methods import METHODS, AbstractMethod, FrameProblem, problem_from_dict
from nsac.methods.stored import stored_sizes
from nsac.training import Progress
from nsac.uncertainty import Prediction, VarianceScale

NETWORK_INPUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "carracing": carracing.network_input,
    "udacity": udacity.network_input,
}
CLASS_NAMES = ("DrivingPolicy", "Pilot")
"""Names of the class in a model folder: the one that is written, and the one that earlier versions wrote."""


@dataclass(frozen=True)
class Decision:
    """The action a policy chooses, and its uncertainty."""

    action: np.ndarray  # steering, throttle and brake; or steering alone
    aleatoric: np.ndarray
    epistemic: np.ndarray  # variances of each

    @property
    def steering_std(self) -> float:
        """Total standard deviation of the steering."""
        return float(np.sqrt(self.aleatoric[0] + self.epistemic[0]))


class FrameHistory:
    """The `lookback` latest frames of a drive; at its start, the first frame is repeated."""

    def __init__(self, lookback: int):
        self.lookback = lookback
        self._frames: deque[np.ndarray] = deque(maxlen=lookback)

    def add(self, frame: np.ndarray) -> np.ndarray:
        """The latest frames, (lookback, ...), of which this one is the newest."""
        self._frames.extend([frame] if self._frames else [frame] * self.lookback)
        return np.stack(self._frames)


class DrivingPolicy:
    """A fitted method that drives.

    Args:
        method: fitted.
        shift, scale: from standardised actions to actions.
        config: of the run that fitted it.
        calibration: factor on standard deviations, per action.
    """

    def __init__(self, method: AbstractMethod, shift: Tensor, scale: Tensor, config: RunConfig, calibration: Tensor):
        self.method, self.shift, self.scale, self.config = method.eval(), shift, scale, config
        self.calibration = calibration
        self.task = config.task.partition("-")[0]  # without the size of the recording

    @property
    def name(self) -> str:
        """Of its method."""
        return self.config.method

    @property
    def lookback(self) -> int:
        """Number of frames a decision is made from."""
        return cast(FrameProblem, self.method.problem).frames

    def network_input(self, frames: np.ndarray) -> Tensor:
        """The latest frames of several drives, (B, lookback, ...), as input of the network."""
        return NETWORK_INPUTS[self.task](torch.from_numpy(frames))

    def decide(self, frames: np.ndarray) -> list[Decision]:
        """The action in each of several drives, from their latest frames, (B, lookback, ...)."""
        p = self.predict(self.network_input(frames))
        columns = [column.double().numpy() for column in (p.mean, p.aleatoric, p.epistemic)]
        return [Decision(*row) for row in zip(*columns, strict=True)]

    def predict(self, x: Tensor) -> Prediction:
        """Calibrated prediction of the actions from network inputs."""
        raw = self.method.predict({"x": x}, self.config.num_samples)
        unit = Prediction(self.shift + self.scale * raw.mean_draws, self.scale.log() + raw.log_std_draws)
        return VarianceScale(self.calibration)(unit)

    def save(self, folder: str | os.PathLike) -> None:
        """Write a folder that `load_policy` reads: safetensors and JSON, complete or not at all."""
        own = {"shift": self.shift, "scale": self.scale, "calibration": self.calibration}
        tensors = {f"method/{name}": tensor for name, tensor in self.method.state_dict().items()}
        facts = {"class": CLASS_NAMES[0], "config": self.config.to_dict(), "problem": self.method.problem.to_dict()}
        write_model(folder, facts, tensors | own)


def load_policy(folder: str | os.PathLike, task: str | None = None) -> DrivingPolicy:
    """A policy from the folder its `save` wrote, trained on `task` unless that is None; otherwise an error."""
    facts, tensors = read_model(folder)
    if facts.get("class") not in CLASS_NAMES:
        raise ModelError(f"The model in {folder} is a {facts.get('class')!r}, not a driving policy.")
    try:
        config = RunConfig(**facts["config"])
        weights = {n.removeprefix("method/"): t for n, t in tensors.items() if n.startswith("method/")}
        problem = problem_from_dict(facts["problem"])
        with stored_sizes(METHODS[config.method], problem, weights):
            method = config.build(problem)
        method.load_state_dict(weights)
        policy = DrivingPolicy(method, tensors["shift"], tensors["scale"], config, tensors["calibration"])
        NETWORK_INPUTS[policy.task]
    except Exception as err:  # a wrong value can fail in any part of what it describes
        raise ModelError(
            f"The model in {folder} does not describe a driving policy: {type(err).__name__}: {err}. Train it again."
        ) from None
    if task is not None and policy.task != task:
        raise DrivingError(f"The model in {folder} was trained on {policy.task}, not {task}. Name another.")
    return policy


def train_policy(
    task: str,
    method: str,
    seed: int,
    folder: str | os.PathLike,
    results: str | os.PathLike = RESULTS,
    report: Callable[[Progress], None] | None = None,
) -> tuple[DrivingPolicy, Record]:
    """Train a policy for `"carracing"` or `"udacity"` and save it, with the record of its scores on held-out frames.

    A policy in `folder` and a record in `results` with the same configuration are read, not made again. `report` is
    called after each training step.
    """
    config, store = run_config(task, "sound", method, seed), Store(Path(results))
    if Path(folder).is_dir() and config.name in store:
        policy = load_policy(folder, task)
        if policy.config == config:
            return policy, store.read(config.name)
    outcome = run_fitted(config, report)
    shift, scale = outcome.task.test.unit(torch.arange(1))
    calibration = outcome.calibration.scale.float()
    policy = DrivingPolicy(outcome.method, shift.float(), scale.float(), config, calibration)
    policy.save(folder)
    store.write(outcome.record)
    return policy, outcome.record
