"""Permutation importance: how much worse predictions are if the values of one column are shuffled."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from nsac._checks import check_int
from nsac.estimators.columns import Columns, target_values
from nsac.estimators.tables import as_frame, check_table

if TYPE_CHECKING:
    from pandas import DataFrame

INTERVAL = (0.05, 0.95)  # quantiles over the repeats: 90 %
SAMPLE_ROWS = 200  # training rows that `feature_importances_` is computed from
MAX_COLUMNS = 50  # columns up to which it is
MAX_ROWS_AT_ONCE = 20_000  # shuffled rows in memory


class ImportanceMixin:
    """Importances of the columns of a fitted regressor."""

    columns_: Columns
    n_features_in_: int
    seeds_: list[int]
    predict: Callable[..., Any]
    _sample: tuple[Any, np.ndarray] | None
    _importances: np.ndarray | None

    def permutation_importances(self, X: Any, y: Any, num_repeats: int = 5, random_state: Any = None) -> "DataFrame":
        """How much the squared error grows, relative to the variance of y, if the values of a column are shuffled.

        This is the loss of the coefficient of determination: 0 if predictions do not depend on the column, and about
        twice the share of the variance that it explains alone. Columns that carry the same information share it. Pass
        rows that were not trained on, to learn what new predictions depend on.

        Args:
            X: (n, features).
            y: (n,) or (n, outputs), not constant; outputs are averaged.
            num_repeats: number of times that each column is shuffled.
            random_state: fixes the permutations.

        Returns:
            One row per column of X, in their order: `feature`, its name or position, `importance`, the mean over the
            repeats, and `lower` and `upper`, between which 90 % of the repeats are.
        """
        from pandas import DataFrame

        check_is_fitted(self)
        check_int("num_repeats", num_repeats)
        table = check_table(self, as_frame(X), reset=False)
        target = target_values(y, type(self).__name__)
        check_consistent_length(table, target)
        target = target.reshape(len(target), -1)
        if not target.var(0).all():
            raise ValueError("`y` must vary to measure importances. Got a constant instead. Pass more rows.")
        grown = self._error_growth(table, target, num_repeats, check_random_state(random_state))
        lower, upper = np.quantile(grown, INTERVAL, axis=0)
        facts = {"feature": list(self.columns_.names), "importance": grown.mean(0), "lower": lower, "upper": upper}
        return DataFrame(facts)

    @property
    def feature_importances_(self) -> np.ndarray:
        """Permutation importances on at most 200 training rows, at least 0, with sum 1; computed when first needed."""
        check_is_fitted(self)
        name, remedy = type(self).__name__, "Call `permutation_importances(X, y)`, which takes any rows."
        if self.n_features_in_ > MAX_COLUMNS:
            problem = f"for up to {MAX_COLUMNS} columns. Got {self.n_features_in_}"
            raise AttributeError(f"{name} has `feature_importances_` {problem}. {remedy}")
        sample = getattr(self, "_sample", None)
        if sample is None:
            raise AttributeError(f"{name} has no `feature_importances_` if loaded from a folder. {remedy}")
        if self._importances is None:
            table, target = sample
            grown = self._error_growth(table, target, 1, np.random.RandomState(self.seeds_[0]))[0].clip(min=0)
            self._importances = grown / grown.sum() if grown.any() else grown
        return np.asarray(self._importances)

    def _keep_sample(self, table: Any, target: np.ndarray) -> None:
        """Keep training rows for `feature_importances_`."""
        self._sample = self._importances = None
        if self.n_features_in_ <= MAX_COLUMNS:
            order = np.random.RandomState(self.seeds_[0]).permutation(len(target))
            rows = np.sort(order[:SAMPLE_ROWS])
            self._sample = (table.iloc[rows] if hasattr(table, "iloc") else table[rows]), target[rows]

    def _error_growth(
        self, table: Any, target: np.ndarray, num_repeats: int, random_state: np.random.RandomState
    ) -> np.ndarray:
        """Growth of the relative squared error, (repeats, features)."""
        n, variance = len(target), target.var(0)
        variance = np.where(variance > 0, variance, 1)

        def error(rows: Any) -> np.ndarray:  # one per repeat
            residual = self.predict(rows).reshape(-1, n, target.shape[1]) - target
            return (np.square(residual).mean(1) / variance).mean(1)

        at_once, growth = max(1, MAX_ROWS_AT_ONCE // n), np.empty((num_repeats, self.n_features_in_))
        unshuffled = error(table)
        for j in range(self.n_features_in_):
            for first in range(0, num_repeats, at_once):
                orders = [random_state.permutation(n) for _ in range(min(at_once, num_repeats - first))]
                growth[first : first + len(orders), j] = error(shuffled(table, j, orders)) - unshuffled
        return growth


def shuffled(table: Any, column: int, orders: list[np.ndarray]) -> Any:
    """One copy of the table per order, below each other; in each, the rows of the column are in this order."""
    rows, order = np.tile(np.arange(len(table)), len(orders)), np.concatenate(orders)
    if not hasattr(table, "iloc"):
        copies = table[rows]
        copies[:, column] = table[order, column]
        return copies
    copies = table.iloc[rows].reset_index(drop=True)
    copies.isetitem(column, table.iloc[order, column].reset_index(drop=True))
    return copies
