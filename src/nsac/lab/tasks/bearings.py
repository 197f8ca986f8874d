"""Bearings run to failure: degradation of a known rig, and of rigs never seen."""
# pyright: reportArgumentType=false, reportAssignmentType=false
# (the type checker takes a column of a frame for a frame, and unpacked parts for any argument)

from collections.abc import Callable, Mapping

import numpy as np

from nsac.lab.datasets import Bearing, load_bearing
from nsac.lab.datasets.vibration import degradation
from nsac.lab.tasks.base import Protocols, TableSplit, Task, task
from nsac.lab.tasks.tables import tensor
from nsac.methods import TableProblem

TRAINED = ("1_1", "1_2", "1_3")
"""XJTU-SY bearings under operating condition 1 the paper trains on."""

ZERO_SHOT = {"pronostia": ("1_2", "1_3", "1_4"), "hust": ("1",)}
"""Bearings of other rigs under their first operating condition."""

ROLLING = 50
"""Windows a feature is averaged over, up to the present one."""

HEALTHY = 200
"""First windows of a run, whose median is the healthy state the run is compared with."""

LEAST_SPREAD = 1e-3
"""Of a feature in the healthy state."""

BLOCK = 250
"""Neighbouring windows that stay together when a run is cut in two."""

LIFE = 10_000
"""Windows that count as 1 of the clock; about a life, but the same for every bearing, so that it tells no end."""

_LABEL = (
    "The target is the non-linear degradation u^13.5 of `nsac.lab.datasets.vibration.degradation`, u the share of the "
    "file's rows so far, made alike for all rigs, since the published labels differ from rig to rig. XJTU-SY files are "
    "cut to whole thousands of rows, so their last row, with label 1, comes before the end of life: 13 % before in 1_4 "
    "and 1_5, up to 6 % in 1_1 to 1_3. "
)
_RANKS = (
    "Of each input the model sees its rank among the training rows, between -1.7 and 1.7, so that what is beyond is "
    "at the end: features of other rigs are hundreds of training deviations off."
)
_PAPER = (
    _LABEL + "Each window is a row: the logarithm of energy and deviation, the other five features per axis, and a "
    "clock from 0 to 1 over the run. The clock is scaled by the length of the run it is in, so it tells the model "
    "how much of the test bearing's life is over, and the label is a function of it: this is what lets numbers be as "
    "small as the paper's. {split} " + _RANKS
)
_PAPER_SPLIT = {
    "xjtu": "Windows of XJTU-SY bearings 1_1 to 1_3 are shuffled with the seed, 70 % train, 10 % choose weights, 10 % "
    "calibrate, 10 % test: neighbours overlap by half, so the test part is nearly known.",
    "pronostia": "Trained on XJTU-SY 1_1 to 1_3 (random 80 % of the windows; 10 % choose weights, 10 % calibrate), "
    "tested on PRONOSTIA 1_2, 1_3 and 1_4 as they are.",
    "hust": "Trained on XJTU-SY 1_1 to 1_3 (random 80 % of the windows; 10 % choose weights, 10 % calibrate), tested "
    "on the HUST bearing as it is, whose published label is linear.",
}
_SOUND = (
    _LABEL
    + f"Each window but the first {ROLLING} is a row: the features (logarithms of energy and deviation) averaged over "
    f"the last {ROLLING} windows, as differences from the median of the run's first {HEALTHY} windows in median "
    "absolute deviations of those (as long as there are fewer, of those there are), and the number of windows so far "
    f"over {LIFE}: levels tell the rig and not its wear, and nothing of the future and nothing about the end of life "
    "is known. {split} " + _RANKS
)
_SOUND_SPLIT = {
    "xjtu": f"One of the five bearings under operating condition 1 tests (the seed says which), the next one chooses "
    f"weights and calibrates in alternating blocks of {BLOCK} windows, the other three train.",
    "pronostia": f"Of XJTU-SY 1_1 to 1_3 two bearings train and the third (the seed says which) chooses weights and "
    f"calibrates in alternating blocks of {BLOCK} windows; PRONOSTIA 1_2, 1_3 and 1_4 test.",
    "hust": f"Of XJTU-SY 1_1 to 1_3 two bearings train and the third (the seed says which) chooses weights and "
    f"calibrates in alternating blocks of {BLOCK} windows; the HUST bearing tests.",
}
Rows = tuple[np.ndarray, np.ndarray]
Load = Callable[[str, str], Bearing]


def paper_rows(run: Bearing) -> Rows:
    """Features with the clock of the whole run, and labels."""
    clock = np.linspace(0, 1, len(run.features))
    return np.column_stack([logged(run), clock]), degradation(len(clock))


