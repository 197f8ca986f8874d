"""A driving policy: a fitted method that turns frames into an action with its uncertainty; its training and folder."""

import os
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from nsac.estimators.files import ModelError, read_model, write_model
from nsac.lab.datasets.carracing import RecordConfig, Recording, load_recording
from nsac.lab.driving.world import DrivingError
from nsac.lab.grid.config import RunConfig, run_config
from nsac.lab.grid.run import run_fitted
from nsac.lab.grid.store import RESULTS, Record, Store
from nsac.lab.tasks import carracing, udacity
from nsac.lab.tasks.base import Task
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
TRY = "carracing-try"
"""First words of the task of a try: a policy trained on a recording with fewer frames than the task's."""
MIN_TRY_STEPS = 100


def simulator_of(task: str) -> str:
    """`"carracing"` or `"udacity"`: the name of a task without the size of its recording."""
    return task.partition("-")[0]


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
        self.task = simulator_of(config.task)

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
        with stored_sizes(METHODS[config.of], problem, weights):
            method = config.build(problem)
        method.load_state_dict(weights)
        policy = DrivingPolicy(method, tensors["shift"], tensors["scale"], config, tensors["calibration"])
        NETWORK_INPUTS[policy.task]
    except Exception as err:  # a wrong value can fail in any part of what it describes
        raise ModelError(
            f"The model in {folder} does not describe a driving policy: {type(err).__name__}: {err}. Train it again."
        ) from None
    wanted = policy.task if task is None else simulator_of(task)
    if policy.task != wanted:
        raise DrivingError(f"The model in {folder} was trained on {policy.task}, not {wanted}. Name another.")
    return policy


def train_policy(
    task: str,
    method: str,
    seed: int,
    folder: str | os.PathLike,
    results: str | os.PathLike = RESULTS,
    report: Callable[[Progress], None] | None = None,
    recording: str | os.PathLike | None = None,
) -> tuple[DrivingPolicy, Record]:
    """Train a policy for `"carracing"` or `"udacity"` and save it, with the record of its scores on held-out frames.

    A policy in `folder` and a record in `results` with the same configuration are read, not made again. `report` is
    called after each training step. `recording` is the folder of the recording, by default that of
    `recordings_folder()`. If it is not the recording that the task is defined on, the policy is a try: its task has a
    name of its own, which begins with `TRY`, its record is not kept in `results`, and there is a warning.
    """
    config, store = run_config(task, "sound", method, seed), Store(Path(results))
    data = None
    if recording is not None:
        config, data = _recorded_task(config, load_recording(Path(recording)))
    if Path(folder).is_dir() and config.name in store:
        policy = load_policy(folder, task)
        if policy.config == config:
            return policy, store.read(config.name)
    outcome = run_fitted(config, report, data)
    shift, scale = outcome.task.test.unit(torch.arange(1))
    calibration = outcome.calibration.scale.float()
    policy = DrivingPolicy(outcome.method, shift.float(), scale.float(), config, calibration)
    policy.save(folder)
    if not config.task.startswith(TRY):
        store.write(outcome.record)
    return policy, outcome.record


def _recorded_task(config: RunConfig, recording: Recording) -> tuple[RunConfig, Task]:
    """The task of a recording and its configuration; that of a try has fewer steps, in proportion to its frames."""
    if config.task not in carracing.RECORDED:
        raise ValueError(f"`recording` must be None for the task {config.task!r}. It is for CarRacing only.")
    frames = carracing.RECORDED[config.task]
    if recording.config != RecordConfig(frames):
        warnings.warn(
            f"This is a try: the policy is trained on a recording of {len(recording)} frames instead of {frames}. It "
            "makes no claim about laps.",
            stacklevel=3,
        )
        train = dict(config.train)
        if train:  # empty for a method that is solved
            train["max_steps"] = max(MIN_TRY_STEPS, round(train["max_steps"] * len(recording) / frames))
            train["validate_every"] = train["max_steps"] // 2
        config = replace(config, task=f"{TRY}-{recording.digest}", train=train)
    return config, carracing.clone_task(recording, config.seed, config.task)
