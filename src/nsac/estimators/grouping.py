"""Rows that belong together: groups and weights as users give them, and signs of groups that nobody named."""

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nsac.estimators.tables import MIN_ROWS
from nsac.models.encoder import Batch

MIN_GROUPS = 3  # groups from which on one can be left out and something be learned about new ones
MAX_COMPARED = 2000  # rows in which similar ones are looked for
NEIGHBOUR_SHARE = 0.3  # share of the rows whose most similar row is next to them in the file: more look grouped
NEXT_ROWS = 2  # rows before and after that are next to a row
NEAR_SHARE, NEAR_ROWS = 0.4, 0.05
"""Share of the rows whose most similar row is near them in the file: more look grouped, 0.1 is chance. Shares of all
rows, before and after, that are near a row."""
MIN_RUN = 3.0  # rows of one value in sequence, on average, from which on a column looks like the name of a group


def group_codes(groups: Any, rows: int) -> np.ndarray | None:
    """Groups as whole numbers from 0, (n,)."""
    if groups is None:
        return None
    import pandas as pd

    values = np.asarray(groups)
    if values.shape != (rows,):
        raise ValueError(f"`groups` must have one entry per row, ({rows},). Got shape {values.shape} instead.")
    codes, names = pd.factorize(values.astype(object), use_na_sentinel=True)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise ValueError(f"`groups` must have no missing entry. Row {row} has none. Give it a group of its own.")
    if len(names) < MIN_GROUPS:
        raise ValueError(
            f"`groups` must have at least {MIN_GROUPS} different values, to leave groups out. Got {len(names)} instead."
        )
    return codes.astype(np.int64)


def row_weights(sample_weight: Any, rows: int) -> Tensor | None:
    """Weights of the rows with mean 1, double, (n,)."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=float)
    if weight.ndim == 0:
        weight = np.full(rows, float(weight))
    if weight.shape != (rows,) or not np.isfinite(weight).all() or (weight < 0).any() or not weight.sum() > 0:
        raise ValueError(
            f"`sample_weight` must be ({rows},) finite numbers of at least 0, not all of them zero. Got shape "
            f"{weight.shape} with another value."
        )
    return None if (weight == weight[0]).all() else torch.from_numpy(weight / weight.mean())


def counted_rows(
    table: Any, target: np.ndarray, sample_weight: Any, groups: Any
) -> tuple[Any, np.ndarray, Tensor | None, np.ndarray | None]:
    """Rows whose weight is not 0: table, targets, weights and groups."""
    n = len(target)
    weight, codes = row_weights(sample_weight, n), group_codes(groups, n)
    if weight is None or bool((weight > 0).all()):
        return table, target, weight, codes
    kept = np.flatnonzero(weight)
    if len(kept) < MIN_ROWS:
        raise ValueError(f"`sample_weight` must be above 0 in at least {MIN_ROWS} rows. Got {len(kept)} instead.")
    weight = row_weights(np.asarray(sample_weight, dtype=float)[kept], len(kept))
    codes = None if codes is None else group_codes(codes[kept], len(kept))
    return table.iloc[kept] if hasattr(table, "iloc") else table[kept], target[kept], weight, codes


def warn_if_grouped(table: Any, inputs: Batch) -> None:
    """Warn if rows look as if they came in groups: then intervals are too narrow for a group that is new."""
    signs = []
    name = _group_column(table)
    if name is not None:
        signs.append(f"column {name!r} has the same value in long runs of rows")
    x = inputs["x"]
    share = _share_close(x[:MAX_COMPARED], NEXT_ROWS)
    spaced = x[np.unique(np.linspace(0, len(x) - 1, min(len(x), MAX_COMPARED)).round().astype(int))]
    near = _share_close(spaced, NEAR_ROWS * len(spaced))
    if share > NEIGHBOUR_SHARE:
        signs.append(f"the most similar row of {share:.0%} of the rows is next to them")
    elif near > NEAR_SHARE:
        signs.append(f"the most similar row of {near:.0%} of the rows is among the {2 * NEAR_ROWS:.0%} around them")
    if signs:
        warnings.warn(
            f"Rows look grouped: {' and '.join(signs)}. If they come from several machines, patients or places, pass "
            "their names as `groups` (`--group` on the command line): intervals then have their coverage in new ones.",
            stacklevel=4,
        )


def _group_column(table: Any) -> str | None:
    """A column of text or whole numbers, also as 1.0, whose values stand in one run of rows each.

    Missing cells do not count. Numbers with a fraction are measured values, not names.
    """
    if not hasattr(table, "iloc"):
        return None
    for position in range(table.shape[1]):
        column = table.iloc[:, position]
        column = column[column.notna().to_numpy()]
        if column.dtype.kind == "f" and not np.all(np.asarray(column, dtype=float) % 1 == 0):
            continue
        text = np.asarray(column, dtype=object).astype(str)
        kinds, runs = len(np.unique(text)), 1 + int((text[1:] != text[:-1]).sum())
        if MIN_GROUPS <= kinds == runs and len(text) >= MIN_RUN * runs and not _sorted_numbers(column):
            return str(table.columns[position])
    return None


def _sorted_numbers(column: Any) -> bool:
    """Numbers in order are more likely time, or a table that was sorted, than groups."""
    return column.dtype.kind in "iuf" and bool(column.is_monotonic_increasing or column.is_monotonic_decreasing)


def _share_close(x: Tensor, max_gap: float) -> float:
    """Share of rows whose most similar row, if there is one, is at most `max_gap` rows before or after them."""
    rows = x.nan_to_num()
    if len(rows) < 50 or not rows.shape[1]:
        return 0.0
    distance = torch.cdist(rows, rows).fill_diagonal_(torch.inf)
    nearest, ties = distance.argmin(1), (distance == distance.amin(1, keepdim=True)).sum(1)
    close = (nearest - torch.arange(len(rows))).abs() <= max_gap
    return float((close & (ties == 1)).double().mean())