def sound_rows(run: Bearing) -> Rows:
    """How far windows are from the run's healthy state, without knowing the future, and labels; not of the first."""
    now = logged(run)
    total = np.cumsum(np.pad(now, ((1, 0), (0, 0))), 0)
    end = np.arange(1, len(now) + 1)
    start = np.maximum(end - ROLLING, 0)
    mean = (total[end] - total[start]) / (end - start)[:, None]
    known = np.minimum(np.arange(len(now)), HEALTHY - 1)  # at the start of a run: what was seen by then
    median = np.array([np.median(now[: i + 1], 0) for i in range(min(HEALTHY, len(now)))])
    spread = np.array([np.median(np.abs(now[: i + 1] - centre), 0) for i, centre in enumerate(median)])
    away = (mean - median[known]) / np.maximum(spread[known], LEAST_SPREAD)
    rows, labels = np.column_stack([away, np.arange(len(now)) / LIFE]), degradation(len(now))
    return rows[ROLLING:], labels[ROLLING:]


def logged(run: Bearing) -> np.ndarray:
    """(windows, 14), energy and deviation as logarithms."""
    features = run.features.copy()
    features[..., [0, 6]] = np.log(features[..., [0, 6]])
    return features.reshape(len(features), -1)


def ranks(x: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Share of the known rows below each number, column by column, spread to mean 0 and variance 1 of the known."""
    places = [
        (np.searchsorted(column, values) + np.searchsorted(column, values, "right")) / 2
        for values, column in zip(x.T, np.sort(known, 0).T, strict=True)
    ]
    return np.sqrt(3) * (2 * np.stack(places, 1) / len(known) - 1)


def build(name: str, protocol: Protocols, seed: int, load: Load = load_bearing) -> Task:
    """A task of bearings; `load` gives a run by rig and name."""
    parts = _paper_parts(name, seed, load) if protocol == "paper" else _sound_parts(name, seed, load)
    train_x, train_y = parts["train"]
    mean, std = train_y.mean(), train_y.std()
    back = tensor([mean]), tensor([std])
    data = {}
    for part, (x, y) in parts.items():
        data[part] = TableSplit(*back, x=tensor(ranks(x, train_x)), y=tensor((y[:, None] - mean) / std))
    template, split = (_PAPER, _PAPER_SPLIT) if protocol == "paper" else (_SOUND, _SOUND_SPLIT)
    problem = TableProblem(train_x.shape[1], 1)
    text = template.format(split=split[name])
    return Task(name, protocol, seed, text, "degradation, 0 to 1", problem, **data, baselines=("mean", "ridge", "gbm"))


def _paper_parts(name: str, seed: int, load: Load) -> Mapping[str, Rows]:
    known = _joined([paper_rows(load("xjtu", bearing)) for bearing in TRAINED])
    order = np.random.default_rng(seed).permutation(len(known[1]))
    edges = np.cumsum([round(share * len(order)) for share in (0.1, 0.1, 0.1 if name == "xjtu" else 0.0)])
    validation, calibration, test, train = np.split(order, edges)
    parts = {"train": train, "validation": validation, "calibration": calibration, "test": test}
    rows = {part: (known[0][index], known[1][index]) for part, index in parts.items()}
    if name != "xjtu":
        rows["test"] = _joined([paper_rows(load(name, bearing)) for bearing in ZERO_SHOT[name]])
    return rows


def _sound_parts(name: str, seed: int, load: Load) -> Mapping[str, Rows]:
    pool = ("1_1", "1_2", "1_3", "1_4", "1_5") if name == "xjtu" else TRAINED
    turned = np.roll(pool, -(seed % len(pool))).tolist()
    tests = [("xjtu", turned.pop(0))] if name == "xjtu" else [(name, bearing) for bearing in ZERO_SHOT[name]]
    x, y = sound_rows(load("xjtu", turned.pop(0)))
    even = np.arange(len(y)) // BLOCK % 2 == 0
    return {
        "train": _joined([sound_rows(load("xjtu", bearing)) for bearing in turned]),
        "validation": (x[even], y[even]),
        "calibration": (x[~even], y[~even]),
        "test": _joined([sound_rows(load(*test)) for test in tests]),
    }


def _joined(rows: list[Rows]) -> Rows:
    xs, ys = zip(*rows, strict=True)
    return np.concatenate(xs), np.concatenate(ys)


for _name in ("xjtu", "pronostia", "hust"):
    task(_name, "paper")(lambda seed, name=_name: build(name, "paper", seed))
    task(_name, "sound")(lambda seed, name=_name: build(name, "sound", seed))
