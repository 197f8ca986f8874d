"""A fitted method at the wheel: frames in, an action and its uncertainty out; and the files it is kept in."""

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from nsac.estimators.files import ModelError, read_model, write_model
from nsac.lab.driving import cloning, road
from nsac.lab.driving.errors import DrivingError
from nsac.lab.grid.config import RunConfig
from nsac.lab.tasks.base import Task
from nsac.methods import AbstractMethod, FrameProblem, problem_from_dict
from nsac.uncertainty import Prediction, VarianceScale

SEE: dict[str, Callable[[Tensor], Tensor]] = {"carracing": cloning.see, "udacity": road.see}
"""What a network sees of the frames of each task."""
LARGEST = 100_000
"""No size in a model file may be larger."""


@dataclass(frozen=True)
class Decision:
    """What a pilot wants to do, and how sure it is of it."""

    action: np.ndarray
    """steering, gas and brake; or steering alone"""
    aleatoric: np.ndarray
    epistemic: np.ndarray
    """variances of each"""

    @property
    def doubt(self) -> float:
        """Total standard deviation of the steering."""
        return float(np.sqrt(self.aleatoric[0] + self.epistemic[0]))


class Memory:
    """The latest frames of a drive; before the first there is only it.

    Args:
        length: how many.
    """

    def __init__(self, length: int):
        self.length = length
        self._frames: deque[np.ndarray] = deque(maxlen=length)

    def see(self, frame: np.ndarray) -> np.ndarray:
        """(length, ...), of which this frame is the newest."""
        self._frames.extend([frame] if self._frames else [frame] * self.length)
        return np.stack(self._frames)


class Pilot:
    """A fitted method at the wheel.

    Args:
        method: fitted.
        shift, scale: from standardised actions to actions.
        config: numbers of the run that fitted it.
        calibration: factor on deviations, per action.
    """

    def __init__(self, method: AbstractMethod, shift: Tensor, scale: Tensor, config: RunConfig, calibration: Tensor):
        self.method, self.shift, self.scale, self.config = method.eval(), shift, scale, config
        self.calibration = calibration
        self.task = config.task.partition("-")[0]  # the name of a larger recording does not matter

    @classmethod
    def of(cls, method: AbstractMethod, task: Task, config: RunConfig, calibration: VarianceScale) -> "Pilot":
        """What came out of a run."""
        shift, scale = task.test.unit(torch.arange(1))
        return cls(method, shift.float(), scale.float(), config, calibration.scale.float())

    @property
    def name(self) -> str:
        """Of its method."""
        return self.config.method

    @property
    def length(self) -> int:
        """How many of the latest frames it sees."""
        return cast(FrameProblem, self.method.problem).frames

    def sees(self, frames: np.ndarray) -> Tensor:
        """The latest frames of several drives, (B, length, ...), as the network sees them."""
        return SEE[self.task](torch.from_numpy(frames))

    def decide(self, frames: np.ndarray) -> list[Decision]:
        """What to do in each of several drives, by their latest frames, (B, length, ...)."""
        p = self.predict(self.sees(frames))
        columns = (v.double().numpy() for v in (p.mean, p.aleatoric, p.epistemic))
        return [Decision(*row) for row in zip(*columns, strict=True)]

    def predict(self, x: Tensor) -> Prediction:
        """Actions of what is seen, calibrated."""
        raw = self.method.predict({"x": x}, self.config.num_samples)
        unit = Prediction(self.shift + self.scale * raw.mean_draws, self.scale.log() + raw.log_std_draws)
        return VarianceScale(self.calibration)(unit)

    def save(self, folder: str | os.PathLike) -> None:
        """Write a folder that `load_pilot` reads: safetensors and JSON, whole or not at all."""
        own = {"shift": self.shift, "scale": self.scale, "calibration": self.calibration}
        tensors = {f"method/{name}": tensor for name, tensor in self.method.state_dict().items()}
        facts = {"class": "Pilot", "config": self.config.to_dict(), "problem": self.method.problem.to_dict()}
        write_model(folder, facts, tensors | own)


def load_pilot(folder: str | os.PathLike, task: str | None = None) -> Pilot:
    """A pilot from the folder its `save` wrote; anything wrong with it is a `ModelError`.

    Args:
        folder: where.
        task: what it must have learnt; None for anything.
    """
    facts, tensors = read_model(folder)
    if facts.get("class") != "Pilot":
        raise ModelError(f"The model in {folder} is a {facts.get('class')!r}, which does not drive.")
    try:
        config = RunConfig(**facts["config"])
        method = config.build(problem_from_dict(facts["problem"]))
        method.load_state_dict({n.removeprefix("method/"): t for n, t in tensors.items() if n.startswith("method/")})
        pilot = Pilot(method, tensors["shift"], tensors["scale"], config, tensors["calibration"])
        SEE[pilot.task]
    except Exception as err:  # a wrong number can fail in any part of what it describes
        raise ModelError(
            f"The model in {folder} does not describe a pilot: {type(err).__name__}: {err}. Train it anew."
        ) from None
    if task is not None and pilot.task != task:
        raise DrivingError(f"The model in {folder} learnt {pilot.task}, not {task}. Name another.")
    return pilot
