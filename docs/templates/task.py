"""Template of a task: copy it to `src/nsac/lab/tasks/`, and import it in `src/nsac/lab/tasks/__init__.py`.

A task is data, four splits, scaling that is fitted on the training split, a problem, and a text that states all of it.
"""

import os
from pathlib import Path

import numpy as np
import torch
from dataset import Diabetes, load_diabetes  # in the library: from nsac.lab.datasets.diabetes import ...

from nsac.lab.tasks.base import TableSplit, Task, task
from nsac.methods import TableProblem

SHARES = (0.6, 0.7, 0.8)  # where training, validation and calibration end
TEXT = (
    "Rows are shuffled with the seed: 60 % train, 10 % select the weights, 10 % calibrate, 20 % test. Inputs and "
    "target are standardised with the training split; scores are in the unit of the data."
)


def build(seed: int, data: Diabetes) -> Task:
    """The task of given data, so that tests can pass data of their own."""
    order = np.random.default_rng(seed).permutation(len(data.y))
    splits = np.split(order, [round(share * len(order)) for share in SHARES])
    train = splits[0]
    x = (data.x - data.x[train].mean(0)) / data.x[train].std(0)
    mean, std = data.y[train].mean(), data.y[train].std()
    y = ((data.y - mean) / std)[:, None]
    shift, scale = tensor(mean), tensor(std)
    rows = [TableSplit(shift, scale, x=tensor(x[each]), y=tensor(y[each])) for each in splits]
    problem = TableProblem(x.shape[1], 1)
    return Task("diabetes", "sound", seed, TEXT, "score", problem, *rows, baselines=("mean", "ridge", "gbm"))


def tensor(values: np.ndarray | float) -> torch.Tensor:
    """A tensor in the default precision."""
    return torch.as_tensor(np.asarray(values), dtype=torch.get_default_dtype())


task("diabetes", "sound")(lambda seed: build(seed, load_diabetes(Path(os.environ["NSAC_DATA"]) / "diabetes.csv")))
