"""Bearings run to failure: degradation on the training rig, and zero-shot on other rigs."""
# pyright: reportArgumentType=false, reportAssignmentType=false
# (the type checker takes a column of a frame for a frame, and unpacked splits for any argument)

from collections.abc import Callable, Mapping

import numpy as np

from nsac.lab.datasets import Bearing, load_bearing
from nsac.lab.datasets.vibration import degradation
from nsac.lab.tasks.base import Protocols, TableSplit, Task, task
from nsac.lab.tasks.tables import tensor
from nsac.methods import TableProblem

TRAINED = ("1_1", "1_2", "1_3")  # XJTU-SY bearings under operating condition 1 that the paper trains on
ZERO_SHOT = {"pronostia": ("1_2", "1_3", "1_4"), "hust": ("1",)}
"""Bearings of other rigs under their first operating condition."""
ROLLING_WINDOWS = 50  # windows of the rolling mean of a feature, up to the present one
HEALTHY_WINDOWS = 200  # first windows of a run; their median is the healthy state that the run is compared with
MIN_HEALTHY_SPREAD = 1e-3  # lower bound of a feature's median absolute deviation in the healthy state
BLOCK_WINDOWS = 250  # consecutive windows that stay together when a run is divided between two splits
CLOCK_UNIT_WINDOWS = 10_000
"""Windows per unit of the clock: about one life, but the same for every bearing, so that it does not reveal the end."""
_LABEL = (
    "The target is the non-linear degradation u^13.5 of `nsac.lab.datasets.vibration.degradation`, u the share of the "
    "file's rows so far, computed alike for all rigs, since the published labels differ from rig to rig. XJTU-SY files "
    "are cut to whole thousands of rows, so their last row, with label 1, comes before the end of life: 13 % before in "
    "1_4 and 1_5, up to 6 % in 1_1 to 1_3. "
)
_RANKS = (
    "Each input is replaced by its rank among the training rows, between -1.7 and 1.7, so that values beyond the "
    "training range are at its ends: features of other rigs are hundreds of training standard deviations away."
)
_PAPER = (
    _LABEL + "Each window is a row: the logarithms of energy and standard deviation, the other five features per axis, "
    "and a clock from 0 to 1 over the run. The clock is scaled by the length of its own run, so it reveals how much of "
    "the test bearing's life is over, and the label is a function of it: this is what allows errors as small as the "
    "paper's. {split} " + _RANKS
)
_TRAINED = "Trained on XJTU-SY 1_1 to 1_3 (random 80 % of the windows; 10 % select the weights, 10 % calibrate), "
_PAPER_SPLIT = {
    "xjtu": "Windows of XJTU-SY bearings 1_1 to 1_3 are shuffled with the seed, 70 % train, 10 % select the weights, "
    "10 % calibrate, 10 % test: neighbours overlap by half, so the test split is nearly known.",
    "pronostia": _TRAINED + "tested on PRONOSTIA 1_2, 1_3 and 1_4 as they are.",
    "hust": _TRAINED + "tested on the HUST bearing as it is, whose published label is linear.",
}
_SOUND = (
    _LABEL + f"Each window but the first {ROLLING_WINDOWS} is a row: the features (logarithms of energy and standard "
    f"deviation) averaged over the last {ROLLING_WINDOWS} windows, as differences from the median of the run's first "
    f"{HEALTHY_WINDOWS} windows in units of their median absolute deviation (of the windows so far, as long as there "
    f"are fewer), and the number of windows so far over {CLOCK_UNIT_WINDOWS}: the size of a feature identifies the rig "
    "and not its wear, and nothing of the future and nothing about the end of life is known. {split} " + _RANKS
)
_ROTATED = (
    "Of XJTU-SY 1_1 to 1_3 two bearings train and the third (the seed determines which) selects the weights and "
    f"calibrates in alternating blocks of {BLOCK_WINDOWS} windows; "
)
_SOUND_SPLIT = {
    "xjtu": "One of the five bearings under operating condition 1 tests (the seed determines which), the next one "
    f"selects the weights and calibrates in alternating blocks of {BLOCK_WINDOWS} windows, the other three train.",
    "pronostia": _ROTATED + "PRONOSTIA 1_2, 1_3 and 1_4 test.",
    "hust": _ROTATED + "the HUST bearing tests.",
}
Rows = tuple[np.ndarray, np.ndarray]  # inputs and labels
Load = Callable[[str, str], Bearing]  # from rig and name to a run


def paper_rows(run: Bearing) -> Rows:
    """Features with the clock of the whole run, and labels."""
    clock = np.linspace(0, 1, len(run.features))
    return np.column_stack([logged(run), clock]), degradation(len(clock))


