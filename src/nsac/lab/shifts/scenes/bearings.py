"""Scenes of bearings: other ones, under other conditions, on other rigs."""

import numpy as np

from nsac.lab.datasets.bearings import load_bearing
from nsac.lab.shifts.scenes.base import TEST_ROWS, Scene, deal, generator_of
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
"""Rig and bearings of training, and those of each shift."""

BEARING_BLOCK, BEARING_MARGIN = 100, 5
"""Vibration windows of a block, which is held out as a whole, and how many are dropped at each of its ends."""

LABEL_NOISE = 0.05
"""Noise added to the degradation, in its standard deviations. The label is computed, not measured, and constant over
most of a life: without noise the likelihood has no bound, and training by it diverges."""


def _vibration(rig: str, bearing: str) -> tuple[np.ndarray, np.ndarray]:
    """14 features and the label of a run.

    Energy, frequency, kurtosis and deviation are positive and have long tails: their logarithms are taken. The rig HUST
    has a linear label only.
    """
    run = load_bearing(rig, bearing)
    x = run.features.copy()
    x[..., 3] += 3  # from excess kurtosis
    x[..., [0, 1, 3, 6]] = np.log(x[..., [0, 1, 3, 6]])
    return x.reshape(len(x), -1), run.linear if np.isnan(run.degradation).any() else run.degradation


def make_bearings(name: str, seed: int) -> Scene:
    """A scene of `RUNS`."""
    random = generator_of(name, seed)
    rig, trained, shifts = RUNS[name]
    runs = [_vibration(rig, bearing) for bearing in trained]
    x, y = (np.concatenate(part) for part in zip(*runs, strict=True))
    place = np.concatenate([np.arange(len(run[0])) for run in runs])
    block = np.cumsum(place % BEARING_BLOCK == 0) - 1  # no block has two bearings
    within = place % BEARING_BLOCK
    usable = (within >= BEARING_MARGIN) & (within < BEARING_BLOCK - BEARING_MARGIN)
    parts = []
    for size, blocks in zip((TABLE_ROWS, TEST_ROWS, TEST_ROWS), deal(block, random), strict=True):
        rows = random.permutation(np.flatnonzero(usable & np.isin(block, blocks)))[:size]
        parts.append((x[rows], y[rows]))
    away = {}
    for kind, others in shifts.items():
        for rig, bearing in others:
            far_x, far_y = _vibration(rig, bearing)
            rows = random.permutation(len(far_x))[:TEST_ROWS]
            away[f"{kind}/{rig}-{bearing}"] = kind, far_x[rows], far_y[rows]
    noise = LABEL_NOISE * parts[0][1].std()
    parts = [(x, y + noise * random.standard_normal(len(y))) for x, y in parts]
    away = {label: (kind, x, y + noise * random.standard_normal(len(y))) for label, (kind, x, y) in away.items()}
    return table_scene(name, seed, parts, away)
