"""The list of scenes, and the types that describe one."""

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nsac.methods import AbstractProblem
from nsac.training import TensorData

REPORTED = (
    "other_bearing", "other_condition", "other_rig", "season", "frozen_sensor", "level_shift", "later_times",
    "missing_quarter", "other_direction", "left_out_cluster", "left_out_side", "shuffled_features",
)  # fmt: skip
"""Kinds of shift whose results are published. No model is chosen by them."""

CHOOSING = (
    "noise", "box", "crossover", "recalibrated", "gain", "drift", "spikes", "stretched_time", "bigger", "thinned",
    "left_out_target",
)  # fmt: skip
"""Kinds of shift that may be used to choose between variants of a method."""

_TABLE = ("noise", "box", "crossover", "recalibrated")
_WINDOW = ("noise", "crossover", "gain", "drift", "spikes")
_BEARINGS = ("other_bearing", "other_condition", "other_rig")
_SENSORS = ("season", "frozen_sensor", "level_shift")
_SPIRAL = ("later_times", "missing_quarter", "other_direction")
_LEFT_OUT = ("left_out_cluster", "left_out_side")

_CONFIRMING: dict[str, tuple[str, ...]] = {
    "pronostia": _BEARINGS,
    "ettm1/winter": _SENSORS,
    "jena/winter": _SENSORS,
    "spiral/noisy": _SPIRAL,
    **{f"{data}/{kind}": (kind,) for data in ("boston", "wine-red") for kind in (*_LEFT_OUT, "shuffled_features")},
}

CONFIRMING = tuple(_CONFIRMING)
"""Confirmation scenes: they have reported kinds of shift only, and were first evaluated with the final model."""

SCENES: dict[str, tuple[str, ...]] = {
    "bearings": (*_BEARINGS, *_TABLE),
    "ettm1": (*_SENSORS, *_WINDOW),
    "jena": (*_SENSORS, *_WINDOW),
    "spiral": (*_SPIRAL, "noise", "stretched_time", "bigger", "thinned"),
    **{data: ("shuffled_features", *_TABLE) for data in ("power-plant", "protein", "concrete")},
    **{data: _TABLE for data in ("boston", "wine-red")},
    **{f"{data}/{kind}": (kind,) for kind in _LEFT_OUT for data in ("kin8nm", "power-plant", "protein", "concrete")},
    **{f"{data}/left_out_target": ("left_out_target",) for data in ("boston", "wine-red", "concrete")},
    **_CONFIRMING,
}
"""Name of a scene to the kinds of its shifts.

The inputs of Kin8nm are independent and uniform. Shuffled rows, rows of the bounding box and crossed-over rows have
the distribution of the data, so Kin8nm has no such scene.
"""

TEST_ROWS = 700
"""Maximum number of rows of the validation set and of each test set."""

Change = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]
"""From standardised test rows, standardised training rows and a generator to the shifted test rows."""


@dataclass(frozen=True)
class Shift:
    """Test rows under one distribution shift."""

    kind: str
    """in `REPORTED` or in `CHOOSING`"""
    data: TensorData


@dataclass(frozen=True)
class Scene:
    """A scenario: a training distribution, test rows from it, and test rows under distribution shift.

    Inputs and targets are standardised by `train` alone. Where a shift alters only inputs, the targets are unchanged.
    """

    name: str
    seed: int
    problem: AbstractProblem
    train: TensorData
    validation: TensorData
    inside: TensorData
    """test rows from the distribution of `train`"""
    outside: dict[str, Shift]
    """shifts by name, for instance `"other_bearing/xjtu-1_4"`"""


def scenes(kinds: Iterable[str]) -> list[str]:
    """Names of the scenes that have a shift of these kinds."""
    return [name for name, has in SCENES.items() if set(has) & set(kinds)]


def generator_of(name: str, seed: int) -> np.random.Generator:
    """A generator for each pair of a name and a seed."""
    return np.random.default_rng([zlib.crc32(name.encode()), seed])


def tensor(values: np.ndarray) -> Tensor:
    """A tensor of the default floating-point type."""
    return torch.as_tensor(np.ascontiguousarray(values), dtype=torch.get_default_dtype())


def split_blocks(block: np.ndarray, random: np.random.Generator) -> list[np.ndarray]:
    """Random split of block numbers into training (70 %), validation (15 %) and test (15 %)."""
    blocks = random.permutation(np.unique(block))
    return np.split(blocks, [round(0.7 * len(blocks)), round(0.85 * len(blocks))])
