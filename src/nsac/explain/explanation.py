"""`nsac.explain`: the numbers behind the predictions of some rows."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from nsac._checks import check_probability
from nsac.estimators.base import AbstractEstimator
from nsac.estimators.forecaster import NSACForecaster
from nsac.estimators.regressor import NSACRegressor
from nsac.explain.attribution import MAX_PATHS, series_attributions, spread_leads, table_attributions
from nsac.explain.circuit import ExplainError, Trace
from nsac.explain.importance import importances
from nsac.explain.series import FORECAST_TIME, AbstractSeriesSubject, WindowSubject
from nsac.explain.subjects import QUANTITIES, AbstractSubject, Predicted, TableSubject, check_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Explanation:
    """What `nsac.explain` returns: predictions, attributions, and the traced circuits of the networks.

    Attributions and `base` add up to the prediction: for each quantity
    `base[q] + attributions[q].sum(1)` is the prediction, in the unit of the target (squared for variances).
    """

    subject: AbstractSubject = field(repr=False)
    prediction: Predicted  # (n, outputs) each: mean, aleatoric and epistemic variance, lower and upper
    coverage: float  # of the interval
    explained: list[int]  # outputs that have attributions: all targets of a table, some lead times of a series
    base: dict[str, np.ndarray]  # quantity -> (n, explained outputs), prediction of the baseline
    attributions: dict[str, np.ndarray] = field(repr=False)  # quantity -> (n, features, explained outputs)
    observations: list[dict[str, np.ndarray]] = field(repr=False)
    """of a series, one per row: quantity -> (steps, channels, explained outputs); the attribution of each value"""
    residual: float  # largest share of an attribution that had to be shared out so that the sum is exact; 0 for tables

    @property
    def features(self) -> list[str]:
        """Columns of a table, or channels of a series and the time of the forecast."""
        return self.subject.features

    @property
    def outputs(self) -> list[str]:
        """Targets of a table, or lead times of a series."""
        return self.subject.outputs

    @property
    def rows(self) -> list[str]:
        """Names of the rows: the index of a frame, or series and time of the forecast origin."""
        return self.subject.labels

    @property
    def keys(self) -> list[str]:
        """Names of the keys that `Trace.index` counts."""
        return self.subject.keys

    @cached_property
    def traces(self) -> list[Trace]:
        """Potentials, gates, logits and attention weights of each network, with the standard deviation of weights."""
        return self.subject.traces()

    @cached_property
    def shares(self) -> dict[str, np.ndarray]:
        """Weight, (outputs,), of the networks and of the other models in the mean. The circuit is in the networks."""
        return self.subject.shares()

    def to_frame(self) -> pd.DataFrame:
        """One line per row, output and feature: its attributions to the mean and to both variances."""
        names = [self.outputs[i] for i in self.explained]
        rows = [
            {"row": row, "output": name, "feature": feature}
            | {quantity: self.attributions[quantity][i, j, k] for quantity in QUANTITIES}
            for i, row in enumerate(self.rows)
            for k, name in enumerate(names)
            for j, feature in enumerate(self.features)
        ]
        return pd.DataFrame(rows)

    def attention(self) -> pd.DataFrame:
        """Mean attention weight of each key over heads and networks, and its standard deviation, for each row.

        The variance is that of the weights over the draws of the noise, plus that of the networks about their mean.
        """
        found = [trace.by_key(len(self.keys)) for trace in self.traces]
        weights = np.stack([weight for weight, _ in found]).mean(2)  # members n keys, averaged over queries
        stds = np.stack([std for _, std in found]).mean(2)
        total = np.sqrt(np.square(stds).mean(0) + weights.var(0))
        table = {"row": np.repeat(self.rows, len(self.keys)), "key": self.keys * len(self.rows)}
        return pd.DataFrame(table | {"weight": weights.mean(0).ravel(), "std": total.ravel()})

    def leave_one_out(self, row: int = 0) -> pd.DataFrame:
        """The prediction of one row without each of its values: exact, as the model runs again without it.

        Returns:
            One line per feature of a table, or per observation of a series: its value, mean and standard deviation
            without it, and `width_ratio`, the width of the interval without it over that with it: 1.4 means that
            without this measurement the interval is 40 % wider. Of a series averages over all lead times.
        """
        (row,) = check_rows([row], len(self.rows))
        subject = self.subject
        if isinstance(subject, AbstractSeriesSubject):
            observed = subject.observations(row)
            names = [(subject.channels[each.channel], each.time, each.value) for each in observed]
            without = subject.predict(subject.without(row, observed), self.coverage)
            table = pd.DataFrame(names, columns=["channel", "time", "value"])
            return table.assign(**self._compare(row, without, slice(None)))
        assert isinstance(subject, TableSubject)
        lines = []
        for j, name in enumerate(self.features):
            inputs = {key: each[row : row + 1] for key, each in subject.without(j).items()}
            without = subject.predict(inputs, self.coverage)
            for k, output in enumerate(self.outputs):
                changed = self._compare(row, without, k)
                lines.append({"feature": name, "output": output} | {n: float(v[0]) for n, v in changed.items()})
        return pd.DataFrame(lines)

    def _compare(self, row: int, without: Predicted, output: Any) -> dict[str, np.ndarray]:
        p = self.prediction
        width = np.atleast_1d((p.upper - p.lower)[row][output]).mean()
        columns = {name: getattr(without, name).reshape(len(without.mean), -1) for name in ("mean", "std")}
        picked = {name: each[:, output].reshape(len(each), -1).mean(1) for name, each in columns.items()}
        widths = (without.upper - without.lower)[:, output].reshape(len(without.mean), -1).mean(1)
        before = np.atleast_1d(p.mean[row][output]).mean()
        return picked | {"change": picked["mean"] - before, "width_ratio": widths / width}

    def importances(self, num_repeats: int = 5, max_rows: int = 200, random_state: int = 0) -> pd.DataFrame:
        """How much predictions depend on each feature over at most `max_rows` rows, see `nsac.explain.importance`."""
        return importances(self.subject, num_repeats, max_rows, np.random.default_rng(random_state))

    def plot(self, row: int = 0) -> "Figure":
        """Attributions of one row to the mean and both variances, and its attention, as a matplotlib figure."""
        from nsac.explain.figure import draw

        (row,) = check_rows([row], len(self.rows))
        return draw(self, row)

    def save(self, path: str | os.PathLike) -> None:
        """Write an interactive page, one HTML file that needs no other and no network."""
        from nsac._io import write_atomic
        from nsac.explain.page import page

        write_atomic(path, page(self).encode())


def explain(
    model: AbstractEstimator,
    rows: Any,
    *,
    origins: Sequence[int] | None = None,
    coverage: float = 0.9,
    random_state: int = 0,
) -> Explanation:
    """Explain predictions: attributions, the model's circuits, and what changes without a value.

    Args:
        model: a fitted `NSACRegressor` or `NSACForecaster` whose method has a circuit.
        rows: rows to explain, as for `predict`: an array or frame of a table, or the frame of a series.
        origins: of a series, numbers of the rows to forecast from; by default the last row of each series.
        coverage: of the prediction intervals.
        random_state: fixes the orders of features that attributions of a table are sampled with.

    Returns:
        The numbers, with `plot` for a figure and `save` for a page.
    """
    check_probability("coverage", coverage)
    if not isinstance(model, NSACRegressor | NSACForecaster):
        raise ExplainError(
            "`model` must be a fitted NSACRegressor or NSACForecaster. "
            f"Got {type(model).__name__} instead. For a layer call its `trace`."
        )
    check_is_fitted(model)
    if isinstance(model, NSACForecaster):
        return _explain_series(WindowSubject(model, rows, origins), coverage)
    if origins is not None:
        raise ExplainError("`origins` must be None for a table. Got row numbers instead. Pass the rows themselves.")
    subject = TableSubject(model, rows)
    predicted = subject.predict(subject.inputs, coverage)
    generator = np.random.default_rng(random_state)
    found, base = table_attributions(subject, predicted.quantities, generator)
    base = np.broadcast_to(base[:, None], predicted.quantities.shape)
    attributions, bases = dict(zip(QUANTITIES, found, strict=True)), dict(zip(QUANTITIES, base, strict=True))
    return Explanation(subject, predicted, coverage, list(range(len(subject.outputs))), bases, attributions, [], 0.0)


def _explain_series(subject: AbstractSeriesSubject, coverage: float) -> Explanation:
    leads = spread_leads(len(subject.outputs))
    baselines = max(1, MAX_PATHS // len(subject))
    found = [series_attributions(subject, row, leads, baselines) for row in range(len(subject))]
    observations, attributions = [], {quantity: [] for quantity in QUANTITIES}
    for values, calendar, *_ in found:
        observations.append({q: values[i].transpose(1, 2, 0) for i, q in enumerate(QUANTITIES)})
        for i, quantity in enumerate(QUANTITIES):
            by_feature = values[i].sum(1).T  # channels leads
            if FORECAST_TIME in subject.features:
                by_feature = np.concatenate([by_feature, calendar[i][None]])
            attributions[quantity].append(by_feature)
    base = {quantity: np.stack([each.base[i] for each in found]) for i, quantity in enumerate(QUANTITIES)}
    joined = {quantity: np.stack(each) for quantity, each in attributions.items()}
    predicted, residual = subject.predict(subject.inputs, coverage), max(each.residual for each in found)
    return Explanation(subject, predicted, coverage, leads, base, joined, observations, residual)
