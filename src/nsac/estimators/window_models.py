"""The models of a forecaster besides its ensemble: linear regression, and boosted trees that know the lead time.

Their means and that of the ensemble are weighed by their errors on left-out windows. The distribution is that of the
ensemble, moved to the weighted mean; the ensemble's draws of the mean count by its weight, as its mean does. Both are
cheap, so that they are fitted again to all windows, the latest included.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nsac.estimators.base import PREDICTION_BATCH, Splits, join, mixture
from nsac.estimators.boosting import Trees
from nsac.estimators.preprocessing import SeriesPreprocessor
from nsac.estimators.steps import CYCLES
from nsac.estimators.windows import subsample
from nsac.methods import AbstractMethod, WindowProblem
from nsac.methods.weights import robust_weights
from nsac.models.encoder import Batch
from nsac.models.windows import interpolate_missing, level_of
from nsac.training import Subset, WindowData, batches
from nsac.training.windows import last_and_unit
from nsac.uncertainty import Prediction

MAX_PAIRS = 40_000  # pairs of a window and a lead time that trees are grown on, at most
MAX_SPLIT_PAIRS = 16_000  # the same for the trees of a split, which only choose rounds and weights
MAX_LINEAR_WINDOWS = 5000  # windows of the linear regression, at most: windows that overlap hold much the same
MAX_LEFT_OUT = 400  # left-out windows of a split that choose penalty, rounds and weights, at most
PENALTIES = tuple(10.0**k for k in range(-3, 3))  # of the linear regression, per training window
LEARNING_RATE, MAX_ROUNDS, LEAVES, L2, FEATURE_SHARE = 0.1, 120, 31, 1.0, 0.5  # of the trees
MIN_DRAW_SHARE = 0.1  # least weight of the ensemble's draws: without any, novel inputs would not widen intervals
MIN_PENALTY = 1e-6  # of the intercept, so that no matrix is singular
MIN_LEAF_SHARE, MIN_LEAF = 1 / 250, 5  # least number of pairs in a leaf
CALENDAR_STEPS = 4096  # of sine and cosine of a cycle that trees tell apart, per unit
MAX_LAG = 4096  # steps; largest lag that trees read
NUM_MODELS = 3  # ensemble, linear regression, trees


class Recipe(NamedTuple):
    """What left-out windows chose."""

    penalty: float
    rounds: int


@dataclass(frozen=True)
class LeadFeatures:
    """What trees read about a window and a lead time, in single precision."""

    horizon: int
    season: int  # steps of a season; 0 for none, or if it is longer than a window
    angles: tuple[float, ...]  # of each cycle of the calendar, the angle of a step
    max_level: float | None = None  # that of the problem

    @classmethod
    def of(cls, preprocessor: SeriesPreprocessor, problem: WindowProblem) -> "LeadFeatures":
        """For windows of this preprocessor."""
        axis, cycles, shape = preprocessor.axis, preprocessor.cycles, preprocessor.shape
        season = axis.season(cycles[0]) if cycles else 0
        angles = tuple(2 * np.pi * axis.mean_step / CYCLES[name] for name in cycles)
        return cls(shape.horizon, season if season < shape.lookback else 0, angles, problem.max_level)

    def pairs(self, batch: Batch) -> Tensor:
        """(B, horizon, inputs), of every window and lead time."""
        window = self._window(batch)
        return torch.cat([window[:, None].expand(-1, self.horizon, -1), self._lead(batch)], 2)

    def size(self, problem: WindowProblem) -> int:
        """Number of inputs."""
        return self.pairs(_zeros(problem)).shape[2]

    def _window(self, batch: Batch) -> Tensor:
        """(B, features): last values, changes from earlier values and from the mean of half the window."""
        x = interpolate_missing(batch["x"].float())
        lookback, last, level = x.shape[1], x[:, -1], level_of(x, self.max_level)
        half, target = x[:, -max(1, lookback // 2) :], x[..., 0] - last[:, :1]
        near = target[:, -half.shape[1] :]
        lags = target[:, [lookback - 1 - lag for lag in window_lags(lookback)]]
        extremes = torch.stack([near.amax(1), near.amin(1), target.mean(1)], 1)
        changes = [x[:, -1 - lag] - last for lag in (lookback // 16, lookback // 2) if lag]
        calendar = [_rounded(batch["calendar"].float())] if "calendar" in batch else []
        return torch.cat([lags, extremes, level, *changes, half.mean(1) - last, *calendar], 1)

    def _lead(self, batch: Batch) -> Tensor:
        """(B, horizon, features): lead time, cycles of the calendar then, and changes from a season earlier."""
        rows, steps = batch["x"].shape[0], torch.arange(1, self.horizon + 1)  # `len` would be traced as a constant
        features = [steps.float().expand(rows, -1)]
        for i, angle in enumerate(self.angles):
            sine, cosine = batch["calendar"][:, 2 * i, None].float(), batch["calendar"][:, 2 * i + 1, None].float()
            turn = (angle * steps).float()
            then = [sine * turn.cos() + cosine * turn.sin(), cosine * turn.cos() - sine * turn.sin()]
            features += [_rounded(each) for each in then]
        if self.season:
            x = interpolate_missing(batch["x"][..., :1].float())[..., 0]
            last = x.shape[1] - 1
            place = last + steps - self.season * torch.div(steps + self.season - 1, self.season, rounding_mode="floor")
            features += [x[:, (place + shift).clamp(max=last)] - x[:, -1:] for shift in (0, 1)]
        return torch.stack(features, 2)


@dataclass(frozen=True)
class WindowModels:
    """Linear regression and trees, and the weights of all models."""

    linear: Tensor  # (features + 1, horizon)
    trees: Trees  # of pairs of a window and a lead time
    weights: Tensor  # (NUM_MODELS,)
    features: LeadFeatures
    problem: WindowProblem
    draw_share: float | None = None
    """weight of the ensemble's draws about their mean; None in older folders, where it is 1 and the linear regression
    reads and predicts what `older_design` says"""
    roughness: float | None = None  # of an older folder, see `older_design`

    @classmethod
    def fit(
        cls, problem: WindowProblem, features: LeadFeatures, windows: WindowData, splits: Splits,
        members: Sequence[AbstractMethod], num_samples: int, seed: int,
    ) -> tuple["WindowModels", Recipe]:  # fmt: skip
        """From windows, and the members of the ensemble, each of which left out the validation windows of its split.

        Returns the average over the splits, and what was chosen.
        """
        chosen = [torch.from_numpy(subsample(validation, MAX_LEFT_OUT)) for _, validation in splits]
        rows, units = zip(*(_batch_and_unit(windows, each) for each in chosen), strict=True)
        y = [each["y"].double() for each in rows]
        solutions = [solve_linear(problem, features, windows, train, PENALTIES) for train, _ in splits]
        linear = [
            design(problem, features, each) @ solution / unit
            for each, solution, unit in zip(rows, solutions, units, strict=True)
        ]
        grown = [
            grow(features, windows, train, MAX_ROUNDS, seed + k, MAX_SPLIT_PAIRS) for k, (train, _) in enumerate(splits)
        ]
        staged = [_staged(model, features.pairs(each)) for model, each in zip(grown, rows, strict=True)]
        penalty, rounds = _best(linear, y, units), _best(staged, y)
        ensemble = [
            mixture([member], batches(Subset(windows, each.numpy()), PREDICTION_BATCH), num_samples).mean
            for member, each in zip(members, chosen, strict=True)
        ]
        others = [torch.cat([each[best] for each in means]) for means, best in ((linear, penalty), (staged, rounds))]
        unit = torch.cat(units)  # what counts are errors in the unit of the target
        weights = model_weights(unit * torch.stack([torch.cat(ensemble), *others]), unit * torch.cat(y))
        trees = Trees.of(grown, len(splits), rounds + 1, 2 * LEAVES - 1)
        average = torch.stack([each[penalty] for each in solutions]).mean(0)
        draw_share = max(float(weights[0]), MIN_DRAW_SHARE)
        models = cls(average, trees, weights, features, problem, draw_share)
        return models, Recipe(PENALTIES[penalty], rounds + 1)

    def refit(self, recipe: Recipe, windows: WindowData, seed: int) -> "WindowModels":
        """The same models, fitted to all of these windows; the weights stay."""
        rows = np.arange(len(windows))
        linear = solve_linear(self.problem, self.features, windows, rows, [recipe.penalty])[0]
        grown = grow(self.features, windows, rows, recipe.rounds, seed, MAX_PAIRS)
        return replace(self, linear=linear, trees=Trees.of([grown], 1, recipe.rounds, 2 * LEAVES - 1))

    def correct(self, p: Prediction, windows: WindowData) -> Prediction:
        """The ensemble's prediction of these windows, moved to the weighted mean of all models."""
        parts = []
        for rows in torch.arange(len(windows)).split(PREDICTION_BATCH):
            part = p[int(rows[0]) : int(rows[-1]) + 1]
            parts.append(self.move(part, *_batch_and_unit(windows, rows), self.trees.predict))
        return join(parts, 1)

    def move(self, p: Prediction, batch: Batch, unit: Tensor, trees: Callable[[Tensor], Tensor]) -> Prediction:
        """As `correct`, for one batch and the unit of its `y`; `trees` evaluates the trees at rows of pairs."""
        pairs = self.features.pairs(batch)
        grown = trees(pairs.flatten(0, 1).double()).reshape(-1, self.features.horizon)
        means = torch.stack([p.mean, self.linear_mean(batch, unit), grown])
        mean, share = (self.weights[:, None, None] * means).sum(0), 1.0 if self.draw_share is None else self.draw_share
        return Prediction(mean + share * (p.mean_draws - p.mean), p.log_std_draws)

    def linear_mean(self, batch: Batch, unit: Tensor) -> Tensor:
        """Of the linear regression, (B, horizon), in this unit, that of `y`."""
        if self.draw_share is None:
            return older_design(self.problem, batch, self.roughness) @ self.linear
        return design(self.problem, self.features, batch) @ self.linear / unit

    def to_tensors(self) -> dict[str, Tensor]:
        """For a file."""
        trees = {f"trees.{name}": tensor for name, tensor in self.trees.to_tensors().items()}
        numbers = {"draw_share": self.draw_share, "roughness": self.roughness}
        given = {name: torch.tensor(each).double() for name, each in numbers.items() if each is not None}
        return {"linear": self.linear, "weights": self.weights} | given | trees

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], features: LeadFeatures, problem: WindowProblem) -> "WindowModels":
        """Inverse of `to_tensors`."""
        nodes = {name.removeprefix("trees."): tensor for name, tensor in tensors.items() if name.startswith("trees.")}
        linear, weights = tensors["linear"].double(), tensors["weights"].double()
        draw_share, roughness = (_read_positive(tensors, name) for name in ("draw_share", "roughness"))
        inputs = replace(problem, missing=False).flat_dim + 1
        if draw_share is not None:
            inputs = design(problem, features, _zeros(problem)).shape[1]
        shapes = [(inputs, features.horizon), (NUM_MODELS,)]
        found = [tuple(linear.shape), tuple(weights.shape)]
        if found != shapes or bool((weights < 0).any()):
            raise ValueError(f"`linear` and non-negative `weights` must have shapes {shapes}. Got {found} instead.")
        trees = Trees.from_tensors(nodes, features.size(problem), 1)
        return cls(linear, trees, weights, features, problem, draw_share, roughness)


