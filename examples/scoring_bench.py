"""NSAC as a model of ScoringBench (scoringbench.com), a public leaderboard of distributional regression.

In a clone of ScoringBench, with this folder on the PYTHONPATH, add two lines to scoringbench/univariate/models.py:

    from scoring_bench import NSACWrapper
    MODELS["nsac"] = lambda: NSACWrapper(random_state=0)

and run its `run_bench_regression.py`. Without ScoringBench, this file follows its protocol, cross-validation of at most
3000 rows, on tables of this library, and prints some of its scores. These three are also on the leaderboard:

    python examples/scoring_bench.py concrete energy wine-red
"""

import argparse
import json

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from nsac import NSACRegressor
from nsac.lab.datasets import load_table

try:
    from scoringbench.univariate.wrappers.base import DistributionPrediction, ProbabilisticWrapper
except ImportError:
    DistributionPrediction, ProbabilisticWrapper = None, object

LEVELS = (np.arange(200) + 0.5) / 200
"""Quantile levels that stand for the predictive distribution."""
MAX_ROWS = 3000
"""Rows of a data set, as on the leaderboard; more are sampled."""


class NSACWrapper(ProbabilisticWrapper):
    """A regressor with the interface of ScoringBench; the arguments are those of `NSACRegressor`."""

    def __init__(self, **arguments):
        self.model = NSACRegressor(**arguments)

    def fit(self, X, y):
        """Fit to a frame and its targets."""
        y = np.asarray(y, dtype=float)
        self._y_train_range = float(y.min()), float(y.max())
        self.model.fit(X, y)
        return self

    def predict(self, X):
        """Means, (rows,)."""
        return self.model.predict(X)

    def quantiles(self, X):
        """Means, (rows,), and quantiles at `LEVELS`, (rows, levels), in ascending order."""
        p = self.model.predict_distribution(X)
        quantiles = np.stack([p.quantile(float(level)).numpy() for level in LEVELS], 1)
        return p.mean.numpy(), np.maximum.accumulate(quantiles, 1)

    def predict_distribution(self, X):
        """The distribution as ScoringBench scores it."""
        if DistributionPrediction is None:
            raise ImportError("`predict_distribution` needs ScoringBench. Put a clone of it on the PYTHONPATH.")
        mean, quantiles = self.quantiles(X)
        return DistributionPrediction.from_multi_quantile(quantiles, LEVELS, mean=mean, train_range=self._y_train_range)


def scores(y, mean, quantiles):
    """Scores of quantiles at `LEVELS`; the CRPS is twice the mean quantile loss."""
    error = y[:, None] - quantiles
    crps = 2 * np.maximum(LEVELS * error, (LEVELS - 1) * error).mean()
    lower, upper = (np.array([np.interp(level, LEVELS, row) for row in quantiles]) for level in (0.05, 0.95))
    below, above = np.maximum(lower - y, 0), np.maximum(y - upper, 0)
    return {
        "crps": crps,
        "rmse": np.sqrt(np.mean((y - mean) ** 2)),
        "coverage_90": np.mean((lower <= y) & (y <= upper)),
        "interval_score_90": np.mean(upper - lower + 2 / 0.1 * (below + above)),
    }


def cross_validate(X, y, make_model, folds, seed):
    """Mean scores over the folds of at most `MAX_ROWS` rows."""
    rows = np.random.default_rng(seed).permutation(len(y))[:MAX_ROWS]
    X, y, found = X.iloc[rows], y[rows], []
    for train, test in KFold(folds, shuffle=True, random_state=seed).split(X):
        model = make_model().fit(X.iloc[train], y[train])
        found.append(scores(y[test], *model.quantiles(X.iloc[test])))
    return {name: float(mean) for name, mean in pd.DataFrame(found).mean().items()}


def main(arguments=None):
    """Print one line of JSON per data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", help="tables of `benchmarks/tables.py`, for instance concrete")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="of rows, folds and model")
    parser.add_argument("--effort", default="default", help="fast, default or best")
    given = parser.parse_args(arguments)
    for name in given.names:
        table = load_table(name)
        found = cross_validate(
            table.x, table.y, lambda: NSACWrapper(random_state=given.seed, effort=given.effort), given.folds, given.seed
        )
        print(json.dumps({"data": name, "rows": min(len(table.y), MAX_ROWS), "std": float(table.y.std())} | found))


if __name__ == "__main__":
    main()
