"""Regression on tables with calibrated uncertainty: a scikit-learn estimator."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length
from torch import Tensor

from nsac._checks import check_choice
from nsac._torch import single_threaded
from nsac.estimators.base import Splits, calibration_size, random_splits
from nsac.estimators.columns import Columns, categorical_positions, digest_of, target_names, target_std, target_values
from nsac.estimators.components import Components, design_groups, flatten
from nsac.estimators.grouping import counted_rows, warn_if_grouped
from nsac.estimators.importance import ImportanceMixin
from nsac.estimators.imputation import HotDeck
from nsac.estimators.patterns import MissingPatterns
from nsac.estimators.predicting import AbstractTablePredictor
from nsac.estimators.recipe import mixture_training, weight_decay_candidates
from nsac.estimators.stacked import (
    FIRST_MEMBERS,
    MEMBERS,
    SMALL_TABLE_ROWS,
    Effort,
    fit_stacked,
    make_splits,
    split_groups,
    training_fields,
)  # fmt: skip
from nsac.estimators.tables import as_frame, check_table
from nsac.estimators.targets import choose_link
from nsac.methods import METHODS, AbstractMethod, TableProblem
from nsac.methods.nsac import NSACMethod
from nsac.models.encoder import Batch
from nsac.training import Data, Subset, TensorData
from nsac.uncertainty import Link

COMPONENTS, PATTERNS = "components.", "patterns."  # prefixes of the names of their tensors in a file
_FACTS = {"columns", "named", "axes", "data", "chosen", "link", "stacked"}  # keys of the plain values of `_state`


class NSACRegressor(MultiOutputMixin, RegressorMixin, ImportanceMixin, AbstractTablePredictor):
    """Regression with calibrated uncertainty on tables of numbers and categories with missing values.

    The rows are split into folds. Three models leave the same folds out: an ensemble of NSAC networks, a Gaussian
    process and boosted trees. On the left-out rows they are stacked into one distribution, whose intervals are
    conformal; no row is lost to calibration. Columns of text or of pandas' category type are categories; a category
    that was not seen in training counts as missing. Dates, also as text, become year, month, day, weekday, days since
    the first and, if there are times, hour. Values may be missing (NaN, None). If a column had no missing value in
    training, the models could not learn from any: values of training rows are then imputed, and the differences
    between the predictions are part of the epistemic variance.

    Args:
        method: a name in `nsac.METHODS` that takes tables. Methods other than `"nsac"` are trained alone, without a
            stack, and calibrated on rows of their own.
        members: ensemble size; None is 4.
        effort: `"fast"`, `"default"` or `"best"`: how long to train, and how many members there are by default.
        categorical: names or positions of columns that are categories whatever they hold.
        dayfirst: whether 01/02/2024 is in February, in columns of dates as text; None if the rows decide it.
        target_range: lower and upper bound of the targets, either of which may be None: (0, None) for positive ones.
            Predictions stay within. None if the data decide whether the logarithm of positive targets is learned.
        training: fields of `nsac.training.TrainConfig` that replace the defaults.
        num_samples: draws of the predictive distribution; with method `"nsac"` 1 counts as 2.
        n_jobs: processes that train members at the same time; None is 1.
        random_state: fixes everything that is random: a number, None or a `RandomState`.
        verbose: whether to show progress: a bar on a terminal, a line now and then elsewhere.
        folds: deprecated name of `members`.

    Attributes:
        members_: the fitted networks.
        components_: the other models, and the stack of all; None for methods other than `"nsac"`.
        link_: the scale on which targets are learned.
        chosen_: the weight decay in use, unless `training` fixes it.
        data_: number of training rows, their digest, mean and standard deviation of the targets, their names if y had
            any, and the mean squared error of left-out rows, in units of the learned variance.
        calibration_: conformal scores of the left-out rows.
        feature_importances_: shares of the columns of X, see `permutation_importances`.
        n_features_in_, feature_names_in_: columns of X; the latter only if X was a frame with names.
    """

    kinds: ClassVar[tuple[str, ...]] = ("table",)

    def __init__(
        self,
        method: str = "nsac",
        *,
        members: int | None = None,
        effort: Effort = "default",
        categorical: Sequence[str | int] | None = None,
        dayfirst: bool | None = None,
        target_range: tuple[float | None, float | None] | None = None,
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
        self.target_range = target_range
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
            sample_weight: (n,), at least 0: how much each row counts. A row of weight 0 is as if it were not there.
            groups: (n,), which rows belong together, as those of one machine or patient. Rows of a group are left out
                together, so that intervals have their coverage in a new group.
        """
        self._check_method()
        check_choice("effort", self.effort, get_args(Effort))
        members = self._n_members()
        X = as_frame(X)
        table = check_table(self, X, reset=True)
        target = target_values(y, type(self).__name__)
        self._axes, target = target.ndim, np.array(target).reshape(len(target), -1)  # a frame's may be read-only
        check_consistent_length(table, target)
        table, target, weight, codes = counted_rows(table, target, sample_weight, groups)
        known = list(getattr(self, "feature_names_in_", []))
        names = [str(name) for name in known or range(self.n_features_in_)]
        categorical = categorical_positions(self.categorical or (), known, names)
        self.columns_ = Columns.fit(table, names, categorical, self.dayfirst)
        random_state = check_random_state(self.random_state)
        inputs = self.columns_.tensors(table)
        if issubclass(METHODS[self.method], NSACMethod):
            if codes is None:
                warn_if_grouped(table, inputs)
            self._fit_stacked(inputs, target, y, members, weight, codes, random_state)
        else:
            if weight is not None or codes is not None or self.target_range is not None:
                raise ValueError(
                    "`sample_weight`, `groups` and `target_range` must be None for methods other than 'nsac'. "
                    f"Got method={self.method!r}."
                )
            self._fit_mixture(inputs, target, y, members, random_state)
        self._keep_sample(table, target)
        return self

    def _fit_stacked(
        self, inputs: Batch, target: np.ndarray, y: Any, members: int | None, weight: Tensor | None,
        groups: np.ndarray | None, random_state: np.random.RandomState,
    ) -> None:  # fmt: skip
        n = len(target)
        probed = members is None and groups is None and n > SMALL_TABLE_ROWS
        first = FIRST_MEMBERS if probed else n  # of the members; by default all
        members = MEMBERS[self.effort] if members is None else members
        self.imputer_ = HotDeck.fit(inputs, np.arange(n), random_state)
        self.problem_ = self._problem(inputs, target.shape[1])
        target_std(target, y)  # refuses targets that do not vary
        splits = make_splits(n, members, random_state) if groups is None else split_groups(groups, random_state)
        seed = int(random_state.randint(2**31 - 1))
        with single_threaded():
            design, shared = flatten(self.problem_, inputs), design_groups(self.problem_)
            self.link_ = choose_link(design, target, self.target_range, shared, random_state.permutation(n))
            z = self._standardise(self.link_.forward(torch.tensor(target)).numpy())
            self.data_ = self._data(inputs | {"y": z}, y) | {"mean": target.mean(0), "std": target.std(0)}
            codes = None if groups is None else torch.from_numpy(groups)
            fitted = fit_stacked(
                self.problem_, inputs, z, splits, weight, codes, seed, self.num_samples, self._train_members, first
            )
        self.members_, self.components_, self.calibration_, self.seeds_, chosen, self.patterns_, mse = fitted
        self.data_["left_out_mse"] = mse
        self.chosen_ = {name: value for name, value in chosen.items() if name not in (self.training or {})}

    def _fit_mixture(
        self, inputs: Batch, target: np.ndarray, y: Any, members: int | None, random_state: np.random.RandomState
    ) -> None:
        """The mixture of the members, calibrated on rows of its own."""
        n = len(target)
        order = random_state.permutation(n)
        calibration, rest = np.sort(order[: calibration_size(n)]), np.sort(order[calibration_size(n) :])
        self.components_, self.patterns_, self.link_ = None, None, Link("identity")
        target_std(target[rest], y)
        data = TensorData(**inputs, y=self._standardise(target, rest))
        self.data_ = self._data(data.columns, y)
        self.imputer_ = HotDeck.fit(inputs, rest, random_state)
        folds = random_splits(len(rest), 4 if members is None else members, random_state)
        splits = [(rest[train], rest[validation]) for train, validation in folds]
        seed, candidates = int(random_state.randint(2**31 - 1)), weight_decay_candidates(n, len(rest))
        self._learn(self._problem(inputs, target.shape[1]), data, Subset(data, calibration), splits, seed, candidates)

    def _problem(self, inputs: Batch, outputs: int) -> TableProblem:
        categories = tuple(len(categories) for categories in self.columns_.categories.values())
        missing = bool(self.imputer_.learned["x"].any())
        return TableProblem(inputs["x"].shape[1], outputs, categories=categories, missing=missing)

    def _standardise(self, values: np.ndarray, rows: Any = slice(None)) -> Tensor:
        self.centre_, self.scale_ = values[rows].mean(0), values[rows].std(0)
        return torch.as_tensor((values - self.centre_) / self.scale_, dtype=torch.float32)

    def _data(self, columns: Batch, y: Any) -> dict[str, Any]:
        return {"rows": len(columns["y"]), "sha256": digest_of(columns), "targets": target_names(y)}

    def _train_members(
        self, data: Data, splits: Splits, seeds: Sequence[int], chosen: dict[str, Any]
    ) -> list[AbstractMethod]:
        jobs = [(data, split, seed, chosen) for split, seed in zip(splits, seeds, strict=True)]
        with self._progress(len(jobs)) as bar:
            if self.n_jobs in (None, 1):
                return [self._member(*job, bar.next_run()) for job in jobs]
            members: list[AbstractMethod] = []
            parallel: Any = Parallel(n_jobs=self.n_jobs, return_as="generator" if self.verbose else "list")
            for member in parallel(delayed(self._member)(*job) for job in jobs):
                members.append(member)
                bar.next_run().finish_run()
            return members

    def _training(self, rows: int) -> dict[str, Any]:
        if issubclass(METHODS[self.method], NSACMethod):
            return training_fields(rows, self.effort)
        return mixture_training(rows)

    def _state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        facts = {"columns": self.columns_.to_dict(), "named": hasattr(self, "feature_names_in_"), "axes": self._axes}
        facts |= {"data": self.data_, "chosen": self.chosen_, "link": self.link_.to_dict()}
        facts |= {"stacked": self.components_ is not None}
        arrays = {"x.centre": self.columns_.centre, "x.scale": self.columns_.scale}
        arrays |= {"y.centre": self.centre_, "y.scale": self.scale_}
        tensors = self.imputer_.to_tensors() | {name: torch.as_tensor(array) for name, array in arrays.items()}
        if self.components_ is not None:
            tensors |= {f"{COMPONENTS}{name}": each for name, each in self.components_.to_tensors().items()}
        if self.patterns_ is not None:
            tensors |= {f"{PATTERNS}{name}": each for name, each in self.patterns_.to_tensors().items()}
        return facts, tensors

    def _load_state(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        problem = self.problem_
        facts = {"link": Link("identity").to_dict(), "stacked": False} | facts  # older folders have neither
        tensors, others = _split_prefix(tensors, COMPONENTS)
        tensors, patterns = _split_prefix(tensors, PATTERNS)
        self.link_ = Link.from_dict(facts["link"])
        self.components_ = Components.from_tensors(others, problem) if facts["stacked"] else None
        width, classes = problem.input_dim + len(problem.categories), self.calibration_.classes
        self.patterns_ = MissingPatterns.from_tensors(patterns, width) if patterns else None
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
            "the number of tensors": len(tensors) == 4 + len(self.imputer_.to_tensors())
            and bool(others) == facts["stacked"],
            "the shape of y": self._axes == 2 or (self._axes == 1 and outputs == (1,)),
            "categories": problem.categories == tuple(len(each) for each in self.columns_.categories.values()),
            "numeric columns": len(self.columns_.centre) == problem.input_dim,
            "the scale of x": bool(np.isfinite(self.columns_.centre).all() and (self.columns_.scale > 0).all()),
            "the shape of the scale": self.centre_.shape == self.scale_.shape == outputs,
            "the scale of y": bool(np.isfinite(self.centre_).all() and (self.scale_ > 0).all()),
            "target names": not self.data_.get("targets") or len(self.data_["targets"]) == problem.output_dim,
            "missing values": problem.missing == bool(self.imputer_.learned["x"].any()),
            "patterns of missing values": (0 if classes is None else int(classes.max()) + 1)
            == (0 if self.patterns_ is None else self.patterns_.n_classes),
        }
        for name, fits in rules.items():
            if not fits:
                raise ValueError(f"`own` does not fit the problem: {name}.")


def _split_prefix(tensors: dict[str, Tensor], prefix: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Tensors whose names have not, and have, this prefix; the latter without it."""
    others = {name: each for name, each in tensors.items() if not name.startswith(prefix)}
    return others, {name.removeprefix(prefix): each for name, each in tensors.items() if name not in others}
