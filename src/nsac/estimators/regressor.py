"""Regression on tables with calibrated uncertainty: a scikit-learn estimator."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data
from torch import Tensor

from nsac._checks import check_choice, probabilities
from nsac._torch import single_threaded
from nsac.estimators.base import PREDICTION_BATCH, AbstractEstimator, Splits, calibration_size, join, mixture, random_splits
from nsac.estimators.columns import Columns, categorical_positions, digest_of, target_names, target_std, target_values
from nsac.estimators.components import Components, LeftOutModels, Moments
from nsac.estimators.imputation import HotDeck
from nsac.estimators.stack import Stack
from nsac.methods import METHODS, AbstractMethod, TableProblem
from nsac.methods.nsac import NSACMethod
from nsac.models.encoder import Batch
from nsac.training import Data, Subset, TensorData, batches
from nsac.uncertainty import Calibration, Prediction, prediction_columns

if TYPE_CHECKING:
    from pandas import DataFrame

MIN_ROWS = 5  # fewest rows to fit: some to train, one to validate, one to calibrate
CHUNK_ROWS = 8192  # rows whose draws are in memory at once
WEIGHT_DECAYS = (0.1, 0.17, 0.3, 0.5, 0.8, 1.25, 2.0, 3.2, 5.0, 8.0)
"""Weight decays that are searched, for 1000 rows; they fall with the square root of the number of rows. Noisy targets
need a strong decay, and the noise is not known beforehand."""
DEFAULT_WEIGHT_DECAY = 2.0  # weight decay, for 1000 rows, of tables that are too small for a search
MIN_SEARCH_ROWS = 100  # rows from which on the weight decay is searched and the default ensemble may have 8 members
MAX_ROWS_OF_8_MEMBERS = 1500  # rows up to which the default ensemble has 8 members; beyond it has 4
LARGE_TABLE_ROWS = 3000  # rows from which on every second weight decay is searched, and batches are larger
LEARNING_RATE = 6e-3  # high, since the weight decay is strong
STEPS_FOR_1000_ROWS, STEPS_EXPONENT, MAX_STEPS_PER_ROW = 300, 0.3, 4
"""Training steps: 300 for 1000 rows, growing as the power 0.3 of the number of rows, and at most 4 per row."""
BATCH_SIZES = ((3000, 128), (30_000, 256), (float("inf"), 512))  # rows below which a batch has this size
VALIDATIONS = 8  # times that the weights are validated
EFFORT_STEPS = {"fast": 0.5, "default": 1.0, "best": 3.0}  # factor on the steps
SMALL_TABLE_ROWS = 1500  # rows up to which every row is left out by some member
DECAY_PER_NOISE, WEIGHT_DECAY_RANGE = 10.0, (0.01, 8.0)
"""Weight decay, for 1000 rows, per squared error of the other models: noisy targets need a strong decay."""
MIN_MEMBER_DRAWS = 4
Effort = Literal["fast", "default", "best"]

_FACTS = {"columns", "named", "axes", "data", "chosen"}  # keys of the plain values of `_state`


class NSACRegressor(MultiOutputMixin, RegressorMixin, AbstractEstimator):
    """Regression with calibrated uncertainty on tables of numbers and categories with missing values.

    A held-out calibration set is drawn first. Of the other rows each ensemble member trains on all but one
    cross-validation fold, its validation set; together the members predict as one mixture. Columns of text or of
    pandas' category type are categories; a category that was not seen in training counts as missing. Dates, also as
    text, become year, month, day, weekday, days since the first and, if there are times, hour. Values may be missing
    (NaN, None). If a column had no missing value in training, the model could not learn from any: values of
    training rows are then imputed, and the differences between the predictions are part of the epistemic variance.

    Args:
        method: a name in `nsac.METHODS` that takes tables.
        members: ensemble size; None is 8 for 100 to 1500 rows, otherwise 4.
        categorical: names or positions of columns that are categories whatever they hold.
        dayfirst: whether 01/02/2024 is in February, in columns of dates as text; None if the rows decide it.
        training: fields of `nsac.training.TrainConfig` that replace the defaults.
        num_samples: Monte Carlo draws per member.
        random_state: fixes everything that is random: a number, None or a `RandomState`.
        verbose: whether to show a progress bar, on a terminal.
        folds: deprecated name of `members`.

    Attributes:
        members_: the fitted methods.
        chosen_: the selected weight decay, if there was a search.
        data_: number of training rows, their digest, and the names of the targets if y had any.
        calibration_: variance scale and conformal scores of the mixture.
        n_features_in_, feature_names_in_: columns of X; the latter only if X was a frame with names.
    """

    kind: ClassVar[str] = "table"
    problem_: TableProblem
    components_: Components | None

    def __init__(
        self,
        method: str = "nsac",
        *,
        members: int | None = None,
        effort: Effort = "default",
        categorical: Sequence[str | int] | None = None,
        dayfirst: bool | None = None,
        training: dict[str, Any] | None = None,
        num_samples: int = 20,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
        folds: int | Literal["deprecated"] | None = "deprecated",
    ):
        self.method = method
        self.members = members
        self.effort: Effort = effort
        self.categorical = categorical
        self.dayfirst = dayfirst
        self.training = training
        self.num_samples = num_samples
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.folds = folds

    def __sklearn_tags__(self):
        """Missing values are allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> "NSACRegressor":
        """Fit and calibrate; X is an array or a frame, (n, features), and y is finite, (n,) or (n, outputs).

        Args:
            X: (n, features).
            y: (n,) or (n, outputs).
            sample_weight: (n,), at least 0: how much each row counts.
            groups: (n,), which rows belong together, as those of one machine or patient. Rows of a group are left out
                together, so the intervals hold for a new group.
        """
        self._check_method()
        check_choice("effort", self.effort, get_args(Effort))
        members = self._n_members()
        table = self._table(X, reset=True)
        target = target_values(y, type(self).__name__)
        self._axes, target = target.ndim, target.reshape(len(target), -1)
        check_consistent_length(table, target)
        known = list(getattr(self, "feature_names_in_", []))
        names = [str(name) for name in known or range(self.n_features_in_)]
        categorical = categorical_positions(self.categorical or (), known, names)
        self.columns_ = Columns.fit(table, names, categorical, self.dayfirst)
        random_state = check_random_state(self.random_state)
        inputs = self.columns_.tensors(table)
        stacked = issubclass(METHODS[self.method], NSACMethod)
        learn = self._fit_stacked if stacked else self._fit_mixture
        learn(inputs, target, y, members, random_state)
        return self

    def _prepare(self, inputs: Batch, target: np.ndarray, y: Any, rows: np.ndarray, random_state: Any) -> tuple[Data, TableProblem]:
        """Scale the targets by those of `rows`, draw donors among them, and describe the data."""
        self.centre_, self.scale_ = target[rows].mean(0), target_std(target[rows], y)
        data = TensorData(**inputs, y=torch.as_tensor((target - self.centre_) / self.scale_, dtype=torch.float32))
        self.data_ = {"rows": len(target), "sha256": digest_of(data.columns), "targets": target_names(y)}
        self.imputer_ = HotDeck.fit(inputs, rows, random_state)
        problem = TableProblem(
            inputs["x"].shape[1], target.shape[1],
            categories=tuple(len(categories) for categories in self.columns_.categories.values()),
            missing=bool(self.imputer_.learned["x"].any()),
        )  # fmt: skip
        return data, problem

    def _fit_stacked(self, inputs: Batch, target: np.ndarray, y: Any, members: int | None, random_state: Any) -> None:
        """Every model leaves the same folds out; on these rows they are stacked and calibrated."""
        n = len(target)
        data, problem = self._prepare(inputs, target, y, np.arange(n), random_state)
        self.problem_ = problem
        members = default_members(n, self.effort) if members is None else members
        splits = random_splits(n, max(members, 2), random_state, default_folds(n))
        seed = int(random_state.randint(2**31 - 1))
        self.seeds_ = [(seed + 10_007 * k) % 2**31 for k in range(members)]
        z = data.batch(torch.arange(n))["y"]
        with single_threaded():
            others = LeftOutModels.fit(problem, inputs, z, splits, None, seed)
            rows = torch.as_tensor(np.concatenate([left_out for _, left_out in splits[:members]]))
            decay = DECAY_PER_NOISE * others.noise(z, rows)
            low, high = WEIGHT_DECAY_RANGE
            self.chosen_ = {"weight_decay": min(max(decay, low), high) * (1000 / n) ** 0.5}
            import os
            self._top = os.environ.get("TOP", "1") == "1"
            if self._top:
                from dataclasses import replace
                base = others.means.permute(1, 2, 0).flatten(1)
                self._w = torch.as_tensor(__import__("nsac.estimators.stack", fromlist=["x"])._robust_weights(others.means[:, rows, 0].numpy(), z[rows, 0].double().numpy(), np.ones(len(rows))))
                data = TensorData(**(inputs | {"x": torch.cat([inputs["x"], base.float().nan_to_num()], 1)}), y=z)
                self.problem_ = replace(problem, input_dim=problem.input_dim + 2)
            self.members_ = self._train_members(data, splits[:members])
            self.problem_ = problem
            predicted = []
            for member, (_, left_out) in zip(self.members_, splits, strict=False):
                draws = mixture([member], batches(Subset(data, left_out), PREDICTION_BATCH), self._member_draws)
                predicted.append(Moments.of(draws, 1))
            ensemble = Moments(*(torch.cat(column) for column in zip(*predicted, strict=True)))
            parts = others.parts(ensemble, rows)
            if os.environ.get("DBG"):
                print("   oof mse nsac/kernel/tree", (parts.means - z[rows].double()).square().mean((1, 2)).numpy().round(4), "al", float(parts.aleatoric.mean()), "ep", parts.epistemic.mean((0,1)).numpy().round(4), flush=True)
            stack = Stack.fit(parts, z[rows].double())
            self.components_ = others.stacked(stack)
            prediction = stack.predict(parts, self.num_samples)
            self.calibration_ = Calibration.fit(prediction, z[rows].double(), rescale=False)

    def _train_members(self, data: Data, splits: Splits) -> list[AbstractMethod]:
        jobs = [(data, split, seed, self.chosen_) for split, seed in zip(splits, self.seeds_, strict=True)]
        if self.n_jobs in (None, 1):
            return [self._member(*job) for job in jobs]
        return Parallel(n_jobs=self.n_jobs)(delayed(self._member)(*job) for job in jobs)  # pyright: ignore

    def _fit_mixture(self, inputs: Batch, target: np.ndarray, y: Any, members: int | None, random_state: Any) -> None:
        """The members are calibrated on rows of their own."""
        n = len(target)
        order = random_state.permutation(n)
        calibration, rest = np.sort(order[: calibration_size(n)]), np.sort(order[calibration_size(n) :])
        data, problem = self._prepare(inputs, target, y, rest, random_state)
        members = (8 if MIN_SEARCH_ROWS <= n <= MAX_ROWS_OF_8_MEMBERS else 4) if members is None else members
        folds = random_splits(len(rest), members, random_state)
        splits = [(rest[train], rest[validation]) for train, validation in folds]
        seed, candidates = int(random_state.randint(2**31 - 1)), weight_decay_candidates(n, len(rest))
        self.components_ = None
        self._learn(problem, data, Subset(data, calibration), splits, seed, candidates)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean, (n[, outputs]), and with `return_std` the calibrated standard deviation as well."""
        moments = [(p.mean, p.std) for p in self._predictions(X)]
        mean = self._joined([mean for mean, _ in moments])
        return (mean, self._joined([std for _, std in moments])) if return_std else mean

    def predict_frame(
        self, X: Any, coverage: float | Sequence[float] = 0.9, quantiles: Sequence[float] = ()
    ) -> "DataFrame":
        """All of a prediction as a table with one row per row of X, and its index if it is a frame.

        Args:
            X: (n, features), an array or a frame.
            coverage: of the conformal intervals, one or several; 0.9 makes the columns `lower_90` and `upper_90`.
            quantiles: levels of quantiles of the calibrated mixture; 0.1 makes the column `quantile_10`.

        Returns:
            `mean`, `std`, `aleatoric` and `epistemic` variance (their sum is std^2), interval ends and quantiles. For
            several targets each name ends with that of the target, or with its index.
        """
        from pandas import DataFrame

        coverages, levels = probabilities("coverage", coverage), probabilities("quantiles", quantiles)
        names, chunks = [""], []
        for p in self._predictions(X):
            if p.shape[1] > 1:
                names = self.data_.get("targets") or [str(i) for i in range(p.shape[1])]
            intervals = {each: self.calibration_.scaled_interval(p, each) for each in coverages}
            chunks.append(prediction_columns(p, intervals, {each: p.quantile(each) for each in levels}, names))
        columns = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
        return DataFrame(columns, index=X.index if hasattr(X, "iloc") else None)

    def predict_interval(self, X: Any, coverage: float | Sequence[float] = 0.9) -> np.ndarray:
        """Conformal intervals, (n, 2[, outputs]): lower and upper ends that cover the fraction `coverage` of the rows.

        For a sequence of coverages (n, coverages, 2[, outputs]).
        """
        coverages = probabilities("coverage", coverage)
        chunks = []
        for p in self._predictions(X):
            intervals = [torch.stack(self.calibration_.scaled_interval(p, each), 1) for each in coverages]
            chunks.append(torch.stack(intervals, 1))
        ends = self._joined(chunks)
        return ends[:, 0] if np.ndim(coverage) == 0 else ends

    def predict_quantiles(self, X: Any, quantiles: float | Sequence[float] = (0.1, 0.5, 0.9)) -> np.ndarray:
        """Quantiles of the calibrated mixture, (n, quantiles[, outputs])."""
        levels = probabilities("quantiles", quantiles)
        return self._joined([p.quantile(levels).movedim(0, 1) for p in self._predictions(X)])

    def predict_distribution(self, X: Any) -> Prediction:
        """The calibrated mixture in the unit of y, one distribution per row (and output)."""
        p = join(list(self._predictions(X)), 1)
        return p[:, 0] if self._axes == 1 else p

    def conformal_interval(self, prediction: Prediction, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Lower and upper ends of the conformal interval of a prediction that `predict_distribution` returned."""
        if self._axes == 2:
            return self.calibration_.scaled_interval(prediction, coverage)
        lower, upper = self.calibration_.scaled_interval(prediction[:, None], coverage)
        return lower[:, 0], upper[:, 0]

    def ood_score(self, X: Any) -> np.ndarray:
        """Out-of-distribution score of each row, (n,): its epistemic standard deviation over that of the target."""
        self._check_epistemic()
        return np.concatenate([p.epistemic.mean(1).sqrt().numpy() for p in self._chunks(X)])

    def _predictions(self, X: Any) -> Iterator[Prediction]:
        """Calibrated predictions in the unit of y, (rows, outputs), of some thousand rows at a time."""
        for p in self._chunks(X):
            yield self.calibration_.apply(p).affine(torch.as_tensor(self.scale_), torch.as_tensor(self.centre_))

    def _chunks(self, X: Any) -> Iterator[Prediction]:
        """Standardised predictions of the members, before calibration; every row is predicted here, once."""
        check_is_fitted(self)
        columns = self.columns_.tensors(self._table(X, reset=False))
        for chunk in _split_rows(columns, CHUNK_ROWS):
            yield self.imputer_.predict(chunk, self._mixture)

    def _draws(self, data: Data) -> Prediction:
        """Calibration rows are predicted as new rows are: with values imputed that are never missing in training."""
        chunks = []
        for batch in batches(data, PREDICTION_BATCH):
            columns = {name: batch[name] for name in self.imputer_.learned}
            chunks.append(self.imputer_.predict(columns, self._mixture))
        return join(chunks, 1)

    def _mixture(self, columns: Batch) -> Prediction:
        if self.components_ is None:
            return mixture(self.members_, _split_rows(columns, PREDICTION_BATCH), self.num_samples)
        from nsac.estimators.components import flatten
        wide = columns
        if self._top:
            design = flatten(self.problem_, columns)
            base = torch.cat([self.components_.kernel.predict(design)[0], self.components_.trees.predict(design)], 1)
            wide = columns | {"x": torch.cat([columns["x"], base.float()], 1)}
        draws = mixture(self.members_, _split_rows(wide, PREDICTION_BATCH), self._member_draws)
        with single_threaded():
            ensemble = Moments.of(draws, len(self.members_))
            return self.components_.predict(self.problem_, columns, ensemble, self.num_samples)

    @property
    def _member_draws(self) -> int:
        """Draws of a member: all members together have `num_samples`, and each enough for a variance."""
        return max(MIN_MEMBER_DRAWS, -(-self.num_samples // len(self.seeds_)))

    def _joined(self, chunks: list[Tensor]) -> np.ndarray:
        values = torch.cat(chunks).numpy()
        return values[..., 0] if self._axes == 1 else values  # y had no axis of outputs

    def _table(self, X: Any, reset: bool) -> Any:
        min_rows = MIN_ROWS if reset else 1
        if hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2:
            validate_data(self, X, reset=reset, skip_check_array=True)
            if len(X) < min_rows or not X.shape[1]:
                raise ValueError(
                    f"Found frame with {len(X)} sample(s) and {X.shape[1]} feature(s) (shape={X.shape}) while a "
                    f"minimum of {min_rows} and 1 is required by {type(self).__name__}."
                )
            return X
        return validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=min_rows)

    def _training(self, rows: int) -> dict[str, Any]:
        """Weights are validated now and then, and the best are kept."""
        if issubclass(METHODS[self.method], NSACMethod):
            steps = int(min(MAX_STEPS_PER_ROW * rows, STEPS_FOR_1000_ROWS * (rows / 1000) ** STEPS_EXPONENT))
            steps = max(1, round(EFFORT_STEPS[self.effort] * steps))
            batch_size = next(size for limit, size in BATCH_SIZES if rows < limit)
            checks = {"max_steps": steps, "validate_every": max(1, steps // VALIDATIONS)}
            return checks | {"batch_size": min(batch_size, rows), "learning_rate": LEARNING_RATE}
        steps = int(min(4 * rows, 450 * (rows / 1000) ** 0.55))
        batch_size = min(128 if rows < LARGE_TABLE_ROWS else 256, rows)
        return {"max_steps": steps, "validate_every": steps, "batch_size": batch_size, "learning_rate": LEARNING_RATE}

    def _state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        facts = {"columns": self.columns_.to_dict(), "named": hasattr(self, "feature_names_in_"), "axes": self._axes}
        facts |= {"data": self.data_, "chosen": self.chosen_}
        arrays = {"x.centre": self.columns_.centre, "x.scale": self.columns_.scale}
        arrays |= {"y.centre": self.centre_, "y.scale": self.scale_}
        return facts, self.imputer_.to_tensors() | {name: torch.as_tensor(array) for name, array in arrays.items()}

    def _load_state(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        problem = self.problem_
        self.imputer_ = HotDeck.from_tensors(tensors, problem.input_dim, problem.categories)
        self.columns_ = Columns.from_dict(facts["columns"], tensors["x.centre"], tensors["x.scale"])
        self.centre_ = tensors["y.centre"].double().numpy()
        self.scale_ = tensors["y.scale"].double().numpy()
        self._axes, self.data_, self.chosen_ = facts["axes"], facts["data"], facts["chosen"]
        self.n_features_in_ = len(self.columns_.names)
        if facts["named"]:
            self.feature_names_in_ = np.array(self.columns_.names, dtype=object)
        outputs = (problem.output_dim,)
        rules = {
            "its keys": set(facts) == _FACTS and isinstance(facts["named"], bool),
            "the number of tensors": len(tensors) == 4 + len(self.imputer_.to_tensors()),
            "the shape of y": self._axes == 2 or (self._axes == 1 and outputs == (1,)),
            "categories": problem.categories == tuple(len(each) for each in self.columns_.categories.values()),
            "numeric columns": len(self.columns_.centre) == problem.input_dim,
            "the scale of x": bool(np.isfinite(self.columns_.centre).all() and (self.columns_.scale > 0).all()),
            "the shape of the scale": self.centre_.shape == self.scale_.shape == outputs,
            "the scale of y": bool(np.isfinite(self.centre_).all() and (self.scale_ > 0).all()),
            "target names": not self.data_.get("targets") or len(self.data_["targets"]) == problem.output_dim,
            "missing values": problem.missing == bool(self.imputer_.learned["x"].any()),
        }
        for name, fits in rules.items():
            if not fits:
                raise ValueError(f"`own` does not fit the problem: {name}.")


def default_folds(rows: int) -> int:
    """Folds of a table: with few rows all are left out, with many some."""
    return 5 if rows <= SMALL_TABLE_ROWS else 8


def default_members(rows: int, effort: str) -> int:
    """Ensemble size."""
    members = {"fast": 2, "default": 5 if rows <= SMALL_TABLE_ROWS else 4, "best": 8}[effort]
    return members


def weight_decay_candidates(rows: int, train_rows: int) -> list[dict[str, Any]]:
    """Weight decays to search, ascending, as fields of `TrainConfig`."""
    decays = WEIGHT_DECAYS[:: 2 if rows > LARGE_TABLE_ROWS else 1]
    if rows < MIN_SEARCH_ROWS:
        decays = (DEFAULT_WEIGHT_DECAY,)
    return [{"weight_decay": decay * (1000 / train_rows) ** 0.5} for decay in decays]


def _split_rows(columns: Batch, size: int) -> Iterator[Batch]:
    for rows in torch.arange(len(columns["x"])).split(size):
        yield {name: column[rows] for name, column in columns.items()}
