"""Outages: forecasts of a series whose latest values are missing.

Some training windows come a second time with their last steps hidden, so that the model learns to forecast from older
values. What remains to be corrected is a factor on the standard deviation for each age of the last known value, which
the calibration set gives in the same way.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nsac.estimators.base import Split, targets_of
from nsac.estimators.observations import SeriesColumns
from nsac.estimators.windows import subsample
from nsac.training import WindowData
from nsac.uncertainty import Calibration, Prediction

OUTAGE_SHARE = 0.125  # training windows that come a second time, with an outage
TARGET_ONLY_SHARE = 0.5  # outages of the target alone; the others are of all inputs
CALIBRATED_AGES = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Ages of the last known value, in steps, for which the standard deviation is calibrated."""
MAX_OUTAGE_WINDOWS = 500  # calibration windows for each of them, at most
AGE_CHUNK = 4096  # windows in memory at once


def add_outages(
    windows: WindowData, splits: Sequence[Split], random: np.random.Generator
) -> tuple[WindowData, list[Split]]:
    """The windows followed by copies with an outage, and splits whose training windows include their copies."""
    n, longest = len(windows), windows.lookback - 1
    if longest < 1:
        return windows, list(splits)
    chosen = np.flatnonzero(random.random(n) < OUTAGE_SHARE)
    kept, hidden = draw_outages(windows.with_ends(windows.ends[chosen]), 1, longest, random)
    chosen = chosen[kept]
    ends = torch.cat([windows.ends, windows.ends[chosen]])
    both = windows.with_ends(ends, torch.cat([hidden.new_zeros(n, hidden.shape[1]), hidden]))
    return both, [(np.append(train, n + np.flatnonzero(np.isin(chosen, train))), other) for train, other in splits]


def draw_outages(
    windows: WindowData, shortest: int, longest: int, random: np.random.Generator
) -> tuple[np.ndarray, Tensor]:
    """Windows in which an outage leaves a known value of the target, and their hidden steps, (windows, inputs).

    The length of an outage is log-uniform.
    """
    n = len(windows)
    length = shortest * ((longest + 1) / shortest) ** random.random(n)
    steps = np.minimum(length, longest).astype(np.int64)[:, None].repeat(windows.values.shape[1], 1)
    steps[random.random(n) < TARGET_ONLY_SHARE, 1:] = 0
    hidden = torch.from_numpy(steps)
    kept = torch.nonzero(ages(windows.with_ends(windows.ends, hidden)) < windows.lookback)[:, 0]
    return kept.numpy(), hidden[kept]


def ages(windows: WindowData) -> Tensor:
    """Steps since the last known value of the target, (windows,)."""
    return torch.cat([windows.age(rows)[:, 0] for rows in torch.arange(len(windows)).split(AGE_CHUNK)])


def fit_outage_scale(
    draws: Callable[[WindowData], Prediction], calibration: WindowData, scale: Tensor, random: np.random.Generator
) -> Tensor:
    """Factors on the standard deviation for `ages_below` the lookback, (ages, horizon), over those of age 0.

    `scale` is the factor for the calibration set as it is, see `Calibration`.
    """
    some = calibration.with_ends(calibration.ends[subsample(np.arange(len(calibration)), MAX_OUTAGE_WINDOWS)])
    factors = [torch.ones_like(scale)]
    for age in ages_below(calibration.lookback)[1:]:
        kept, hidden = draw_outages(some, age, age, random)
        outages = some.with_ends(some.ends[kept], hidden)
        found = Calibration.fit(draws(outages), targets_of(outages)).scale / scale if len(kept) else factors[-1]
        factors.append(found)
    return torch.stack(factors)


def ages_below(lookback: int) -> list[int]:
    """`CALIBRATED_AGES` that a window of so many steps can have."""
    return [age for age in CALIBRATED_AGES if age < lookback]


def stretch(p: Prediction, outage_scale: Tensor, age: Tensor) -> Prediction:
    """The prediction with the standard deviations for this age of the last known values, (rows,).

    Factors are interpolated linearly between ages; the last one is for all that are older.
    """
    nodes = torch.tensor(CALIBRATED_AGES[: len(outage_scale)], device=age.device)
    left = (age[:, None] >= nodes).sum(1) - 1
    right = (left + 1).clamp(max=len(nodes) - 1)
    share = ((age - nodes[left]) / (nodes[right] - nodes[left]).clamp(min=1)).clamp(max=1)[:, None].to(outage_scale)
    factor = outage_scale[left] + share * (outage_scale[right] - outage_scale[left])
    return p.affine(factor, (1 - factor) * p.mean)


def read_outage_scale(scale: Tensor | None, lookback: int, horizon: int) -> Tensor:
    """The factors of a model folder, checked; factors 1 for age 0 only if it is of an earlier version and has none.

    A model of an earlier version that was loaded and saved again has those.
    """
    if scale is None:
        return torch.ones(1, horizon, dtype=torch.float64)
    if len(scale) not in (1, len(ages_below(lookback))) or scale.shape[1:] != (horizon,) or not bool((scale > 0).all()):
        raise ValueError("`outage_scale` must have a number above 0 for each age and lead time.")
    return scale


def warn_outage(age: Tensor, columns: SeriesColumns, names: Sequence[Any], learned: bool) -> None:
    """Warn if the latest values are missing; `age` is that of the last known value of each series, (series,)."""
    longest, series = int(age.max()), int(age.argmax())
    if not longest:
        return
    values, verb = ("value", "is") if longest == 1 else (f"{longest} values", "are")
    whose = repr(columns.target)
    if columns.series is not None:
        whose += f" in series {names[series]!r}"
    others = int((age > 0).sum()) - 1
    also = f", and the latest of {others} other series" if others else ""
    effect = "intervals are wider"
    if not learned:
        effect = "intervals are too narrow, as the model was fitted by an earlier version. Fit it again"
    warnings.warn(f"The last {values} of {whose} {verb} missing{also}; {effect}.", stacklevel=5)
