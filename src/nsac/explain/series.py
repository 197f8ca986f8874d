"""Windows of a series as inputs to explain: observations, each of a channel at a time, and a forecaster's predictions.

What the rest of the package needs from any series is an `AbstractSeriesSubject`: a list of observations, and the
predictions without some of them. `nsac.explain.events` is the one of irregular series.
"""

import copy
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nsac._torch import single_threaded
from nsac.estimators.base import PREDICTION_BATCH, join, mixture
from nsac.estimators.forecaster import NSACForecaster
from nsac.estimators.observations import number_series
from nsac.estimators.outages import stretch
from nsac.estimators.times import read_times
from nsac.estimators.windows import subsample
from nsac.explain.circuit import ExplainError, find_network, key_names
from nsac.explain.subjects import AbstractSubject, Predicted, check_rows, split_rows
from nsac.models.encoder import Batch
from nsac.models.windows import interpolate_missing
from nsac.training.windows import last_and_unit, steps_since_known
from nsac.uncertainty import Prediction

MAX_CANDIDATES, MAX_BASELINES = 48, 4  # windows of the frame that may be baselines, and that are
TREES = 2  # place of the trees among the models of a forecaster
FORECAST_TIME = "time of the forecast"  # name of the calendar as a feature
CHUNK_WINDOWS = 256  # windows predicted at a time: the draws of all lead times stay in cache
MAX_LEADS = 3  # lead times of a series that have attributions of their own


class Observation(NamedTuple):
    """One observed value."""

    channel: int  # position in `features`
    time: float  # relative to the forecast origin, at most 0; in `AbstractSeriesSubject.unit`
    value: float  # in its own unit
    place: tuple[int, ...]  # where it is in a row of `inputs["x"]`


class AbstractSeriesSubject(AbstractSubject):
    """A series up to several forecast origins."""

    channels: list[str]  # the features that are observed
    unit: str  # of the times of observations

    @abstractmethod
    def observations(self, row: int) -> list[Observation]:
        """All observed values that a row has, by channel and time."""

    @abstractmethod
    def without(self, row: int, observations: Sequence[Observation]) -> Batch:
        """The row once per observation, each time without that one."""


