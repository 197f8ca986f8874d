"""Gaussian process on table rows: smooth functions of few rows, in seconds, with closed-form cross-validation."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
import torch
from torch import Tensor

MAX_INDUCING = 1000  # rows that carry the process of a large table
MAX_VARIANCE_INDUCING = 384  # of these, rows that carry the variance of large tables: its cost grows with the square
EXACT_ROWS = 1500  # training rows up to which all of them carry the process: it is exact, and has a local part
HYPER_ROWS, HYPER_STEPS = (400, 1000), (50, 10)
"""Rows of the marginal likelihood, and its optimiser steps: many on few rows, then few on many."""
QUICK_STEPS = 25  # optimiser steps of a process that only compares ways to transform the targets
LOG_LENGTH_STD, LOG_AMPLITUDE_STD, LOG_NOISE_STD = 2.0, 2.0, 3.0  # widths of the priors
LOG_NOISE, LOG_LINEAR, LOG_LOCAL = -1.5, -1.0, -2.0  # centres of the priors: logarithms of standard deviations
LOCAL_LENGTH = 0.05  # length of the local part, in lengths of the smooth one: rows that nearly repeat each other
MIN_NOISE, JITTER = 1e-6, 1e-7  # least variance of the noise; added to diagonals before they are factorised
CHUNK_ROWS = 512  # rows whose covariances are computed together; they stay in cache
MANY_ROWS = 16  # rows per inducing row of the variance from which on it pays to multiply its factors first
MIN_CARRIED = 1e-10  # least share of the variance of a feature that the training rows are taken to determine

Solve = Callable[[Tensor], Tensor]  # the inverse of a triangular matrix times this one


@dataclass(frozen=True)
class Kernel:
    r"""Gaussian process $y = f(x) + \varepsilon$ with a Matern-3/2 and a linear kernel on scaled inputs $u = x/\ell$.

    $$k(x, x') = s^2 (1 + \sqrt3\,r)\,e^{-\sqrt3\,r} + b^2\,u^T u' + t^2 e^{-\sqrt3\,r/\rho}, \qquad r = |u - u'| .$$

    The last part is local: rows that nearly repeat each other have nearly the same target.

    With inducing rows Z and $L L^T = k(Z, Z)$, the features $\varphi(x) = L^{-1} k(Z, x)$ make it a linear regression:
    $B = I + \Phi W \Phi^T$ and $c = B^{-1}\Phi W y$ with the weights
    $1/W_{ii} = \sigma^2 + k(x_i, x_i) - |\varphi_i|^2$ give the mean $\varphi^T c$ and the variance
    $k(x, x) - |\varphi|^2 + \varphi^T B^{-1}\varphi$. Rows are left out by subtracting their terms from B.
    """

    inverse_length: Tensor  # (inputs,), 1 / l
    variances: Tensor  # (4,), s^2, b^2, t^2 and the noise sigma^2
    inducing: Tensor  # (m, inputs), Z / l
    factor: Tensor  # (m, m), L
    coefficient: Tensor  # (m, outputs), L^-T c: the mean is k(x, Z) times it
    variance_factor: Tensor  # (v, v), Cholesky factor of the leading block of B

    @classmethod
    def fit(
        cls,
        x: Tensor,
        y: Tensor,
        groups: Sequence[int],
        weight: Tensor | None,
        generator: torch.Generator,
        quick: bool = False,
    ) -> tuple["Kernel", "LeftOut"]:
        """From rows x, (n, inputs), and standardised targets y, (n, outputs), both double.

        Inputs with the same number in `groups` share a length scale: the columns of one category. If `quick`, its
        hyperparameters are approximate. Returns the process and what is needed to leave rows out.
        """
        rows = torch.randperm(len(x), generator=generator)
        log_inverse_length, variances = _maximise_likelihood(x, y, torch.as_tensor(groups), rows, quick)
        inverse_length = log_inverse_length.exp()
        variances[3] += MIN_NOISE
        u = x * inverse_length
        inducing = u[_distinct(x, rows)[: None if len(x) <= EXACT_ROWS else MAX_INDUCING]]
        size = len(inducing)
        covariance = kernel_covariance(inducing, inducing, variances)
        factor = torch.linalg.cholesky(covariance + JITTER * covariance.diagonal().mean() * torch.eye(size).double())
        features = torch.cat([_features(factor, inducing, chunk, variances) for chunk in u.split(CHUNK_ROWS)])
        prior = _prior_variance(u, variances)
        not_carried = (prior - features.square().sum(1)).clamp(min=0)  # by the features: it counts as noise
        noise = variances[3] + not_carried
        left_out = LeftOut.fit(features, y, (1.0 if weight is None else weight) / noise, prior)
        v = left_out.variance_size
        solved = torch.cholesky_solve(left_out.moment, torch.linalg.cholesky(left_out.precision))
        coefficient = torch.linalg.solve_triangular(factor.T, solved, upper=True)
        root = torch.linalg.cholesky(left_out.precision[:v, :v])
        # in the layout that they have when they are read from a file: bits depend on it
        tensors = inverse_length, variances, inducing, factor, coefficient, root
        return cls(*(each.clone(memory_format=torch.contiguous_format) for each in tensors)), left_out

    def predict(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean, (n, outputs), and variance of f, (n,)."""
        if len(x) >= MANY_ROWS * len(self.variance_factor):
            means, variances = zip(*self._many_rows(x), strict=True)
        else:
            prior, posterior = (partial(torch.linalg.solve_triangular, each, upper=False) for each in self.factors())
            chunks = (self.moments(chunk, prior, posterior) for chunk in x.split(CHUNK_ROWS))
            means, variances = zip(*chunks, strict=True)
        return torch.cat(means), torch.cat(variances)

    def _many_rows(self, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        r"""As `moments`, in chunks; one product gives the variance.

        It is $k(x, x) - |C^T\varphi|^2$ with $C C^T = I - B^{-1}$, and the linear part of the mean is one of x.
        """
        prior_root, posterior_root = self.factors()
        eye = torch.eye(len(prior_root)).double()
        inverse = torch.linalg.solve_triangular(posterior_root, eye, upper=False)
        carried = torch.linalg.cholesky((1 + MIN_CARRIED) * eye - inverse.T @ inverse)
        to_carried = torch.linalg.solve_triangular(prior_root.T, carried, upper=True)
        smooth, linear, local = self.variances[:3].tolist()
        to_mean = linear * (self.inducing.T @ self.coefficient)
        squared, crossed = 3 * self.inducing.square().sum(1), -6 * self.inducing.T
        for u in (x * self.inverse_length).split(CHUNK_ROWS):
            size = u.square().sum(1)
            r = torch.addmm(squared, u, crossed).add_(3 * size[:, None]).clamp_(min=0).sqrt_()
            near = torch.exp(r * (-1 / LOCAL_LENGTH)) if local else None
            covariance = torch.exp(-r).mul_(r.add_(1)).mul_(smooth)
            if near is not None:
                covariance.add_(near, alpha=local)
            mean = covariance @ self.coefficient + u @ to_mean
            first = self.inducing[: len(eye)]
            covariance = torch.addmm(covariance[:, : len(eye)], u, first.T, alpha=linear)
            variance = smooth + local + linear * size - (covariance @ to_carried).square_().sum(1)
            yield mean, variance.clamp(min=0)

    def factors(self) -> tuple[Tensor, Tensor]:
        """Leading block of L, and the factor of B: the variance takes their inverses."""
        v = len(self.variance_factor)
        return self.factor[:v, :v], self.variance_factor

    def moments(self, x: Tensor, solve_prior: Solve, solve_posterior: Solve) -> tuple[Tensor, Tensor]:
        """As `predict`, of all rows at once; the last arguments multiply by the inverses of `factors`."""
        u = x * self.inverse_length
        covariance = kernel_covariance(u, self.inducing, self.variances)
        features = solve_prior(covariance[:, : len(self.variance_factor)].T)
        posterior = solve_posterior(features).square().sum(0)
        prior = _prior_variance(u, self.variances) - features.square().sum(0)
        return covariance @ self.coefficient, prior.clamp(min=0) + posterior

    def to_tensors(self) -> dict[str, Tensor]:
        """For a file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], inputs: int, outputs: int) -> "Kernel":
        """Inverse of `to_tensors`, for these numbers of inputs and outputs."""
        kernel = cls(**{field.name: tensors[field.name].double() for field in fields(cls)})
        m, v = len(kernel.inducing), len(kernel.variance_factor)
        shapes = [(inputs,), (4,), (m, inputs), (m, m), (m, outputs), (v, v)]
        if [tuple(each.shape) for each in kernel.to_tensors().values()] != shapes or not 0 < v <= m:
            raise ValueError("The tensors of the kernel do not fit each other.")
        if not (kernel.factor.diagonal() > 0).all() or not (kernel.variance_factor.diagonal() > 0).all():
            raise ValueError("The factors of the kernel must have positive diagonals.")
        return kernel


@dataclass(frozen=True)
class LeftOut:
    """The regression on features, from which rows can be left out."""

    features: Tensor  # (n, m)
    y: Tensor  # (n, outputs)
    weight: Tensor  # (n, 1), inverse variance of the noise of each row
    precision: Tensor  # (m, m), B
    moment: Tensor  # (m, outputs), of all rows
    variance_size: int  # v
    prior: Tensor  # (n,), variance of f that the first v features do not carry

    @classmethod
    def fit(cls, features: Tensor, y: Tensor, weight: Tensor, prior: Tensor) -> "LeftOut":
        """From the features, weights and prior variances of the training rows."""
        size, w = features.shape[1], weight[:, None]
        precision = features.T @ (w * features) + torch.eye(size).double()
        v = size if len(y) <= EXACT_ROWS else min(size, MAX_VARIANCE_INDUCING)
        left = (prior - features[:, :v].square().sum(1)).clamp(min=0)
        return cls(features, y, w, precision, features.T @ (w * y), v, left)

    def reduced(self, size: int) -> "LeftOut":
        """With the first inducing rows only: what the other features carried is noise."""
        first, others = self.features[:, :size], self.features[:, size:]
        prior = self.prior + self.features[:, : self.variance_size].square().sum(1)
        return LeftOut.fit(first, self.y, 1 / (1 / self.weight[:, 0] + others.square().sum(1)), prior)

    def predict(self, rows: np.ndarray | Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f at rows that the process has not seen."""
        rows = torch.as_tensor(rows)
        f, y, w = self.features[rows], self.y[rows], self.weight[rows]
        precision = self.precision - f.T @ (w * f)
        root = torch.linalg.cholesky(precision + JITTER * torch.eye(len(precision)).double())
        mean = f @ torch.cholesky_solve(self.moment - f.T @ (w * y), root)
        v = min(self.variance_size, len(root))
        own = root if v == len(root) else torch.linalg.cholesky(precision[:v, :v])
        posterior = torch.linalg.solve_triangular(own, f[:, :v].T, upper=False).square().sum(0)
        return mean, self.prior[rows] + posterior


def _distinct(x: Tensor, order: Tensor) -> Tensor:
    """Row numbers in the given order, one of each set of equal rows: equal ones would make the covariance singular."""
    _, first = np.unique(x[order].numpy(), axis=0, return_index=True)
    return order[torch.from_numpy(np.sort(first))]


def kernel_covariance(u: Tensor, v: Tensor, variances: Tensor) -> Tensor:
    """Prior covariance between scaled rows, (n, inputs) and (m, inputs)."""
    r = math.sqrt(3) * torch.cdist(u, v, compute_mode="use_mm_for_euclid_dist")
    smooth = variances[0] * (1 + r) * torch.exp(-r) + variances[1] * (u @ v.T)
    return smooth + variances[2] * torch.exp(-r / LOCAL_LENGTH)


def _prior_variance(u: Tensor, variances: Tensor) -> Tensor:
    return variances[0] + variances[2] + variances[1] * u.square().sum(1)


def _features(factor: Tensor, inducing: Tensor, u: Tensor, variances: Tensor) -> Tensor:  # n m
    return torch.linalg.solve_triangular(factor, kernel_covariance(inducing, u, variances), upper=False).T


def _maximise_likelihood(x: Tensor, y: Tensor, groups: Tensor, order: Tensor, quick: bool) -> tuple[Tensor, Tensor]:
    """Logarithms of the inverse lengths, per input, and the variances s^2, b^2, t^2 and sigma^2."""
    n_lengths = int(groups.max()) + 1
    log_length = math.log(x.shape[1]) / 2  # distances grow with the square root of the number of inputs
    centre = torch.tensor([-log_length] * n_lengths + [0.0, LOG_LINEAR, LOG_LOCAL, LOG_NOISE]).double()
    width = torch.tensor([LOG_LENGTH_STD] * n_lengths + [LOG_AMPLITUDE_STD] * 3 + [LOG_NOISE_STD]).double()
    local = len(x) <= EXACT_ROWS

    def minimise(start: Tensor, rows: int, steps: int) -> Tensor:
        few, targets, parameters = x[order[:rows]], y[order[:rows]], start.clone().requires_grad_()
        optimiser = torch.optim.LBFGS(
            [parameters], max_iter=steps, max_eval=steps * 5 // 4, history_size=20, line_search_fn="strong_wolfe"
        )

        def loss() -> Tensor:
            optimiser.zero_grad()
            variances = _variances(parameters[n_lengths:], local)
            u = few * parameters[:n_lengths].exp()[groups]
            covariance = kernel_covariance(u, u, variances) + (variances[3] + MIN_NOISE) * torch.eye(len(u)).double()
            total = _negative_log_likelihood(covariance, targets) + ((parameters - centre) / width).square().sum() / 2
            total.backward()
            return total.detach()

        with torch.enable_grad():
            optimiser.step(loss)
        return parameters.detach()

    found = minimise(centre, HYPER_ROWS[0], QUICK_STEPS if quick else HYPER_STEPS[0])
    if len(x) > HYPER_ROWS[0] and not quick:
        found = minimise(found, HYPER_ROWS[1], HYPER_STEPS[1])
    return found[:n_lengths][groups], _variances(found[n_lengths:], local)


def _variances(log_std: Tensor, local: bool) -> Tensor:
    return (2 * log_std).exp() * torch.tensor([1.0, 1.0, float(local), 1.0]).double()


def _negative_log_likelihood(covariance: Tensor, y: Tensor) -> Tensor:
    """Up to a constant; its gradient is (o C^-1 - a a^T) / 2 with a = C^-1 y, cheaper than through the factor."""
    with torch.no_grad():
        factor, failed = torch.linalg.cholesky_ex(covariance)
        if failed or not bool(factor.isfinite().all()):
            return covariance.new_tensor(1e10)  # the line search turns back; the prior has a gradient
        solved, outputs = torch.cholesky_solve(y, factor), y.shape[1]
        gradient = (outputs * torch.cholesky_inverse(factor) - solved @ solved.T) / 2
        value = (y * solved).sum() / 2 + outputs * factor.diagonal().log().sum()
    carrier = (covariance * gradient).sum()
    return value + carrier - carrier.detach()
