"""Regression tables: Boston and Kin8nm as in the paper, and six UCI sets with their standard splits."""
# pyright: reportArgumentType=false, reportAssignmentType=false
# (the type checker takes a column of a frame for a frame, and unpacked splits for any argument)

import numpy as np
import torch
from torch import Tensor

from nsac.lab.datasets import Table, load_uci
from nsac.lab.tasks.base import Protocols, TableSplit, Task, task
from nsac.methods import TableProblem

_PAPER = (
    "Rows are shuffled with the seed and a tenth of them is the test split, since the paper states none; of the "
    "rest, eight tenths train, one tenth selects the weights and one tenth calibrates. Targets are scored on a scale "
    "where the training split ranges from 0 to 1, as after the paper's min-max scaling, which here is fitted on the "
    "training split alone. Inputs are standardised, an affine change of min-max scaling."
)
_SOUND = (
    "Standard split number {seed} of the UCI benchmark (nine tenths, one tenth), the one most published numbers are "
    "means over; of the nine tenths, eight in ten train, one in ten selects the weights and one in ten calibrates. "
    "Inputs and target are standardised with the training split; scores are in the unit of the data, {unit}. "
    "{repeated} of the {n} test rows equal a row of the nine tenths, target included; the standard splits do not keep "
    "repeated rows together."
)
_UNITS = {
    "boston": "1000 dollars", "kin8nm": "metres of a unit arm", "concrete": "MPa", "power-plant": "MW",
    "wine-red": "points", "protein": "angstrom",
}  # fmt: skip


def build(name: str, protocol: Protocols, seed: int, table: Table) -> Task:
    """The task of a given table."""
    generator = np.random.default_rng(seed)
    if protocol == "paper":
        order = generator.permutation(len(table.y))
        cut = round(0.9 * len(order))
        rest, test = order[:cut], order[cut:]
        text, unit = _PAPER, "min-max"
    else:
        given, test = table.splits[seed % len(table.splits)]
        rest = generator.permutation(given)
        unit, number = _UNITS[name], seed % len(table.splits)
        text = _SOUND.format(seed=number, unit=unit, repeated=repeated(table, given, test), n=len(test))
    tenth = round(0.1 * len(rest))
    validation, calibration, train = np.split(rest, [tenth, 2 * tenth])
    splits = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    x, y = standardised(table.x, train), table.y[:, None]
    mean, std = y[train].mean(0), y[train].std(0)
    low, span = (y[train].min(0), np.ptp(y[train], 0)) if protocol == "paper" else (0.0, 1.0)
    shift, scale = tensor((mean - low) / span), tensor(std / span)
    data = {}
    for split, rows in splits.items():
        data[split] = TableSplit(shift, scale, x=tensor(x[rows]), y=tensor((y[rows] - mean) / std))
    problem = TableProblem(x.shape[1], 1)
    return Task(name, protocol, seed, text, unit, problem, **data, baselines=("mean", "ridge", "gbm"))


def repeated(table: Table, given: np.ndarray, test: np.ndarray) -> int:
    """Number of test rows that equal one of the given rows, target included."""
    rows = np.column_stack([table.x, table.y])
    known = set(map(tuple, rows[given].tolist()))
    return sum(tuple(row) in known for row in rows[test].tolist())


def standardised(x: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and standard deviation 1 over the training rows; constant columns become 0."""
    std = x[train].std(0)
    return (x - x[train].mean(0)) / np.where(std > 0, std, 1.0)


def tensor(values: np.ndarray | float) -> Tensor:
    """A tensor in the default precision."""
    return torch.as_tensor(np.asarray(values), dtype=torch.get_default_dtype())


for _name in _UNITS:
    task(_name, "sound")(lambda seed, name=_name: build(name, "sound", seed, load_uci(name)))
for _name in ("boston", "kin8nm"):
    task(_name, "paper")(lambda seed, name=_name: build(name, "paper", seed, load_uci(name)))