class WindowSubject(AbstractSeriesSubject):
    """Windows of regular steps, as `NSACForecaster` reads them.

    Args:
        model: fitted.
        frame: rows as for `predict`.
        origins: row numbers of the frame to forecast from; the last row of each series by default.
    """

    kind: ClassVar[str] = "series"
    model: NSACForecaster

    def __init__(self, model: NSACForecaster, frame: pd.DataFrame, origins: Sequence[int] | None = None):
        find_network(model.members_[0])
        self.model, fitted = model, model.preprocessor_
        observations = fitted.read(frame)
        if origins is None:
            places = np.append(np.flatnonzero(np.diff(observations.codes)), len(observations.codes) - 1)
        else:
            places = _sorted_places(model, frame, check_rows(origins, len(frame)), len(observations.times))
        self._observed = observations
        self.inputs = self._windows(places)
        names = [observations.names[code] for code in observations.codes[places]]
        self.channels = [*fitted.columns.inputs, *(["offset"] if fitted.irregular else [])]
        self.features = [*self.channels, *([FORECAST_TIME] if fitted.cycles else [])]
        times = fitted.axis.times(observations.times[places])
        self.labels = origin_names(names, times, fitted.axis.calendar is not None)
        self.outputs = [lead_name(h) for h in range(1, model.horizon_ + 1)]
        self.unit = "steps"
        self.keys = key_names(find_network(model.members_[0]), self.channels)
        self.num_samples = model.num_samples

    @cached_property
    def baselines(self) -> Batch:
        """Some windows of the series that are familiar to the model, without missing values."""
        observed = self._observed
        known = np.isfinite(observed.values[:, 0])
        first = np.searchsorted(observed.codes, observed.codes)  # of the series
        complete = known & (np.arange(len(known)) - first >= self.model.lookback_ - 1)
        places = subsample(np.flatnonzero(complete), MAX_CANDIDATES)
        if not len(places):
            return {name: torch.zeros_like(each[:1]) for name, each in self.inputs.items()}
        inputs = self._windows(places)
        inputs["x"] = interpolate_missing(inputs["x"])
        order = np.argsort(self.predict(inputs).epistemic.mean(1), kind="stable")
        chosen = torch.from_numpy(subsample(order[: -(-len(order) // 2)], MAX_BASELINES))
        return {name: each[chosen] for name, each in inputs.items()}

    def _windows(self, places: np.ndarray) -> Batch:
        """The windows that end with these observations."""
        observed, fitted = self._observed, self.model.preprocessor_
        x, calendar = [], []
        for place in places:
            own = slice(int(np.searchsorted(observed.codes, observed.codes[place])), int(place) + 1)
            values, codes = observed.values[own], np.zeros_like(observed.codes[own])
            windows = fitted.latest(replace(observed, times=observed.times[own], codes=codes, values=values))
            windows = copy.copy(windows)
            windows.interpolate = False  # missing values stay missing here
            batch = windows.batch(torch.arange(1))
            x.append(batch["x"])
            calendar.append(batch["calendar"][:, : 2 * len(fitted.cycles)] if fitted.cycles else torch.zeros(1, 0))
        return {"x": torch.cat(x).double(), "calendar": torch.cat(calendar).double()}

    def observations(self, row: int) -> list[Observation]:  # noqa: D102
        x, fitted = self.inputs["x"][row], self.model.preprocessor_
        found = []
        for channel in range(len(self.channels)):
            for step in np.flatnonzero(~torch.isnan(x[:, channel]).numpy()):
                value = float(fitted.offset[channel] + fitted.scale[channel] * x[step, channel])
                found.append(Observation(channel, float(step - len(x) + 1), value, (int(step), channel)))
        return found

    def without(self, row: int, observations: Sequence[Observation]) -> Batch:  # noqa: D102
        inputs = {name: each[[row] * len(observations)].clone() for name, each in self.inputs.items()}
        for i, observation in enumerate(observations):
            inputs["x"][(i, *observation.place)] = torch.nan
        return inputs

    def predict(self, inputs: Batch, coverage: float = 0.9) -> Predicted:  # noqa: D102
        found = []
        for chunk in split_rows(inputs, CHUNK_WINDOWS):
            unknown = chunk["x"][..., 0].isnan().all(1, keepdim=True)  # without any target there is no forecast
            last, unit = self._last_and_unit(chunk)
            draws = self._draws(chunk)
            p = self.model.calibration_.apply(draws).affine(unit, last)
            lower, upper = self.model.calibration_.interval(draws, coverage)
            if self.model.stream_.begun:
                half = torch.as_tensor(self.model.stream_.margin(coverage)) * draws.std
                lower, upper = draws.mean - half, draws.mean + half
            outputs = p.mean, p.aleatoric, p.epistemic, last + unit * lower, last + unit * upper
            found.append([each.masked_fill(unknown, torch.nan).numpy() for each in outputs])
        return Predicted(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def moments(self, inputs: Batch) -> Prediction:
        """Calibrated predictions in the unit of the target, without `steps`; a gradient is kept if one is enabled."""
        last, unit = self._last_and_unit(inputs)
        return self.model.calibration_.apply(self._draws(inputs, with_trees=False)).affine(unit, last)

    def steps(self, inputs: Batch) -> np.ndarray | None:
        """The part of the mean that has no gradient, (n, outputs), in the unit of the target; None if there is none."""
        others = self.model.components_
        if others is None:
            return None
        pairs = others.features.pairs(self._batch(inputs))
        grown = others.trees.predict(pairs.flatten(0, 1).double()).reshape(-1, len(self.outputs))
        return (self._last_and_unit(inputs)[1] * others.weights[TREES] * grown).numpy()

    def model_means(self, inputs: Batch) -> dict[str, np.ndarray]:  # noqa: D102
        batch = self._batch(inputs)
        last, unit = self._last_and_unit(inputs)
        with single_threaded(), torch.no_grad():
            means = [last + unit * member.predict(batch, self.num_samples).mean for member in self.members]
        found = {f"network {i + 1}": mean.numpy() for i, mean in enumerate(means)}
        others = self.model.components_
        if others is not None:
            linear = others.linear_mean(batch, unit / self.model.preprocessor_.scale[0])
            found["linear regression"] = (last + unit * linear).numpy()
            if others.weights[TREES] > 0:
                grown = others.trees.predict(others.features.pairs(batch).flatten(0, 1).double())
                found["trees"] = (last + unit * grown.reshape(unit.shape)).numpy()
        return found

    def shares(self) -> dict[str, np.ndarray]:  # noqa: D102
        others = self.model.components_
        weights = np.ones(1) if others is None else others.weights.numpy()
        names = ("networks", "linear regression", "trees")[: len(weights)]
        return {n: np.full(len(self.outputs), w / weights.sum()) for n, w in zip(names, weights, strict=True)}

    def network_inputs(self) -> Batch:  # noqa: D102
        return self._batch(self.inputs)

    def _batch(self, inputs: Batch) -> Batch:
        """The windows as the members read them."""
        fitted, x = self.model.preprocessor_, inputs["x"]
        known = [inputs["calendar"]] if fitted.cycles else []
        if fitted.with_age:
            known.append(steps_since_known(x[..., :1]).log1p().to(x))
        batch = {"x": x if fitted.missing else interpolate_missing(x)}
        return batch | {"calendar": torch.cat(known, 1)} if known else batch

    def _draws(self, inputs: Batch, with_trees: bool = True) -> Prediction:
        """Draws of all models, standardised, with the standard deviations of an outage."""
        batch, age = self._batch(inputs), steps_since_known(inputs["x"][..., :1])[:, 0]
        if torch.is_grad_enabled() and inputs["x"].requires_grad:
            generators = [torch.Generator().manual_seed(0) for _ in self.members]
            pairs = zip(self.members, generators, strict=True)
            p = join([Prediction(*member.draws(batch, self.num_samples, each)) for member, each in pairs], 0)
        else:
            p = mixture(self.members, split_rows(batch, PREDICTION_BATCH), self.num_samples)
        others = self.model.components_
        if others is not None:
            unit = self._last_and_unit(inputs)[1] / self.model.preprocessor_.scale[0]
            p = others.move(p, batch, unit, others.trees.predict if with_trees else _no_trees)
        return stretch(p, self.model.outage_scale_, age)

    def _last_and_unit(self, inputs: Batch) -> tuple[Tensor, Tensor]:
        """The target is `unit * y + last`, in its unit, (n, horizon) both."""
        fitted = self.model.preprocessor_
        change = torch.as_tensor(fitted.change).double()[:, None]
        last, unit = last_and_unit(inputs["x"][..., :1], change, self.model.horizon_, fitted.roughness)
        return fitted.offset[0] + fitted.scale[0] * last[..., 0], fitted.scale[0] * unit[..., 0]


def spread_leads(horizon: int) -> list[int]:
    """Lead times that have attributions: the first, the middle and the last."""
    return sorted({0, (horizon - 1) // 2, horizon - 1})[:MAX_LEADS]


def origin_names(names: Sequence[Any], times: Any, dated: bool) -> list[str]:
    """Series and time of each forecast origin, for people."""
    dated = dated or not np.issubdtype(np.asarray(times).dtype, np.floating)
    shown = [str(pd.Timestamp(each)) if dated else f"{each:g}" for each in np.asarray(times).tolist()]
    return [time if name is None else f"{name}, {time}" for name, time in zip(names, shown, strict=True)]


def lead_name(steps: int) -> str:
    """Name of a lead time."""
    return f"{steps} step{'s' if steps > 1 else ''} ahead"


def _sorted_places(model: NSACForecaster, frame: pd.DataFrame, rows: Sequence[int], read: int) -> np.ndarray:
    """Where these rows of the frame are among the observations, which are sorted by series and time."""
    if read != len(frame):
        raise ExplainError("`frame` must have no copies of rows if `rows` are given. Drop them first.")
    columns, column = model.columns_, frame[model.columns_.time].reset_index(drop=True)
    times, _ = read_times(column, columns.time, columns.reading)  # pyright: ignore[reportArgumentType]
    places = np.empty(len(frame), dtype=np.int64)
    places[np.lexsort([times, number_series(frame, columns.series)[0]])] = np.arange(len(frame))
    return places[np.asarray(rows)]


def _no_trees(rows: Tensor) -> Tensor:
    return rows.new_zeros(len(rows), 1)
