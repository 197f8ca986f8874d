"""Epistemic variance from input novelty: the posterior variance of a Gaussian process, which depends on no target."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

NUM_FEATURES, NUM_DIRECTIONS = 256, 32
"""Random features, and the number of directions kept: those with the largest posterior variance. More are slower and no
better, as the posterior variance along the others is small everywhere."""
MAX_TRAINING_INPUTS, MAX_DISTANCE_INPUTS, NUM_PROTOTYPES = 20_000, 1_000, 1_000
"""Maximum numbers of training inputs in use, of those whose distances set the unit of distance, and of those kept."""
MIN_EPISTEMIC_SHARE, MIN_EPISTEMIC_SHARE_CAP, MAX_EPISTEMIC_VARIANCE = 2.0, 0.1, 0.5
"""Mean epistemic variance of validation inputs: at least 2 / sqrt(training rows) of the squared error (a tenth where
rows are few), and at most one half of the target's variance."""
MIN_SQUARED_DISTANCE, MIN_POSTERIOR_SHARE = 1e-3, 1e-6  # minimum of d^2 and r; below, inputs are equally well known
MAX_PRIOR_VARIANCE = 9.0  # largest prior variance, in units of the target's
KERNEL_LENGTH = 4.0  # length scale of the kernel, in typical distances between neighbours
NOISE_SHARE = 0.01  # noise over prior variance of the process: how many neighbours make the posterior variance small
SHRINKAGE = 0.01  # added to the variances of the principal axes before they are equalised: small ones are mostly noise
TYPICAL_NEIGHBOUR = 5  # rank of the neighbour whose distance is typical
CHI_SQUARED_MEDIAN = 0.455  # median of the square of a standard normal number


class Epistemic(NamedTuple):
    """Epistemic uncertainty of each query."""

    variance: Tensor  # (..., ), V, of the mean
    min_log_std: Tensor  # (..., outputs), logarithm of the smallest standard deviation of the noise