def design(problem: WindowProblem, features: LeadFeatures, batch: Batch) -> Tensor:
    r"""What the linear regression reads: all values of the window, interpolated, calendar and 1, (B, inputs).

    Earlier values are differences to the last ones, which are cut as the networks see them. With a calendar the
    coefficients of the last values, of the target in the later half of the window and of means there depend on the
    phase $\phi$ of the first cycle, by products with $\sin\phi, \cos\phi, \sin 2\phi, \cos 2\phi$: what a warm hour
    says about the next ones depends on the time of day.
    """
    x = interpolate_missing(batch["x"]).double()
    last, changes, half = x[:, -1], x[:, :-1] - x[:, -1:], max(1, x.shape[1] // 2)
    level = level_of(x, problem.max_level)
    rows = [changes.flatten(1), level]
    if problem.calendar_dim:
        rows.append(batch["calendar"].double())
    if features.angles:
        sine, cosine = rows[-1][:, :1], rows[-1][:, 1:2]
        double = [2 * sine * cosine, cosine**2 - sine**2]
        varying = torch.cat([level, x[:, -half:].mean(1) - last, changes[:, -half:, 0]], 1)
        rows += [*double, *(varying * each for each in (sine, cosine, *double))]
    return torch.cat([*rows, torch.ones_like(last[:, :1])], 1)


def older_design(problem: WindowProblem, batch: Batch, roughness: float | None) -> Tensor:
    """As `design`, for folders of earlier versions: without products, to predict `y` in its own unit.

    Differences are in the unit that `y` has: the root of the target's recent roughness over this one. Without it, in
    the oldest folders, each variable has its own amplitude as unit.
    """
    x = interpolate_missing(batch["x"])
    if roughness is None:
        rows = replace(problem, missing=False).flatten(batch | {"x": x}).double()
    else:
        last, unit = x[:, -1:], last_and_unit(batch["x"][..., :1], x.new_ones(x.shape[1], 1), 1, roughness)[1]
        vectors = [((x - last)[:, :-1] / unit).flatten(1), last[:, 0]]
        rows = torch.cat([*vectors, batch["calendar"]] if problem.calendar_dim else vectors, 1).double()
    return torch.cat([rows, torch.ones_like(rows[:, :1])], 1)


def solve_linear(
    problem: WindowProblem, features: LeadFeatures, windows: WindowData, rows: np.ndarray, penalties: Sequence[float]
) -> Tensor:
    """Ridge regression for each penalty per window, (penalties, inputs of `design`, horizon).

    Targets are changes from the last value, all in one unit. Those that were not observed are interpolated from it on,
    so that all lead times share one matrix.
    """
    gram, moment, chosen = torch.zeros(()).double(), torch.zeros(()).double(), subsample(rows, MAX_LINEAR_WINDOWS)
    for some in torch.from_numpy(chosen).split(PREDICTION_BATCH):
        batch, unit = _batch_and_unit(windows, some)
        x, y = design(problem, features, batch), torch.cat([torch.zeros(len(some), 1), unit * batch["y"]], 1)
        y = interpolate_missing(y[..., None])[:, 1:, 0]
        gram, moment = gram + x.T @ x, moment + x.T @ y
    eye = torch.eye(len(gram)).double()
    eye[-1, -1] = MIN_PENALTY / len(chosen)  # hardly any on the intercept
    return torch.stack([torch.linalg.solve(gram + penalty * len(chosen) * eye, moment) for penalty in penalties])


def grow(features: LeadFeatures, windows: WindowData, rows: np.ndarray, rounds: int, seed: int, max_pairs: int) -> Any:
    """Boosted trees of scikit-learn on random pairs of a window and a lead time, at most so many."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    random, rows = np.random.default_rng(seed), subsample(rows, max_pairs)
    leads = max(1, min(features.horizon, max_pairs // len(rows)))
    inputs, targets = [], []
    for batch in batches(Subset(windows, rows), PREDICTION_BATCH):
        chosen = torch.from_numpy(random.random(batch["y"].shape).argsort(1)[:, :leads])
        row = torch.arange(len(chosen))[:, None]
        inputs.append(features.pairs(batch)[row, chosen].flatten(0, 1).double().numpy())
        targets.append(batch["y"][row, chosen].flatten().double().numpy())
    x, y = np.concatenate(inputs), np.concatenate(targets)
    known = ~np.isnan(y)
    model = HistGradientBoostingRegressor(
        learning_rate=LEARNING_RATE, max_iter=rounds, max_leaf_nodes=LEAVES, l2_regularization=L2,
        min_samples_leaf=max(MIN_LEAF, int(MIN_LEAF_SHARE * known.sum())), max_features=FEATURE_SHARE,
        random_state=seed, early_stopping=False,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
    return model.fit(x[known], y[known])


def model_weights(means: Tensor, y: Tensor) -> Tensor:
    """Non-negative weights, (models,), of means of left-out windows, (models, windows, horizon)."""
    known = ~y.isnan()
    return robust_weights(means[:, known].numpy(), y[known].numpy(), np.ones(int(known.sum())))


def _batch_and_unit(windows: WindowData, rows: Tensor) -> tuple[Batch, Tensor]:
    """The windows with these numbers, and the unit of their `y`, (B, horizon)."""
    return windows.batch(rows), windows.offset_and_scale(rows)[1].double()


def _zeros(problem: WindowProblem) -> Batch:
    x = torch.zeros(1, problem.lookback, problem.input_dim)
    return {"x": x, "calendar": torch.zeros(1, problem.calendar_dim)}


def _read_positive(tensors: dict[str, Tensor], name: str) -> float | None:
    """A number of a file, None if it is absent, as in older folders."""
    if name not in tensors:
        return None
    value = tensors[name]
    if value.numel() != 1 or not 0 < float(value) < np.inf:
        raise ValueError(f"`{name}` must be one positive number. Got {value.tolist()} instead.")
    return float(value)


def _rounded(calendar: Tensor) -> Tensor:
    """The same hour must be the same number: trees would split between its rounding errors."""
    return (calendar * CALENDAR_STEPS).round() / CALENDAR_STEPS


def _staged(model: Any, pairs: Tensor) -> Tensor:
    """Predictions after each round, (rounds, B, horizon)."""
    rounds = model.staged_predict(pairs.flatten(0, 1).double().numpy())
    return torch.from_numpy(np.stack(list(rounds))).unflatten(1, pairs.shape[:2])


def _best(means: Sequence[Tensor], y: Sequence[Tensor], units: Sequence[Tensor] | None = None) -> int:
    """Number of the candidate with the least squared error, in these units; means are (candidates, B, horizon)."""
    units = [torch.ones(()) for _ in y] if units is None else units
    errors = [(u * (each - target)).square().nansum((1, 2)) for each, target, u in zip(means, y, units, strict=True)]
    return int(torch.stack(errors).sum(0).argmin())


def window_lags(lookback: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, 16, ... steps, within a window."""
    powers = [2**k for k in range(int(np.log2(MAX_LAG)) + 1)]
    lags = {*powers, *(3 * each for each in powers), lookback - 1}
    return sorted(lag for lag in lags if 0 < lag < lookback)
