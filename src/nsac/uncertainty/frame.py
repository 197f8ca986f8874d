"""The table of a prediction: moments, interval ends and quantiles, one row per entry."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    import numpy as np

    from nsac.uncertainty.prediction import Prediction


def prediction_columns(
    prediction: "Prediction",
    intervals: Mapping[float, tuple[Tensor, Tensor]],
    quantiles: Mapping[float, Tensor] | None = None,
    outputs: Sequence[str] = ("",),
) -> dict[str, "np.ndarray"]:
    """Columns of a table: `mean`, `std`, `aleatoric`, `epistemic` (variances), `lower_90`, `upper_90`, `quantile_10`.

    Args:
        prediction: of any shape.
        intervals: coverage to lower and upper ends, each of the prediction's shape.
        quantiles: quantile level to values of the prediction's shape.
        outputs: names that are appended to the columns of each output, in the order of the last entries of a row; a
            single empty name makes one row of every entry.

    Returns:
        Name to values, flattened in order, one per row.
    """
    values = {
        "mean": prediction.mean,
        "std": prediction.std,
        "aleatoric": prediction.aleatoric,
        "epistemic": prediction.epistemic,
    }
    for coverage, (lower, upper) in intervals.items():
        values[f"lower_{100 * coverage:g}"] = lower
        values[f"upper_{100 * coverage:g}"] = upper
    for level, value in (quantiles or {}).items():
        values[f"quantile_{100 * level:g}"] = value
    rows = {name: torch.as_tensor(value).reshape(-1, len(outputs)).numpy(force=True) for name, value in values.items()}
    columns = {}
    for i, output in enumerate(outputs):
        suffix = f"_{output}" if output else ""
        columns |= {name + suffix: value[:, i] for name, value in rows.items()}
    return columns