def sound_rows(run: Bearing) -> Rows:
    """Difference of the windows from the run's healthy state, without knowledge of the future, and labels."""
    now = logged(run)
    total = np.cumsum(np.pad(now, ((1, 0), (0, 0))), 0)
    end = np.arange(1, len(now) + 1)
    start = np.maximum(end - ROLLING_WINDOWS, 0)
    mean = (total[end] - total[start]) / (end - start)[:, None]
    known = np.minimum(np.arange(len(now)), HEALTHY_WINDOWS - 1)  # at the start of a run: the windows so far
    median = np.array([np.median(now[: i + 1], 0) for i in range(min(HEALTHY_WINDOWS, len(now)))])
    spread = np.array([np.median(np.abs(now[: i + 1] - centre), 0) for i, centre in enumerate(median)])
    difference = (mean - median[known]) / np.maximum(spread[known], MIN_HEALTHY_SPREAD)
    rows = np.column_stack([difference, np.arange(len(now)) / CLOCK_UNIT_WINDOWS])
    return rows[ROLLING_WINDOWS:], degradation(len(now))[ROLLING_WINDOWS:]


def logged(run: Bearing) -> np.ndarray:
    """Features, (windows, 14), with the logarithms of energy and standard deviation."""
    features = run.features.copy()
    features[..., [0, 6]] = np.log(features[..., [0, 6]])
    return features.reshape(len(features), -1)


def ranks(x: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Share of the known rows below each value, per column, scaled to mean 0 and variance 1 over the known rows."""
    places = [
        (np.searchsorted(column, values) + np.searchsorted(column, values, "right")) / 2
        for values, column in zip(x.T, np.sort(known, 0).T, strict=True)
    ]
    return np.sqrt(3) * (2 * np.stack(places, 1) / len(known) - 1)


def build(name: str, protocol: Protocols, seed: int, load: Load = load_bearing) -> Task:
    """A task of bearings."""
    if protocol == "paper":
        rows, text = paper_splits(name, seed, load), _PAPER.format(split=_PAPER_SPLIT[name])
    else:
        rows, text = sound_splits(name, seed, load), _SOUND.format(split=_SOUND_SPLIT[name])
    train_x, train_y = rows["train"]
    mean, std = train_y.mean(), train_y.std()
    shift, scale = tensor([mean]), tensor([std])
    data = {}
    for split, (x, y) in rows.items():
        data[split] = TableSplit(shift, scale, x=tensor(ranks(x, train_x)), y=tensor((y[:, None] - mean) / std))
    problem = TableProblem(train_x.shape[1], 1)
    return Task(name, protocol, seed, text, "degradation, 0 to 1", problem, **data, baselines=("mean", "ridge", "gbm"))


def paper_splits(name: str, seed: int, load: Load) -> Mapping[str, Rows]:
    """Inputs and labels of each split: windows divided at random; test windows of other rigs for zero-shot tasks."""
    x, y = _concatenated([paper_rows(load("xjtu", bearing)) for bearing in TRAINED])
    order = np.random.default_rng(seed).permutation(len(y))
    edges = np.cumsum([round(share * len(order)) for share in (0.1, 0.1, 0.1 if name == "xjtu" else 0.0)])
    validation, calibration, test, train = np.split(order, edges)
    splits = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    rows = {split: (x[index], y[index]) for split, index in splits.items()}
    if name != "xjtu":
        rows["test"] = _concatenated([paper_rows(load(name, bearing)) for bearing in ZERO_SHOT[name]])
    return rows


def sound_splits(name: str, seed: int, load: Load) -> Mapping[str, Rows]:
    """Inputs and labels of each split: whole bearings, but validation and calibration share one in blocks."""
    pool = ("1_1", "1_2", "1_3", "1_4", "1_5") if name == "xjtu" else TRAINED
    rotated = np.roll(pool, -(seed % len(pool))).tolist()
    tests = [("xjtu", rotated.pop(0))] if name == "xjtu" else [(name, bearing) for bearing in ZERO_SHOT[name]]
    x, y = sound_rows(load("xjtu", rotated.pop(0)))
    even = np.arange(len(y)) // BLOCK_WINDOWS % 2 == 0
    return {
        "train": _concatenated([sound_rows(load("xjtu", bearing)) for bearing in rotated]),
        "validation": (x[even], y[even]),
        "calibration": (x[~even], y[~even]),
        "test": _concatenated([sound_rows(load(*test)) for test in tests]),
    }


def _concatenated(rows: list[Rows]) -> Rows:
    return np.concatenate([x for x, _ in rows]), np.concatenate([y for _, y in rows])


for _name in ("xjtu", "pronostia", "hust"):
    task(_name, "paper")(lambda seed, name=_name: build(name, "paper", seed))
    task(_name, "sound")(lambda seed, name=_name: build(name, "sound", seed))
