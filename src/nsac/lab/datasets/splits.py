"""The standard random splits of the UCI regression sets, generated from a seed."""

from pathlib import Path

import numpy as np

SIZES = {
    "boston": (506, 14, 20),
    "kin8nm": (8192, 9, 20),
    "uci-concrete": (1030, 9, 20),
    "uci-power-plant": (9568, 5, 20),
    "uci-wine-quality-red": (1599, 12, 20),
    "uci-protein": (45730, 10, 5),
}
"""Folder to rows, columns (the last is the target) and number of splits."""


def make_splits(rows: int, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Train and test rows, nine to one: permutations drawn one after the other from a legacy generator with seed 1."""
    generator = np.random.RandomState(1)
    cut = round(0.9 * rows)
    shuffled = [generator.permutation(rows).astype(np.int32) for _ in range(n)]
    return [(order[:cut], order[cut:]) for order in shuffled]


def split_arrays(folder: str) -> dict[str, np.ndarray]:
    """The arrays that the file `splits.npz` of a set must contain."""
    rows, columns, n = SIZES[folder]
    inputs, target = np.split(np.arange(columns, dtype=np.int32), [columns - 1])
    arrays = {"index_features": inputs, "index_target": target}
    for i, (train, test) in enumerate(make_splits(rows, n)):
        arrays |= {f"train_{i}": train, f"test_{i}": test}
    return arrays


def write_splits(path: Path, folder: str) -> None:
    """Write the file `splits.npz` of a set."""
    with path.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **split_arrays(folder))
