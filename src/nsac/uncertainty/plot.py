"""Plots of predicted distributions, each drawn on given axes; `rc_context(STYLE)` sets the common style."""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from nsac._checks import check_probability
from nsac.uncertainty import scores
from nsac.uncertainty.prediction import Prediction, Predictor
from nsac.uncertainty.scores import ause, calibration_error, pit, sparsify
from nsac.uncertainty.style import BLUE, GREEN, GREY, INK, ORANGE, PALE_BLUE, PALE_ORANGE, PURPLE

CHANCE_STDS = 1.96
"""Half width of a 95 % band of chance, in standard errors."""
CHANCE_COLOUR = "#DAD6CE"
"""Light grey, for bands of chance."""


def reliability(prediction: Predictor, y: Tensor, axes: Axes) -> None:
    """Share of values below each predicted quantile; on the diagonal if the prediction is calibrated."""
    level = np.sort(_array(pit(prediction, y)).ravel())
    q = np.linspace(0, 1, 101)
    spread = CHANCE_STDS * np.sqrt(q * (1 - q) / len(level))
    axes.fill_between(q, q - spread, q + spread, color=CHANCE_COLOUR, lw=0, label="chance, if independent")
    axes.plot(q, q, color=GREY, lw=1, ls="--", label="ideal")
    label = f"observed, error {calibration_error(prediction, y):.3f}"
    axes.plot(q, np.searchsorted(level, q, side="right") / len(level), color=BLUE, lw=2, label=label)
    axes.set(xlabel="predicted quantile level", ylabel="observed share below", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend(loc="upper left", fontsize="small")


def pit_histogram(prediction: Predictor, y: Tensor, axes: Axes, bins: int = 20) -> None:
    """Density of F(y): flat if calibrated, U-shaped if too narrow, hump-shaped if too wide, sloped if biased."""
    level = _array(pit(prediction, y)).ravel()
    count, edges = np.histogram(level, bins, (0, 1))
    spread = CHANCE_STDS * np.sqrt((bins - 1) / len(level))
    axes.stairs(count * bins / len(level), edges, fill=True, color=PALE_BLUE)
    axes.axhspan(1 - spread, 1 + spread, color=CHANCE_COLOUR, alpha=0.6, lw=0, label="chance, if independent")
    axes.stairs(count * bins / len(level), edges, color=BLUE, lw=1, label="observed")
    axes.axhline(1, color=GREY, lw=1, ls="--", label="ideal")
    axes.set(xlabel="F(y), level of the observed value", ylabel="density", xlim=(0, 1))
    axes.set_ylim(0, 1.45 * max(1 + spread, count.max() * bins / len(level)))  # room for the legend
    axes.legend(loc="upper center", ncols=3, fontsize="small", columnspacing=1, handlelength=1.2)


def coverage_by_horizon(prediction: Predictor, y: Tensor, axes: Axes, coverage: Sequence[float] = (0.5, 0.9)) -> None:
    """PI coverage of the central intervals, for each entry of axis 1; the nominal coverage is dashed."""
    if len(prediction.shape) < 2:
        raise ValueError(
            f"`prediction` must have shape (rows, horizon, ...). Got {tuple(prediction.shape)} instead. "
            "Use `reliability` for a single lead time."
        )
    x = np.arange(1, prediction.shape[1] + 1)
    for nominal, colour in zip(coverage, (BLUE, ORANGE, GREEN, PURPLE), strict=False):
        covered = scores.coverage(prediction, y, nominal, reduce=False).movedim(1, 0).flatten(1).mean(1)
        axes.axhline(nominal, color=GREY, lw=1, ls="--")
        axes.plot(x, _array(covered), color=colour, lw=2, marker="o", ms=3, label=f"{100 * nominal:g} % interval")
    axes.set(xlabel="lead time (steps)", ylabel="PI coverage", ylim=(0, 1.02))
    axes.legend(loc="lower left", ncols=len(coverage), fontsize="small")


def sparsification(
    prediction: Predictor, y: Tensor, axes: Axes, by: Sequence[str] = ("std", "epistemic", "aleatoric")
) -> None:
    """Error of the rest as the most uncertain entries are left out; a good ranking is close to the oracle."""
    for kind, colour in zip(by, (BLUE, ORANGE, GREEN), strict=False):
        left_out, curve, _ = sparsify(prediction, y, kind)
        label = f"by {kind}, area {ause(prediction, y, kind):.3f}"
        axes.plot(_array(left_out), _array(curve), color=colour, lw=2, label=label)
    left_out, _, oracle = sparsify(prediction, y)
    axes.plot(_array(left_out), _array(oracle), color=INK, lw=1, label="by error (oracle)")
    axes.axhline(1, color=GREY, lw=1, ls="--", label="by chance")
    axes.set(xlabel="share of entries left out", ylabel="RMSE of the rest / of all", xlim=(0, 1))
    axes.set_ylim(0, 1.25 * axes.get_ylim()[1])
    axes.legend(loc="upper center", ncols=2, fontsize="small")


def bands(
    time: Tensor, prediction: Prediction, axes: Axes, y: Tensor | None = None, coverage: float = 0.9, ylabel: str = ""
) -> None:
    """Mean and interval of one series over time; the inner band has the aleatoric variance alone.

    Both bands are those of a Gaussian, so that one contains the other; the outer band has the total variance.
    """
    if len(prediction.shape) != 1:
        raise ValueError(
            f"`prediction` must have shape (time,). Got {tuple(prediction.shape)} instead. "
            "Pick one series: `p[0, :, 0]`."
        )
    check_probability("coverage", coverage)
    z = torch.special.ndtri(torch.tensor((1 + coverage) / 2, dtype=torch.float64)).item()
    t, mean = _array(time), _array(prediction.mean)
    total = z * _array(prediction.variance.sqrt())
    aleatoric = z * _array(prediction.aleatoric.sqrt())
    inner = f"{100 * coverage:g} %, aleatoric"
    axes.fill_between(t, mean - aleatoric, mean + aleatoric, color=PALE_BLUE, lw=0, zorder=1.5, label=inner)
    axes.fill_between(t, mean - total, mean + total, color=PALE_ORANGE, lw=0, label="with epistemic")
    axes.plot(t, mean, color=BLUE, lw=2, label="mean")
    if y is not None:
        axes.plot(t, _array(y), ".", color=INK, ms=3, label="observed")
    axes.set(xlabel="time", ylabel=ylabel)
    axes.margins(x=0)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.25 * (high - low))  # room for the legend
    axes.legend(loc="upper center", ncols=4, fontsize="small", columnspacing=1, handlelength=1.2)


def _array(value: Tensor) -> np.ndarray:
    return torch.as_tensor(value).numpy(force=True)