class Novelty(nn.Module):
    r"""Variance of the mean from the novelty of an input, without trained weights.

    Novelty uses the posterior variance of a Gaussian process, which needs only the training inputs, over its value far
    from all of them:

    $$r(x) = \varphi^T S\,\varphi \Big/ \tfrac1R \mathrm{tr}\,S, \qquad S = \big(I + \Phi^T\Phi/\sigma^2\big)^{-1},
    \qquad \varphi(x) = \sqrt{2/R}\,\cos(\Omega z + b), \qquad z = W(x - m),$$

    with R random features of a Gaussian kernel, $\Phi$ those of the training inputs, and W the map that whitens them;
    of S only the largest eigenvalues are kept, and far away r is 1 on average. The variance follows r and the
    squared distance d to the nearest of the training inputs, in units of their own distance $\ell$:

    $$V(x) = P\,\frac{a u}{1 + a u}, \qquad u = r\,\frac{d^2}{\ell^2}, \qquad
    P = \min\big(\tfrac12 (1 + |z|^2/D), 9\big) .$$

    Near the data V is proportional to the amplitude a. Far away it is P whatever a is: the variance of a standardised
    target, 1, among the training inputs, and larger outside, as for an extrapolated straight line. The noise of the
    target is unknown there too: its variance is at least V/P times the typical one. Everything is closed form, in one
    pass over the training inputs.

    Args:
        input_dim: numbers that describe an input, D.
        output_dim: numbers that are predicted.
        seed: fixes the random features.
    """

    def __init__(self, input_dim: int, output_dim: int, seed: int = 0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.centre = nn.Buffer(torch.zeros(input_dim))
        self.whiten = nn.Buffer(torch.eye(input_dim))
        self.frequency = nn.Buffer(torch.randn(input_dim, NUM_FEATURES, generator=generator))
        self.phase = nn.Buffer(2 * math.pi * torch.rand(NUM_FEATURES, generator=generator))
        self.factor = nn.Buffer(torch.eye(NUM_FEATURES)[:, :NUM_DIRECTIONS].clone())
        self.scale = nn.Buffer(torch.ones(()))
        self.kept = nn.Buffer(torch.zeros(NUM_PROTOTYPES, input_dim))  # training inputs to measure distances to
        self.log_amplitude = nn.Buffer(torch.tensor(-math.inf))  # not calibrated yet
        self.usual = nn.Buffer(torch.ones(output_dim))  # typical aleatoric variance of each output

    @property
    def calibrated(self) -> bool:
        """Whether the amplitude is set."""
        return bool(torch.isfinite(self.log_amplitude))

    @torch.no_grad()
    def fit(self, known: Tensor, seed: int = 0) -> None:
        """Set the process from descriptions of the training inputs, (rows, queries, input_dim)."""
        generator = torch.Generator().manual_seed(seed)
        rows, queries, _ = known.shape
        one_per_row = known[torch.arange(rows), torch.arange(rows) % queries]  # queries of one row are similar
        one_per_row = one_per_row[torch.randperm(rows, generator=generator)[:MAX_DISTANCE_INPUTS]].double()
        known = known.flatten(0, 1)
        known = known[torch.randperm(len(known), generator=generator)[:MAX_TRAINING_INPUTS]].double()
        std, centre = torch.std_mean(known, 0, correction=0)
        std = torch.where(std > 1e-9, std, 1.0)
        scaled = (known - centre) / std
        variances, axes = torch.linalg.eigh(scaled.T @ scaled / len(scaled))
        few = known.shape[1] / (known.shape[1] + rows)  # with fewer rows than inputs, estimated variances are poor
        whiten = axes / ((1 - few) * variances.clamp(min=0) + max(few, SHRINKAGE)).sqrt() / std[:, None]
        unit = _typical_distance((one_per_row - centre) @ whiten)
        whiten = whiten / unit  # from here on distances are in this unit
        self.scale, self.centre = unit.to(self.scale), centre.to(self.centre)
        self.whiten = whiten.to(self.whiten).contiguous()  # as after loading: products then agree to the bit
        self.kept = self._white(known[torch.arange(NUM_PROTOTYPES) % len(known)].to(self.centre)).contiguous()
        features = self._features(self._white(known.to(self.centre))).double()
        precision, axes = torch.linalg.eigh(features.T @ features / NOISE_SHARE)  # in ascending order
        posterior = 1 / (1 + precision[:NUM_DIRECTIONS].clamp(min=0))
        factor = axes[:, :NUM_DIRECTIONS] * (posterior / posterior.sum() * NUM_FEATURES).sqrt()
        self.factor = factor.contiguous().to(self.factor)

    @torch.no_grad()
    def calibrate(self, error: Tensor, aleatoric: Tensor, novelty: Tensor, prior: Tensor, train_rows: int) -> None:
        """Set the amplitude on validation rows: aleatoric plus epistemic variance is the squared error, on average.

        The amplitude is smaller if a smaller one brings the median of squared error over variance to that of a
        Gaussian: a few rows with large errors must not widen the intervals of all others.

        Args:
            error, aleatoric: squared errors and variances of the noise, (..., outputs); NaN: no target was observed.
            novelty, prior: results of `forward`, broadcast against the errors.
            train_rows: number of training rows.
        """
        min_share = min(MIN_EPISTEMIC_SHARE / train_rows**0.5, MIN_EPISTEMIC_SHARE_CAP)
        least = min_share * error.nanmean().item()
        target_variance = (error.nanmean() - aleatoric.nanmean()).clamp(min=least, max=MAX_EPISTEMIC_VARIANCE)
        ratio = min((1 - min_share) * (error / aleatoric).nanmedian().item(), CHI_SQUARED_MEDIAN)
        usual = aleatoric.flatten(0, -2).nanmean(0)
        usual = self.usual = usual.nan_to_num(nan=usual.nanmean().item())  # an output may have no observed target

        def enough(variance: Tensor) -> bool:
            total = torch.maximum(aleatoric, usual * variance / prior) + variance
            return bool(variance.mean() > target_variance) or (error / total).nanmedian().item() < ratio

        self.set_amplitude(novelty, prior, enough)

    def forward(self, described: Tensor) -> tuple[Tensor, Tensor]:
        """Novelty u and prior variance P, both (...), of described inputs (..., input_dim)."""
        white = self._white(described)
        flat = white.flatten(0, -2)  # |a - b|^2 = |a|^2 + |b|^2 - 2 a b; rounding errors stay below the minimum
        least = torch.addmm(self.kept.square().sum(-1), flat, self.kept.T, alpha=-2).amin(-1)
        nearest = (flat.square().sum(-1) + least).view(white.shape[:-1])
        posterior = (self._features(white) @ self.factor).square().sum(-1)
        u = posterior.clamp(min=MIN_POSTERIOR_SHARE) * nearest.clamp(min=MIN_SQUARED_DISTANCE)
        size = white.square().mean(-1) * self.scale**2  # 1 for an average training input
        return u, ((1 + size) / 2).clamp(max=MAX_PRIOR_VARIANCE)

    def variance(self, novelty: Tensor, prior: Tensor) -> Tensor:
        """V, from the results of `forward`."""
        return prior * torch.sigmoid(self.log_amplitude + novelty.log())

    def epistemic(self, described: Tensor) -> Epistemic:
        """Epistemic uncertainty at described inputs (..., input_dim)."""
        novelty, prior = self(described)
        log_share = logsigmoid(self.log_amplitude + novelty.log())
        return Epistemic(prior * log_share.exp(), (log_share.unsqueeze(-1) + self.usual.log()) / 2)

    def set_amplitude(self, novelty: Tensor, prior: Tensor, enough: Callable[[Tensor], bool]) -> None:
        """Set the largest amplitude whose V is not `enough`, by bisection; `enough` must be monotone in V."""
        low, high = -40.0, 40.0
        for _ in range(40):
            middle = (low + high) / 2
            self.log_amplitude.fill_(middle)
            low, high = (low, middle) if enough(self.variance(novelty, prior)) else (middle, high)

    def _white(self, described: Tensor) -> Tensor:
        return (described - self.centre) @ self.whiten

    def _features(self, white: Tensor) -> Tensor:
        angle = torch.addmm(self.phase, white.flatten(0, -2) / KERNEL_LENGTH, self.frequency)
        return math.sqrt(2 / NUM_FEATURES) * angle.unflatten(0, white.shape[:-1]).cos()


def _typical_distance(points: Tensor) -> Tensor:
    """Median distance to the fifth nearest other point: repeated measurements may coincide."""
    distance = torch.cdist(points, points)
    order = min(TYPICAL_NEIGHBOUR, len(points) - 1)
    nearest = distance.kthvalue(order + 1, dim=1).values  # the first is the point itself
    nearest = nearest[nearest > 1e-6]
    return nearest.median() if len(nearest) else points.new_ones(())
