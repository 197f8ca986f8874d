"""Scenes of bearings: other bearings, other operating conditions, other rigs."""

import numpy as np

from nsac.lab.datasets.bearings import load_bearing
from nsac.lab.shifts.scenes.base import TEST_ROWS, Scene, generator_of, split_blocks
from nsac.lab.shifts.scenes.tables import TABLE_ROWS, table_scene

RUNS = {
    "bearings": ("xjtu", ("1_1", "1_2", "1_3"), {
        "other_bearing": (("xjtu", "1_4"), ("xjtu", "1_5")),
        "other_condition": (("xjtu", "2_2"), ("xjtu", "2_4")),
        "other_rig": (("pronostia", "1_2"), ("pronostia", "1_4"), ("hust", "1")),
    }),
    "pronostia": ("pronostia", ("2_1", "2_2", "2_3"), {
        "other_bearing": (("pronostia", "2_4"), ("pronostia", "2_6")),
        "other_condition": (("pronostia", "1_2"), ("pronostia", "1_4"), ("pronostia", "3_1"), ("pronostia", "3_2")),
        "other_rig": (("xjtu", "1_1"), ("xjtu", "2_2"), ("hust", "1")),
    }),
}  # fmt: skip
"""Rig and bearings of training, and the bearings of each kind of shift."""

BLOCK_WINDOWS, MARGIN_WINDOWS = 100, 5
"""Vibration windows of a block, which is in one split as a whole, and windows dropped at each of its ends."""

LABEL_NOISE = 0.05
"""Noise added to the label, in its standard deviations. The label is computed, not measured, and constant over most of
a life: without noise the likelihood is unbounded and training diverges."""


def _load(rig: str, bearing: str) -> tuple[np.ndarray, np.ndarray]:
    """14 features and the label of a run; the rig HUST has only a linear label."""
    run = load_bearing(rig, bearing)
    x = run.features.copy()
    x[..., 3] += 3  # from excess kurtosis
    # Energy, frequency, kurtosis and standard deviation are positive and have long tails.
    x[..., [0, 1, 3, 6]] = np.log(x[..., [0, 1, 3, 6]])
    return x.reshape(len(x), -1), run.linear if np.isnan(run.degradation).any() else run.degradation


def make_bearings(name: str, seed: int) -> Scene:
    """A scene of `RUNS`."""
    random = generator_of(name, seed)
    rig, bearings, shifts = RUNS[name]
    runs = [_load(rig, bearing) for bearing in bearings]
    x = np.concatenate([features for features, _ in runs])
    y = np.concatenate([labels for _, labels in runs])
    within = np.concatenate([np.arange(len(labels)) % BLOCK_WINDOWS for _, labels in runs])
    block = np.cumsum(within == 0) - 1  # no block contains two bearings
    usable = (within >= MARGIN_WINDOWS) & (within < BLOCK_WINDOWS - MARGIN_WINDOWS)
    splits = []
    for size, blocks in zip((TABLE_ROWS, TEST_ROWS, TEST_ROWS), split_blocks(block, random), strict=True):
        rows = random.permutation(np.flatnonzero(usable & np.isin(block, blocks)))[:size]
        splits.append((x[rows], y[rows]))
    shifted = {}
    for kind, others in shifts.items():
        for rig, bearing in others:
            features, labels = _load(rig, bearing)
            rows = random.permutation(len(features))[:TEST_ROWS]
            shifted[f"{kind}/{rig}-{bearing}"] = kind, (features[rows], labels[rows])
    noise = LABEL_NOISE * splits[0][1].std()
    for _, y in (*splits, *(rows for _, rows in shifted.values())):
        y += noise * random.standard_normal(len(y))
    return table_scene(name, seed, splits, shifted)
