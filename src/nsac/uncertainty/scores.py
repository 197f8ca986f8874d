"""Scores of predicted distributions.

A score takes the prediction and the observed values, refuses inputs that cannot be scored (NaN, a standard deviation of
0, another shape), works per entry and returns the mean over all entries as a float; with `reduce=False` it returns the
entries instead. Lower is better, except for `coverage`, which should be its nominal value.
"""

import math
from typing import Any

import numpy as np
import scoringrules
import torch
from torch import Tensor

from nsac._checks import check_choice, check_probability, check_values
from nsac.uncertainty.ood import average_ranks
from nsac.uncertainty.prediction import Prediction, Predictor, check_pair
from nsac.uncertainty.transformed import TransformedPrediction, transformed_crps

Mixture = Prediction | TransformedPrediction
"""A prediction with draws and a density."""
Score = Any
"""float; a Tensor, one value per entry, with `reduce=False`"""
CALIBRATION_LEVELS = tuple(k / 20 for k in range(1, 20))
"""Quantile levels of `calibration_error`, 0.05 to 0.95."""
TABLE = (
    "mse", "rmse", "mae", "nll", "crps", "ece_paper", "calibration_error", "coverage_90", "width_90",
    "interval_score_90", "sharpness", "aleatoric", "epistemic",
)  # fmt: skip
"""The standard scores, in the order of `score_table`."""
PAPER_BINS = 10
"""Number of bins of `ece_paper`, from the paper."""
CRPS_CHUNK_PAIRS = 2**21
"""Pairs of draws that `crps` compares at once: 16 MB in each of a few arrays."""


def mse(prediction: Predictor, y: Tensor, *, reduce: bool = True) -> Score:
    r"""Squared error of the predictive mean, $(y - \mu)^2$."""
    check_pair(prediction, y)
    return _reduce((y - prediction.mean).square(), reduce)


def rmse(prediction: Predictor, y: Tensor) -> float:
    """Square root of `mse`, in the unit of `y`."""
    return math.sqrt(mse(prediction, y))


def mae(prediction: Predictor, y: Tensor, *, reduce: bool = True) -> Score:
    r"""Absolute error of the predictive mean, $|y - \mu|$."""
    check_pair(prediction, y)
    return _reduce((y - prediction.mean).abs(), reduce)


def nll(prediction: Mixture, y: Tensor, *, reduce: bool = True) -> Score:
    r"""Negative log-likelihood of the mixture, $-\log p(y)$; for that of one Gaussian pass `p.moment_matched()`."""
    check_pair(prediction, y)
    _need_mixture(prediction, "nll")
    return _reduce(-prediction.log_prob(y), reduce)


