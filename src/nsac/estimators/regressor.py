"""Regression on tables, as scikit-learn does it, with calibrated uncertainty."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data
from torch import Tensor

from nsac._checks import check_int
from nsac.estimators.base import AbstractEstimator, random_parts
from nsac.estimators.columns import EXAMPLES, Columns
from nsac.methods import METHODS, TableProblem
from nsac.training import TensorData
from nsac.uncertainty import Prediction

FEWEST = 5
"""Rows to fit: some to train, one to choose weights, one to calibrate."""
SHARE, LEAST, MOST = 0.1, 40, 2000
"""Rows of calibration: a tenth, at least 40 if that is no more than a fifth, at most 2000."""
DECAYS = (0.1, 0.17, 0.3, 0.5, 0.8, 1.25, 2.0, 3.2, 5.0, 8.0)
"""Weight decays among which the best is looked for, for 1000 rows; they fall with the square root of the rows. Much
noise asks for much decay, and nobody knows how much noise there is."""
USUAL = 2.0
"""The decay where rows are too few to look for one."""
TOO_FEW, FEW, MANY = 100, 1500, 3000
"""Rows from which on a decay is looked for, and there are 8 members by default; up to which there are 8, and 4 beyond;
and from which on every second decay will do, and batches are larger."""
RATE = 6e-3
"""Learning rate: with so much decay it may be high."""
STEPS, STEPS_POWER, STEPS_PER_ROW = 450, 0.55, 4
"""Steps of training: 450 for 1000 rows, growing as the power 0.55 of their number, and at most 4 per row."""
CHUNK = 8192
"""Rows whose draws are in memory at once."""


class NSACRegressor(MultiOutputMixin, RegressorMixin, AbstractEstimator):
    """Regression with calibrated uncertainty on tables of numbers and categories, with holes.

    A part of the rows is set aside to calibrate. Of the rest each of `folds` members trains on all but one fold, which
    chooses its weights; together they predict as one mixture. Columns of text or of pandas' category type are
    categories; a level that was not seen in training is as good as missing. Where a value is missing (NaN, None), the
    model is told so; if it never was in training, that is where it could not learn what to make of it, values of
    training rows stand in, and how much predictions differ with them counts as epistemic.

    Args:
        method: a name in `nsac.METHODS` that takes tables.
        folds: members, each trained on all rows but one fold; None is 8 for 100 to 1500 rows, otherwise 4.
        categorical: names or positions of columns of numbers that are categories.
        training: fields of `nsac.training.TrainConfig` that replace the defaults.
        random_state: fixes everything that is random: a number, None or a `RandomState`.
        verbose: whether to show a bar, on a terminal.

    Attributes:
        members_: the fitted methods.
        chosen_: the weight decay that was taken, if any was tried.
        data_: number of training rows, a fingerprint of them, and the names of the targets if y had any.
        calibration_: what corrects their mixture.
        n_features_in_, feature_names_in_: columns of X; the latter only if X was a frame with names.
    """

    kind: ClassVar[str] = "table"
    problem_: TableProblem

    def __init__(
        self,
        method: str = "nsac",
        *,
        folds: int | None = None,
        categorical: Sequence[str | int] | None = None,
        training: dict[str, Any] | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.method = method
        self.folds = folds
        self.categorical = categorical
        self.training = training
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        """Missing values are welcome."""
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
        if self.folds is not None:
            check_int("folds", self.folds)
        table = self._table(X, reset=True)
        target = _target(y, type(self).__name__)
        self._axes, target = target.ndim, target.reshape(len(target), -1)
        check_consistent_length(table, target)
        names = self._names()
        self.columns_ = Columns.fit(table, names, self._categorical(names))
        random = check_random_state(self.random_state)
        parts = self.columns_.tensors(table)
        order = random.permutation(len(target))
        n = len(order)
        aside = min(max(round(SHARE * n), min(LEAST, n // 5), 1), MOST)
        calibration, rest = np.sort(order[:aside]), np.sort(order[aside:])
        self.centre_, self.scale_ = target[rest].mean(0), _deviation(target[rest], y)
        parts["y"] = torch.as_tensor((target - self.centre_) / self.scale_, dtype=torch.float32)
        self.data_ = {"rows": n, "sha256": _fingerprint(parts), "targets": _target_names(y)}
        data = TensorData(**parts)
        seen = data.batch(torch.as_tensor(rest))
        self.examples_ = data.batch(torch.as_tensor(rest[random.permutation(len(rest))[:EXAMPLES]]))
        del self.examples_["y"]
        self.holes_ = {name: _missing(seen[name]).any(0) for name in self.examples_}
        problem = TableProblem(
            seen["x"].shape[1], target.shape[1],
            categories=tuple(len(levels) for levels in self.columns_.levels.values()),
            missing=bool(self.holes_["x"].any()),
        )  # fmt: skip
        cuts = random_parts(len(rest), self.folds or (8 if TOO_FEW <= n <= FEW else 4), random)
        members = [(rest[train], rest[validation]) for train, validation in cuts]
        held = TensorData(**data.batch(torch.as_tensor(calibration)))
        decays = (USUAL,) if n < TOO_FEW else DECAYS[:: 2 if n > MANY else 1]
        candidates = [{"weight_decay": decay * (1000 / len(rest)) ** 0.5} for decay in decays]
        self._learn(problem, data, held, members, int(random.randint(2**31 - 1)), candidates)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean, (n[, outputs]), and if asked for the calibrated standard deviation."""
        mean, std = self._map(X, lambda p: (p.mean, p.std))
        return (mean, std) if return_std else mean

    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """Lower and upper ends, (n, 2[, outputs]), conformal: a share `coverage` of rows like these is inside."""
        (ends,) = self._map(X, lambda p: (torch.stack(self.calibration_.interval(p, coverage), 1),), calibrate=False)
        return ends

    def predict_quantiles(self, X: Any, quantiles: float | Sequence[float] = (0.1, 0.5, 0.9)) -> np.ndarray:
        """Quantiles of the calibrated mixture, (n, quantiles[, outputs])."""
        levels = np.atleast_1d(quantiles).tolist()
        (values,) = self._map(X, lambda p: (p.quantile(levels).movedim(0, 1),))
        return values

    def predict_distribution(self, X: Any) -> Prediction:
        """The calibrated mixture in the unit of y, one distribution per row (and output)."""
        parts = [self._in_unit(self.calibration_.apply(p)) for p in self._chunks(X)]
        draws = (torch.cat([getattr(p, name) for p in parts], 1) for name in ("mean_draws", "log_std_draws"))
        p = Prediction(*draws)
        return p[:, 0] if self._axes == 1 else p

    def ood_score(self, X: Any) -> np.ndarray:
        """How unlike the training rows each row is, (n,): its epistemic deviation, over that of the target."""
        check_is_fitted(self)
        if len(self.members_) == 1 and not METHODS[self.method].has_epistemic:
            able = [name for name, cls in METHODS.items() if cls.has_epistemic]
            raise ValueError(
                f"`method` must be one that knows what it does not know ({', '.join(able)}), or `folds` be above 1. "
                f"Got {self.method!r} and 1 instead."
            )
        return np.concatenate([p.epistemic.mean(1).sqrt().numpy() for p in self._chunks(X)])

    def _map(self, X: Any, function: Callable[[Prediction], tuple[Tensor, ...]], calibrate: bool = True) -> list:
        """Numbers of each row, in the unit of y or, from `calibration_`, standardised; chunk by chunk."""
        rows = []
        for p in self._chunks(X):
            rows.append(function(self._in_unit(self.calibration_.apply(p) if calibrate else p)))
        joined = [torch.cat(each).numpy() for each in zip(*rows, strict=True)]
        return [each[..., 0] if self._axes == 1 else each for each in joined]

    def _in_unit(self, p: Prediction) -> Prediction:
        centre, scale = (torch.as_tensor(v) for v in (self.centre_, self.scale_))
        return Prediction(p.mean_draws * scale + centre, p.log_std_draws + scale.log())

    def _chunks(self, X: Any) -> Iterator[Prediction]:
        """Predictions as the members make them, standardised, of some thousand rows at a time."""
        check_is_fitted(self)
        parts = self.columns_.tensors(self._table(X, reset=False))
        parts["y"] = torch.zeros(len(parts["x"]), 1)  # data must have a target; no method looks at it to predict
        for rows in torch.arange(len(parts["x"])).split(CHUNK):
            yield self._stood_in({name: part[rows] for name, part in parts.items()})

    def _stood_in(self, parts: dict[str, Tensor]) -> Prediction:
        """Draw n of a row with an unheard-of hole is made with the values of example n modulo their number."""
        strange = {name: _missing(parts[name]) & ~holes for name, holes in self.holes_.items()}
        rows = torch.stack([where.any(1) for where in strange.values()]).any(0).nonzero()[:, 0]
        p = self._draws(TensorData(**self._filled(parts, strange, 0)))
        some, where = ({name: part[rows] for name, part in group.items()} for group in (parts, strange))
        for k in range(1, min(EXAMPLES, len(p.mean_draws), len(self.examples_["x"])) if len(rows) else 1):
            other = self._draws(TensorData(**self._filled(some, where, k)))
            for mine, theirs in ((p.mean_draws, other.mean_draws), (p.log_std_draws, other.log_std_draws)):
                mine[k::EXAMPLES, rows] = theirs[k::EXAMPLES]
        return p

    def _filled(self, parts: dict[str, Tensor], where: dict[str, Tensor], k: int) -> dict[str, Tensor]:
        return parts | {name: torch.where(hole, self.examples_[name][k], parts[name]) for name, hole in where.items()}

    def _table(self, X: Any, reset: bool) -> Any:
        if hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2:
            validate_data(self, X, reset=reset, skip_check_array=True)
            least = FEWEST if reset else 1
            if len(X) < least or not X.shape[1]:
                raise ValueError(
                    f"Found frame with {len(X)} sample(s) and {X.shape[1]} feature(s) (shape={X.shape}) while a "
                    f"minimum of {least} and 1 is required by {type(self).__name__}."
                )
            return X
        return validate_data(
            self, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=FEWEST if reset else 1
        )

    def _names(self) -> list[str]:
        return [str(n) for n in getattr(self, "feature_names_in_", range(self.n_features_in_))]

    def _categorical(self, names: list[str]) -> list[int]:
        """Positions of the columns named in `categorical`."""
        known = list(getattr(self, "feature_names_in_", []))
        places = []
        for each in self.categorical or ():
            place = known.index(each) if each in known else each
            if isinstance(place, str) or not 0 <= place < self.n_features_in_:
                raise ValueError(f"`categorical` must name columns of X: {', '.join(names)}. Got {each!r} instead.")
            places.append(int(place))
        return places

    def _training(self, rows: int) -> dict[str, Any]:
        steps = int(min(STEPS_PER_ROW * rows, STEPS * (rows / 1000) ** STEPS_POWER))
        # Decay does what stopping early would do, and better; so only the last weights are looked at.
        size = min(128 if rows < MANY else 256, rows)
        return {"max_steps": steps, "validate_every": steps, "batch_size": size, "learning_rate": RATE}

    def _own(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        facts = {"columns": self.columns_.to_json(), "named": hasattr(self, "feature_names_in_"), "axes": self._axes}
        facts |= {"data": self.data_, "chosen": self.chosen_}
        tensors = {f"examples.{name}": part for name, part in self.examples_.items()}
        tensors |= {f"holes.{name}": part for name, part in self.holes_.items()}
        arrays = {"x.centre": self.columns_.centre, "x.scale": self.columns_.scale}
        arrays |= {"y.centre": self.centre_, "y.scale": self.scale_}
        return facts, tensors | {name: torch.as_tensor(array) for name, array in arrays.items()}

    def _restore(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        widths = {"x": self.problem_.input_dim} | (
            {"c": len(self.problem_.categories)} if self.problem_.categories else {}
        )
        groups = {kind: {name: tensors[f"{kind}.{name}"] for name in widths} for kind in ("examples", "holes")}
        self.columns_ = Columns.from_json(facts["columns"], tensors["x.centre"], tensors["x.scale"])
        self.centre_, self.scale_ = (tensors[name].double().numpy() for name in ("y.centre", "y.scale"))
        self.examples_, self.holes_ = groups["examples"], groups["holes"]
        self._axes, self.data_, self.chosen_ = facts["axes"], facts["data"], facts["chosen"]
        self.n_features_in_ = len(self.columns_.names)
        if facts["named"]:
            self.feature_names_in_ = np.array(self.columns_.names, dtype=object)
        outputs, rows = (self.problem_.output_dim,), len(self.examples_["x"])
        fits = [
            set(facts) == {"columns", "named", "axes", "data", "chosen"} and isinstance(facts["named"], bool),
            len(tensors) == 4 + 2 * len(widths),
            self._axes == 2 or (self._axes == 1 and outputs == (1,)),
            self.problem_.categories == tuple(len(each) for each in self.columns_.levels.values()),
            len(self.columns_.centre) == self.problem_.input_dim,
            self.centre_.shape == self.scale_.shape == outputs,
            bool(np.isfinite(self.centre_).all() and (self.scale_ > 0).all()),
            all(self.holes_[name].shape == (width,) for name, width in widths.items()),
            all(self.holes_[name].dtype == torch.bool for name in widths),
            all(self.examples_[name].shape == (rows, width) for name, width in widths.items()),
        ]
        if not all(fits):
            raise ValueError(f"`own` does not fit the problem (rule {fits.index(False)}).")
        self._stood_in(self.examples_ | {"y": torch.zeros(rows, 1)})  # it can predict


def _fingerprint(parts: dict[str, Tensor]) -> str:
    """Of the training rows: tells whether a model was fitted on these."""
    digest = hashlib.sha256()
    for name in sorted(parts):
        digest.update(parts[name].contiguous().numpy().data)
    return digest.hexdigest()


def _missing(part: Tensor) -> Tensor:
    return torch.isnan(part) if part.is_floating_point() else part == 0


def _target(y: Any, who: str) -> np.ndarray:
    """Targets, (n,) or (n, outputs), finite."""
    if y is None:
        raise ValueError(f"{who} requires y to be passed, but the target y is None.")
    try:
        values: Any = check_array(y, ensure_2d=False, dtype="float64", ensure_all_finite=False, input_name="y")
    except ValueError as err:
        names = ", ".join(f"column {name!r}" for name in _target_names(y)) or "y"
        raise ValueError(f"Input y must hold numbers, (n,) or (n, outputs), in {names}: {err}") from None
    if values.ndim not in (1, 2):
        raise ValueError(f"Input y must have shape (n,) or (n, outputs). Got {values.shape} instead.")
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, *column = bad[0]
        what = "NaN" if np.isnan(values[*bad[0]]) else "infinity"
        raise ValueError(
            f"Input y contains {what}: {_called(y, column[0] if column else 0)}, row {row} ({len(bad)} such values). "
            "Leave out rows without a target."
        )
    return values


def _target_names(y: Any) -> list[str]:
    """Empty if `y` has none."""
    if hasattr(y, "columns"):
        return [str(name) for name in y.columns]
    return [] if getattr(y, "name", None) is None else [str(y.name)]


def _called(y: Any, i: int) -> str:
    """What a message calls output i."""
    names = _target_names(y)
    if names:
        return f"column {names[i]!r}"
    return f"column {i} of y" if len(getattr(y, "shape", (0,))) > 1 else "y"


def _deviation(values: np.ndarray, y: Any) -> np.ndarray:
    scale = values.std(0)
    for i in np.flatnonzero(scale <= 1e-12 * np.abs(values.mean(0))):
        raise ValueError(
            f"The target ({_called(y, int(i))}) must vary. It is {values[0, i]:g} in all rows that are trained on. "
            "There is nothing to learn; look at the data."
        )
    return scale
