"""Regression on tables with calibrated uncertainty: a scikit-learn estimator."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data
from torch import Tensor

from nsac._checks import probabilities
from nsac.estimators.base import AbstractEstimator, calibration_size, random_splits
from nsac.estimators.columns import Columns, categorical_positions, digest_of
from nsac.estimators.defaults import default_members, default_training, weight_decay_candidates
from nsac.estimators.ensemble import join
from nsac.estimators.imputation import HotDeck
from nsac.estimators.targets import target_names, target_std, target_values
from nsac.methods import METHODS, TableProblem
from nsac.training import TensorData
from nsac.uncertainty import Prediction, prediction_columns

if TYPE_CHECKING:
    from pandas import DataFrame

MIN_ROWS = 5
"""Fewest rows to fit: some to train, one to validate, one to calibrate."""
CHUNK_ROWS = 8192
"""Rows whose draws are in memory at once."""

_FACTS = {"columns", "named", "axes", "data", "chosen"}
"""Keys of the plain values of `_state`."""


class NSACRegressor(MultiOutputMixin, RegressorMixin, AbstractEstimator):
    """Regression with calibrated uncertainty on tables of numbers and categories with missing values.

    A held-out calibration set is drawn first. Of the other rows each ensemble member trains on all but one
    cross-validation fold, its validation set; together the members predict as one mixture. Columns of text or of
    pandas' category type are categories; a category that was not seen in training counts as missing. Values may be
    missing (NaN, None). If a column had no missing value in training, the model could not learn from any: values of
    training rows are then imputed, and the differences between the predictions are part of the epistemic variance.

    Args:
        method: a name in `nsac.METHODS` that takes tables.
        members: ensemble size; None is 8 for 100 to 1500 rows, otherwise 4.
        categorical: names or positions of numeric columns that are categories.
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

    def __init__(
        self,
        method: str = "nsac",
        *,
        members: int | None = None,
        categorical: Sequence[str | int] | None = None,
        training: dict[str, Any] | None = None,
        num_samples: int = 20,
        random_state: Any = None,
        verbose: bool = False,
        folds: int | Literal["deprecated"] | None = "deprecated",
    ):
        self.method = method
        self.members = members
        self.categorical = categorical
        self.training = training
        self.num_samples = num_samples
        self.random_state = random_state
        self.verbose = verbose
        self.folds = folds

    def __sklearn_tags__(self):
        """Missing values are allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any) -> "NSACRegressor":
        """Fit and calibrate.

        Args:
            X: (n, features), an array or a frame.
            y: (n,) or (n, outputs), finite.
        """
        self._check_method()
        members = self._n_members()
        table = self._table(X, reset=True)
        target = target_values(y, type(self).__name__)
        self._axes, target = target.ndim, target.reshape(len(target), -1)
        check_consistent_length(table, target)
        known = list(getattr(self, "feature_names_in_", []))
        names = [str(name) for name in known or range(self.n_features_in_)]
        self.columns_ = Columns.fit(table, names, categorical_positions(self.categorical or (), known, names))
        random_state = check_random_state(self.random_state)
        columns = self.columns_.tensors(table)
        n = len(target)
        order = random_state.permutation(n)
        calibration, rest = np.sort(order[: calibration_size(n)]), np.sort(order[calibration_size(n) :])
        self.centre_, self.scale_ = target[rest].mean(0), target_std(target[rest], y)
        columns["y"] = torch.as_tensor((target - self.centre_) / self.scale_, dtype=torch.float32)
        self.data_ = {"rows": n, "sha256": digest_of(columns), "targets": target_names(y)}
        data = TensorData(**columns)
        self.imputer_ = HotDeck.fit(data, rest, random_state)
        problem = TableProblem(
            columns["x"].shape[1], target.shape[1],
            categories=tuple(len(categories) for categories in self.columns_.categories.values()),
            missing=bool(self.imputer_.learned["x"].any()),
        )  # fmt: skip
        if members is None:
            members = default_members(n)
        folds = random_splits(len(rest), members, random_state)
        splits = [(rest[train], rest[validation]) for train, validation in folds]
        held_out = TensorData(**data.batch(torch.as_tensor(calibration)))
        seed = int(random_state.randint(2**31 - 1))
        self._learn(problem, data, held_out, splits, seed, weight_decay_candidates(n, len(rest)))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean, (n[, outputs]), and with `return_std` the calibrated standard deviation as well."""
        means, stds = [], []
        for p in self._predictions(X):
            means.append(p.mean)
            stds.append(p.std)
        return (self._joined(means), self._joined(stds)) if return_std else self._joined(means)

    def predict_frame(
        self, X: Any, coverage: float | Sequence[float] = 0.9, quantiles: Sequence[float] = ()
    ) -> "DataFrame":
        """All of a prediction as a table with one row per row of X.

        Args:
            X: (n, features), an array or a frame, whose index the result has.
            coverage: of the conformal intervals, one or several; 0.9 makes the columns `lower_90` and `upper_90`.
            quantiles: levels of quantiles of the calibrated mixture; 0.1 makes the column `quantile_10`.

        Returns:
            `mean`, `std`, `aleatoric` and `epistemic` variance (their sum is std^2), interval ends and quantiles. For
            several targets each name ends with that of the target, or with its index.
        """
        from pandas import DataFrame

        coverages, levels = probabilities("coverage", coverage), probabilities("quantiles", quantiles)
        names = [""]
        chunks = []
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
        check_is_fitted(self)
        if len(self.members_) == 1 and not METHODS[self.method].has_epistemic:
            able = [name for name, cls in METHODS.items() if cls.has_epistemic]
            raise ValueError(
                f"`method` must have epistemic variance ({', '.join(able)}), or `members` must be above 1. "
                f"Got {self.method!r} and 1 instead."
            )
        return np.concatenate([p.epistemic.mean(1).sqrt().numpy() for p in self._chunks(X)])

    def _predictions(self, X: Any) -> Iterator[Prediction]:
        """Calibrated predictions in the unit of y, (rows, outputs), of some thousand rows at a time."""
        for p in self._chunks(X):
            yield self.calibration_.apply(p).affine(torch.as_tensor(self.scale_), torch.as_tensor(self.centre_))

    def _chunks(self, X: Any) -> Iterator[Prediction]:
        """Standardised predictions of the members, before calibration; every row is predicted here, once."""
        check_is_fitted(self)
        columns = self.columns_.tensors(self._table(X, reset=False))
        for rows in torch.arange(len(columns["x"])).split(CHUNK_ROWS):
            yield self.imputer_.predict({name: column[rows] for name, column in columns.items()}, self._draws)

    def _joined(self, chunks: list[Tensor]) -> np.ndarray:
        """Rows of all chunks; the axis of outputs is dropped if y had none."""
        values = torch.cat(chunks).numpy()
        return values[..., 0] if self._axes == 1 else values

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
        return default_training(rows)

    def _state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        facts = {"columns": self.columns_.to_dict(), "named": hasattr(self, "feature_names_in_"), "axes": self._axes}
        facts |= {"data": self.data_, "chosen": self.chosen_}
        arrays = {"x.centre": self.columns_.centre, "x.scale": self.columns_.scale}
        arrays |= {"y.centre": self.centre_, "y.scale": self.scale_}
        tensors = {name: torch.as_tensor(array) for name, array in arrays.items()}
        return facts, self.imputer_.to_tensors() | tensors

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