def crps(prediction: Mixture, y: Tensor, *, reduce: bool = True) -> Score:
    r"""Continuous ranked probability score, $\int (F(t) - 1\{y \le t\})^2\,dt$; in closed form for a `Prediction`."""
    check_pair(prediction, y)
    _need_mixture(prediction, "crps")
    if isinstance(prediction, TransformedPrediction):
        if prediction.link.name != "identity":
            return _reduce(transformed_crps(prediction, y), reduce)
        prediction = prediction.prediction
    n = len(prediction.mean_draws)
    mean = prediction.mean_draws.reshape(n, -1).T.double()
    std = prediction.log_std_draws.exp().reshape(n, -1).T.double()
    entries = max(1, CRPS_CHUNK_PAIRS // n**2)
    chunks = zip(y.reshape(-1).double().split(entries), mean.split(entries), std.split(entries), strict=True)
    scores = [np.asarray(scoringrules.crps_mixnorm(*(v.numpy(force=True) for v in chunk))) for chunk in chunks]
    return _reduce(torch.as_tensor(np.concatenate(scores), device=y.device).reshape(y.shape), reduce)


def coverage(prediction: Predictor, y: Tensor, coverage: float = 0.9, *, reduce: bool = True) -> Score:
    """Share of observed values in the central interval of nominal coverage `coverage`."""
    check_probability("coverage", coverage)
    level = pit(prediction, y)
    if isinstance(prediction, TransformedPrediction):
        return _reduce(_inside(*prediction.interval(coverage), y), reduce)
    return _reduce(_covered(level, coverage), reduce)


def width(prediction: Predictor, coverage: float = 0.9, *, reduce: bool = True) -> Score:
    """Width of the central interval of nominal coverage `coverage`."""
    prediction.check()
    lower, upper = prediction.interval(coverage)
    return _reduce(upper - lower, reduce)


def interval_score(prediction: Predictor, y: Tensor, coverage: float = 0.9, *, reduce: bool = True) -> Score:
    r"""Winkler's score of the central interval: $(u - l) + \frac2\alpha(l - y)_+ + \frac2\alpha(y - u)_+$."""
    check_pair(prediction, y)
    return _reduce(_winkler(*prediction.interval(coverage), y, coverage), reduce)


def sharpness(prediction: Predictor, *, reduce: bool = True) -> Score:
    """Standard deviation of the prediction; it does not depend on the observed values."""
    prediction.check()
    return _reduce(prediction.std, reduce)


def pit(prediction: Predictor, y: Tensor) -> Tensor:
    """Probability integral transform $F(y)$ per entry: uniform on (0, 1) if the prediction is calibrated.

    Where a bound of the target has a probability of its own, an observation on it gets the middle of the jump of F.
    """
    check_pair(prediction, y)
    return prediction.pit(y) if isinstance(prediction, TransformedPrediction) else prediction.cdf(y)


def calibration_error(prediction: Predictor, y: Tensor) -> float:
    r"""Mean over $q = 0.05, \dots, 0.95$ of $|\hat P(y \le F^{-1}(q)) - q|$, all entries pooled.

    $y \le F^{-1}(q)$ is $F(y) \le q$, so no quantile has to be computed.
    """
    return _calibration_error(pit(prediction, y))


def ece_paper(prediction: Predictor, y: Tensor) -> float:
    r"""The paper's expected calibration error, $\frac1N\sum_k |S_k|\,|\hat p_k - \hat c_k|$ over ten bins.

    $c_i = 2\Phi(|y_i - \mu_i|/\sigma_i) - 1$ with the total std; $S_k$ are the samples with $c_i$ in bin $k$, whose
    midpoint is $\hat c_k$; $\hat p_k$ is the share of all samples with $c_i < \hat c_k$. A perfect prediction scores 0.
    The paper's text has other readings too; `docs/uncertainty.md` compares them.
    """
    check_pair(prediction, y)
    return _ece_paper(_central_share(prediction.mean, prediction.std, y))


def sparsify(prediction: Predictor, y: Tensor, by: str | Tensor = "std") -> tuple[Tensor, Tensor, Tensor]:
    """Error of the remaining entries as those of largest uncertainty are left out.

    `by` is "std", "epistemic", "aleatoric", or an uncertainty per entry. Returns the share left out (0, 1/n, ...), the
    RMSE of the rest, and its RMSE if the largest errors had been left out; both divided by the RMSE of all. Each of
    several entries of equal uncertainty counts with their mean error.
    """
    check_pair(prediction, y)
    error = (y - prediction.mean).double().square().flatten()
    uncertainty = _uncertainty(prediction, by).flatten()
    left_out = torch.arange(len(error), dtype=error.dtype, device=error.device) / len(error)
    full = error.mean().sqrt()
    if full == 0:
        return left_out, torch.zeros_like(error), torch.zeros_like(error)
    return left_out, _rest_rmse(error, uncertainty) / full, _rest_rmse(error, error) / full


def ause(prediction: Predictor, y: Tensor, by: str | Tensor = "std") -> float:
    """Area between the two curves of `sparsify`: 0 if the uncertainty orders the entries as their errors do."""
    _, curve, oracle = sparsify(prediction, y, by)
    return (curve - oracle).mean().item()


def error_correlation(prediction: Predictor, y: Tensor, by: str | Tensor = "std") -> float:
    """Spearman's rank correlation of uncertainty and absolute error; 0 if one of them is constant. Higher is better."""
    check_pair(prediction, y)
    uncertainty, error = _uncertainty(prediction, by).flatten(), (y - prediction.mean).abs().flatten()
    centre = (len(error) + 1) / 2
    a, b = average_ranks(uncertainty) - centre, average_ranks(error) - centre
    norm = (a.square().sum() * b.square().sum()).sqrt()
    return 0.0 if norm == 0 else ((a * b).sum() / norm).item()


class Scores:
    """The standard scores of many predictions, batch by batch; calibration errors are those of all entries together."""

    def __init__(self):
        self._count = 0
        self._sums: dict[str, float] = {}
        self._levels: list[Tensor] = []
        self._shares: list[Tensor] = []

    def add(self, prediction: Mixture, y: Tensor) -> None:
        """One batch."""
        # `pit` checks the pair. Several scores share the levels and the interval, which are expensive.
        level = pit(prediction, y)
        lower, upper = prediction.interval(0.9)
        mean, std = prediction.mean, prediction.std
        bounded = isinstance(prediction, TransformedPrediction)
        entries = {
            "mse": (y - mean).square(),
            "mae": (y - mean).abs(),
            "nll": -prediction.log_prob(y),
            "crps": crps(prediction, y, reduce=False),
            "coverage_90": _inside(lower, upper, y) if bounded else _covered(level, 0.9),
            "width_90": upper - lower,
            "interval_score_90": _winkler(lower, upper, y, 0.9),
            "sharpness": std,
            "aleatoric": prediction.aleatoric,
            "epistemic": prediction.epistemic,
        }
        for name, value in entries.items():
            self._sums[name] = self._sums.get(name, 0.0) + value.double().sum().item()
        self._count += y.numel()
        self._levels.append(level.flatten())
        self._shares.append(_central_share(mean, std, y))

    def table(self) -> dict[str, float]:
        """By name; `aleatoric` and `epistemic` are mean variances."""
        table = {name: total / self._count for name, total in self._sums.items()}
        table |= {"rmse": math.sqrt(table["mse"]), "ece_paper": _ece_paper(torch.cat(self._shares))}
        table |= {"calibration_error": _calibration_error(torch.cat(self._levels))}
        return {name: table[name] for name in TABLE}


def score_table(prediction: Mixture, y: Tensor) -> dict[str, float]:
    """The standard scores, by name; `aleatoric` and `epistemic` are mean variances."""
    scores = Scores()
    scores.add(prediction, y)
    return scores.table()


def _reduce(entries: Tensor, reduce: bool) -> Score:
    return entries.double().mean().item() if reduce else entries


def _need_mixture(prediction: object, score: str) -> None:
    if not isinstance(prediction, Mixture):
        raise ValueError(
            f"`prediction` must be a Prediction, a mixture of draws, for `{score}`. Got {type(prediction).__name__} "
            "instead. Score it with `interval_score`, or calibrate with VarianceScale."
        )


def _covered(level: Tensor, coverage: float) -> Tensor:
    return ((level - 0.5).abs() <= coverage / 2).to(level.dtype)


def _inside(lower: Tensor, upper: Tensor, y: Tensor) -> Tensor:
    return ((y >= lower) & (y <= upper)).to(lower.dtype)


def _winkler(lower: Tensor, upper: Tensor, y: Tensor, coverage: float) -> Tensor:
    return (upper - lower) + 2 / (1 - coverage) * ((lower - y).clamp(min=0) + (y - upper).clamp(min=0))


def _calibration_error(level: Tensor) -> float:
    q = level.new_tensor(CALIBRATION_LEVELS)
    below = torch.searchsorted(level.flatten().sort().values, q, right=True).double() / level.numel()
    return (below - q).abs().mean().item()


def _central_share(mean: Tensor, std: Tensor, y: Tensor) -> Tensor:
    return torch.special.erf((y - mean).abs() / std / math.sqrt(2)).flatten()  # c = 2 Phi(z) - 1


def _ece_paper(c: Tensor) -> float:
    c = c.double()
    bins = (c * PAPER_BINS).long().clamp(max=PAPER_BINS - 1)
    midpoints = (torch.arange(PAPER_BINS, dtype=c.dtype, device=c.device) + 0.5) / PAPER_BINS
    p = torch.searchsorted(c.sort().values, midpoints).double() / len(c)
    share = bins.bincount(minlength=PAPER_BINS).double() / len(c)
    return (share * (p - midpoints).abs()).sum().item()


def _uncertainty(prediction: Predictor, by: str | Tensor) -> Tensor:
    if isinstance(by, Tensor):
        check_values("`by`", by, prediction.shape, "the prediction's mean")
        return by
    known = [kind for kind in ("std", "epistemic", "aleatoric") if hasattr(type(prediction), kind)]
    check_choice("by", by, known)
    return getattr(prediction, by)


def _rest_rmse(error: Tensor, uncertainty: Tensor) -> Tensor:
    """RMSE of the rest when 0, 1, 2, ... entries of largest uncertainty are left out."""
    _, group, count = uncertainty.unique(return_inverse=True, return_counts=True)
    shared = error.new_zeros(len(count)).index_add(0, group, error) / count
    rest = shared.repeat_interleave(count).cumsum(0)  # from the least uncertain on
    return (rest / torch.arange(1, len(error) + 1, dtype=error.dtype, device=error.device)).sqrt().flip(0)
