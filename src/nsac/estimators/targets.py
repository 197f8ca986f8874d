"""The scale on which targets are learned: a link chosen by the data, and standardisation."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nsac.estimators.kernel import negative_log_evidence
from nsac.uncertainty import Link

MIN_SPREAD = 3.0  # largest over smallest target from which on a logarithm is considered
MIN_GAIN = 0.01  # nats per row that a link must gain over the identity: a simpler scale is easier to understand


def check_range(target_range: Any) -> tuple[float | None, float | None]:
    """Lower and upper bound of the targets, either of them None."""
    if target_range is None:
        return None, None
    try:
        lower, upper = (None if bound is None else float(bound) for bound in target_range)
        fits = lower is None or upper is None or lower < upper
    except (TypeError, ValueError):
        fits, lower, upper = False, None, None
    if not fits:
        raise ValueError(
            "`target_range` must be a lower and a larger upper bound, either of which may be None, such as (0, None). "
            f"Got {target_range!r} instead."
        )
    return lower, upper


def choose_link(x: Tensor, y: np.ndarray, target_range: Any, groups: Sequence[int], order: np.ndarray) -> Link:
    """The link of the largest evidence of a Gaussian process, among those that the range of the targets allows.

    Args:
        x: rows as vectors, (n, inputs).
        y: (n, outputs).
        target_range: as the user gave it.
        groups: inputs that share a length scale.
        order: row numbers; the first ones are used.
    """
    lower, upper = check_range(target_range)
    names = ["identity"]
    if lower is not None and upper is not None:
        names = ["logit"]
    elif lower is not None or upper is not None:
        names = ["softplus", "log"]
    elif y.min() > 0 and y.max() > MIN_SPREAD * y.min():
        names, lower = ["identity", "log"], 0.0
    targets = torch.tensor(y)  # a copy: columns of a frame may be read-only
    links = [Link.fit(name, targets, None if name == "identity" else lower, upper) for name in names]
    if len(links) == 1:
        return links[0]
    rows = torch.from_numpy(order[:400].copy())
    losses = []
    for link in links:
        z = link.forward(targets)
        std, mean = torch.std_mean(z, 0)
        loss = negative_log_evidence(x[rows], (z[rows] - mean) / std, groups)
        losses.append(
            (loss + len(rows) * std.log().sum().item() - link.log_derivative(targets[rows]).sum().item()) / len(rows)
        )
    losses[0] -= MIN_GAIN
    return links[int(np.argmin(losses))]
