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
from nsac.explain.attribution import table_attributions
from nsac.explain.circuit import ExplainError, Trace
from nsac.explain.events import EventSubject
from nsac.explain.gradients import PathIntegral, integrated_gradients
from nsac.explain.importance import importances
from nsac.explain.series import FORECAST_TIME, AbstractSeriesSubject, WindowSubject, spread_leads
from nsac.explain.series_attribution import Attributed, event_attributions, window_attributions
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
    """of a series, one per row: quantity -> (observations, explained outputs), ordered as `subject.observations`"""

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
        mean, std = self._weights
        labels = [self.subject.key_labels(row) for row in range(len(self.rows))]
        known = [len(each) for each in labels]
        table: dict[str, Any] = {"row": np.repeat(self.rows, known), "key": [name for each in labels for name in each]}
        for name, values in (("weight", mean), ("std", std)):
            table[name] = np.concatenate([each[:count] for each, count in zip(values, known, strict=True)])
        return pd.DataFrame(table)

    @cached_property
    def _weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the keys and their standard deviations, (rows, keys) both, over queries, heads and networks."""
        found = [trace.by_key(len(self.keys)) for trace in self.traces]
        weights = np.stack([weight for weight, _ in found]).mean(2)  # members n keys, averaged over queries
        stds = np.stack([std for _, std in found]).mean(2)
        return weights.mean(0), np.sqrt(np.square(stds).mean(0) + weights.var(0))

    def leave_one_out(self, row: int = 0) -> pd.DataFrame:
        """The prediction of one row without each of its values: exact, as the model runs again without it.

        Returns:
            One line per feature of a table, or per observation of a series: its time relative to the forecast origin
            (in steps, or in `subject.unit` if it is irregular) and its value; mean and standard deviation without it,
            and `width_ratio`, the width of the interval without it over that with it: 1.4 means that without this
            measurement the interval is 40 % wider. Of a series averages over all lead times.
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

    def integrated_gradients(self, row: int = 0) -> PathIntegral:
        """Attributions of the values of one window by a path integral, beside the sampled ones; see `PathIntegral`."""
        subject, (row,) = self.subject, check_rows([row], len(self.rows))
        if not isinstance(subject, WindowSubject):
            raise ExplainError(
                "`model` must be a forecaster of a regular grid: a path between two inputs needs numbers and a "
                f"gradient. Got {subject.kind} instead. Use `attributions`, which need none."
            )
        return integrated_gradients(subject, row, self.explained, len(subject.baselines["x"]))

    def at(self, row: int, leads: Sequence[float], target: int = 0) -> pd.DataFrame:
        """Forecasts and cells of one row at any lead times, between observations to come and into a gap.

        Args:
            row: number of the row.
            leads: lead times above 0 and within the horizon, in the unit of `leave_one_out`: that of the time column,
                or of dates `subject.unit`.
            target: number of the target.

        Returns:
            One line per lead time: mean, both variances and the interval; `kappa`, `phi`, `psi` and the mean `logit`
            and standard deviation `sigma` of the logit, averaged over keys by their weights, heads and networks.
        """
        subject, (row,) = self.subject, check_rows([row], len(self.rows))
        if not isinstance(subject, EventSubject):
            raise ExplainError(
                "`model` must have encoding='events' to be queried at any time. Got a table or a regular grid instead, "
                "whose gates do not depend on the query time."
            )
        horizon = subject.maker.horizon / subject.seconds
        wrong = [lead for lead in leads if not 0 < lead <= horizon * (1 + 1e-9)]
        if wrong or not 0 <= target < len(subject.model.targets_):
            raise ExplainError(
                f"`leads` must be above 0 and at most {horizon:g}, the horizon, and `target` a number from 0 to "
                f"{len(subject.model.targets_) - 1}. Got {wrong[0] if wrong else target} instead."
            )
        return subject.curve(row, leads, target, self.coverage)

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
        random_state: fixes the orders in which values are replaced for attributions of tables and of events.

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
    if isinstance(model, NSACForecaster) and model.encoding_ == "events":
        return _explain_series(EventSubject(model, rows, origins), coverage, random_state)
    if isinstance(model, NSACForecaster):
        return _explain_series(WindowSubject(model, rows, origins), coverage, random_state)
    if origins is not None:
        raise ExplainError("`origins` must be None for a table. Got row numbers instead. Pass the rows themselves.")
    subject = TableSubject(model, rows)
    predicted = subject.predict(subject.inputs, coverage)
    generator = np.random.default_rng(random_state)
    found, base = table_attributions(subject, predicted.quantities, generator)
    base = np.broadcast_to(base[:, None], predicted.quantities.shape)
    attributions, bases = dict(zip(QUANTITIES, found, strict=True)), dict(zip(QUANTITIES, base, strict=True))
    return Explanation(subject, predicted, coverage, list(range(len(subject.outputs))), bases, attributions, [])


def _explain_series(subject: WindowSubject | EventSubject, coverage: float, random_state: int) -> Explanation:
    predicted, generator = subject.predict(subject.inputs, coverage), np.random.default_rng(random_state)
    if isinstance(subject, EventSubject):
        leads = subject.explained
        found = event_attributions(subject.asking(leads), predicted.quantities[:, :, leads], generator)
    else:
        leads = spread_leads(len(subject.outputs))
        found = window_attributions(subject, leads, predicted.quantities[:, :, leads], generator)
    observations = [dict(zip(QUANTITIES, values, strict=True)) for values in found.values]
    bases = dict(zip(QUANTITIES, found.base, strict=True))
    return Explanation(subject, predicted, coverage, leads, bases, _by_feature(subject, found), observations)


def _by_feature(subject: AbstractSeriesSubject, found: Attributed) -> dict[str, np.ndarray]:
    """Attributions of channels, and of the calendar if it is a feature: quantity -> (n, features, outputs)."""
    total = np.zeros((len(QUANTITIES), len(subject), len(subject.features), found.base.shape[2]))
    for row, values in enumerate(found.values):
        for i, observation in enumerate(subject.observations(row)):
            total[:, row, observation.channel] += values[:, i]
    if FORECAST_TIME in subject.features:
        total[:, :, -1] = found.calendar
    return dict(zip(QUANTITIES, total, strict=True))
