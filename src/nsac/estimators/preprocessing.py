"""From frames to standardised windows, and from predictions of windows to the unit of the target."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nsac.estimators.new_rows import check_gaps, check_sizes, gap_range, warn_far_training
from nsac.estimators.observations import Observations, SeriesColumns, check_inputs, read_observations
from nsac.estimators.steps import Calendar, TimeAxis, calendar_features, detect_cycles
from nsac.estimators.times import TimeReading, describe_times
from nsac.estimators.windows import Grid, WindowShape, count_between, subsample, to_grid
from nsac.methods import WindowProblem
from nsac.models.windows import interpolate_missing
from nsac.training import WindowData
from nsac.uncertainty import Prediction

MAX_LEVEL, MANY_WINDOWS = 1.5, 20_000
"""Standard deviations from the mean beyond which last values are cut, unless there are many windows. A model of changes
extrapolates badly what it learned of levels: in a new season the level is a new one for months."""
MAX_SCALING_WINDOWS = 4096  # windows from which roughness and amplitudes are estimated, at most
SCALING_CHUNK, CHANGE_CHUNK = 256, 4096  # windows in memory at once


@dataclass(frozen=True)
class SeriesPreprocessor:
    """Turns observations into windows as a fitted forecaster needs them."""

    columns: SeriesColumns
    axis: TimeAxis
    cycles: list[str]  # of the calendar, in use
    irregular: bool  # whether the time between an observation and its slot is an input
    missing: bool  # whether the model knows of missing values; otherwise they are interpolated
    shape: WindowShape
    offset: np.ndarray  # (inputs,), mean in the training split
    scale: np.ndarray  # (inputs,), standard deviation there; 1 for a constant
    roughness: float  # typical root mean square step of the target in a window, in `scale`
    change: np.ndarray  # (horizon + lookback - 1,), root mean square of the change so many steps after a known value
    gaps: tuple[float, float] | None = None  # see `gap_range`, of the training rows; None in older model folders
    with_age: bool = False  # whether the age of the last known value is an input; not in older model folders

    def read(self, frame: pd.DataFrame) -> Observations:
        """Rows of a frame, at their positions on the axis; times must be of the kind that was fitted."""
        observations = read_observations(frame, self.columns)
        fitted, given = describe_times(self.axis.dtype), describe_times(observations.time_dtype)
        if given != fitted:
            raise ValueError(f"Time column {self.columns.time!r} must hold {fitted}, as in `fit`. Got {given} instead.")
        observations = replace(observations, times=self.axis.positions(observations.times))
        if self.gaps is not None:
            check_gaps(observations, self.axis, self.gaps, self.irregular, self.columns.time)
        check_sizes(observations, self.columns.inputs, self.offset, self.scale)
        return replace(observations, times=self.axis.nearest(observations.times))

    def latest(self, observations: Observations) -> WindowData:
        """The window that ends with the last row of each series, in double precision."""
        observations = observations.since(observations.last - (self.shape.lookback - 0.5) * self.axis.step)
        grid = to_grid(observations, self.axis.step, None, to_last=True)
        ends = np.flatnonzero(np.append(np.diff(grid.codes) != 0, True))
        known = count_between(np.isfinite(grid.values[:, 0]), grid.start[ends], ends + 1)
        for series in np.flatnonzero(known == 0):
            whose = "" if self.columns.series is None else f" of series {observations.names[series]!r}"
            raise ValueError(
                f"Column {self.columns.target!r}{whose} must have a value in the last {self.shape.lookback} steps. All "
                "are missing. Pass rows up to a later time, or fit with a longer `lookback`."
            )
        return self.windows(grid, ends, torch.float64)

    def past(self, observations: Observations) -> tuple[Grid, WindowData]:
        """All windows with a known target both in the lookback and in the horizon, in double precision."""
        grid = to_grid(observations, self.axis.step, self.shape.max_gap)
        return grid, self.windows(grid, np.flatnonzero(self.shape.usable(grid)), torch.float64)

    def windows(self, grid: Grid, ends: np.ndarray, dtype: torch.dtype) -> WindowData:
        """Windows that end at these slots."""
        values = (with_offsets(grid, self.irregular) - self.offset) / self.scale
        calendar = calendar_features(self.axis.times(grid.times), self.axis.dtype, self.cycles)
        return WindowData(
            values=torch.as_tensor(values, dtype=dtype),
            ends=torch.from_numpy(ends),
            lookback=self.shape.lookback,
            horizon=self.shape.horizon,
            targets=[0],
            change_std=torch.as_tensor(self.change, dtype=dtype)[:, None],
            calendar=torch.as_tensor(calendar, dtype=dtype) if self.cycles else None,
            season=self.axis.season(self.cycles[0]) if self.cycles else 0,
            bounds=(torch.from_numpy(grid.start), torch.from_numpy(grid.stop)),
            roughness=self.roughness,
            interpolate=not self.missing,
            with_age=self.with_age,
        )

    def in_unit(self, windows: WindowData, *standardised: Tensor) -> list[Tensor]:
        """Values, (..., windows, horizon), in the unit of the target."""
        offset, scale = self._offset_scale(windows)
        return [offset + scale * values for values in standardised]

    def prediction_in_unit(self, windows: WindowData, p: Prediction) -> Prediction:
        """A prediction of these windows in the unit of the target."""
        offset, scale = self._offset_scale(windows)
        return p.affine(scale, offset)

    def last_values(self, windows: WindowData) -> Tensor:
        """Last known value of the target in each window, (windows,), in its unit."""
        return self._offset_scale(windows)[0][:, 0]

    def observed(self, windows: WindowData) -> Tensor:
        """Observed values of the target after each window, (windows, horizon), in its unit; NaN where unknown."""
        return self.offset[0] + self.scale[0] * windows.future(windows.ends)[..., 0]

    def _offset_scale(self, windows: WindowData) -> tuple[Tensor, Tensor]:
        last, scale = windows.offset_and_scale(torch.arange(len(windows)))
        return self.offset[0] + self.scale[0] * last, self.scale[0] * scale

    def to_dict(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values, and arrays, under the names of a model folder."""
        columns = [self.columns.time, self.columns.series, self.columns.target, list(self.columns.covariates)]
        facts = {"columns": columns, "stamps": str(self.axis.dtype), "step": self.axis.step, "cycles": self.cycles}
        facts |= {"irregular": self.irregular, "rough": self.roughness, "gaps": self.gaps}
        reading, calendar = self.columns.reading, self.axis.calendar
        facts |= {"time_format": reading.format, "dayfirst": reading.dayfirst}
        facts["calendar"] = None if calendar is None else [calendar.unit, calendar.day, calendar.time]
        return facts, {"centre": self.offset, "unit": self.scale, "change": self.change}

    @classmethod
    def from_dict(
        cls, facts: dict[str, Any], arrays: dict[str, np.ndarray], shape: WindowShape, problem: WindowProblem
    ) -> "SeriesPreprocessor":
        """From what `to_dict` gave; it must fit the problem of the members."""
        time, series, target, covariates = facts["columns"]
        time_dtype = pd.api.types.pandas_dtype(facts["stamps"])
        reading = TimeReading(
            facts.get("time_format"), facts.get("dayfirst"), numbers=time_dtype == np.dtype(np.float64)
        )
        columns = SeriesColumns(time, series, target, tuple(covariates), reading)
        inputs = len(columns.inputs) + facts["irregular"]
        if (problem.input_dim, problem.output_dim, problem.lookback) != (inputs, shape.horizon, shape.lookback):
            raise ValueError("`columns` do not fit the problem.")
        with_age = problem.calendar_dim > 2 * len(facts["cycles"])
        leads = shape.leads if with_age else shape.horizon
        check_array_shapes(arrays, {"centre": (inputs,), "unit": (inputs,), "change": (leads,)})
        calendar, gaps = facts.get("calendar"), facts.get("gaps")  # absent in older folders
        axis = TimeAxis(time_dtype, facts["step"], None if calendar is None else Calendar(*calendar))
        scaling = arrays["centre"], arrays["unit"], float(facts["rough"]), arrays["change"]
        settings = columns, axis, list(facts["cycles"]), facts["irregular"], problem.missing, shape
        return cls(*settings, *scaling, gaps=None if gaps is None else (gaps[0], gaps[1]), with_age=with_age)


class TrainingSeries(NamedTuple):
    """What a forecaster is fitted to."""

    observations: Observations
    preprocessor: SeriesPreprocessor
    problem: WindowProblem
    windows: WindowData  # in single precision, in order of time
    times: np.ndarray  # (windows,), forecast origins, in steps
    rest: np.ndarray  # numbers of the windows to train on and to validate with
    calibration: WindowData  # the other windows


def prepare(
    frame: pd.DataFrame, columns: SeriesColumns, step: str | float | None, shape: WindowShape
) -> TrainingSeries:
    """Read a frame and fit the preprocessor; its statistics are those of the windows that are not for calibration."""
    observations = read_observations(frame, columns)
    times, codes, time_dtype = observations.times, observations.codes, observations.time_dtype
    axis = TimeAxis.find(step, times, codes, time_dtype)
    if time_dtype == np.dtype(np.float64):
        columns = replace(columns, reading=replace(columns.reading, numbers=True))
    cycles = detect_cycles(times, axis.mean_step)
    observations = replace(observations, times=axis.nearest(axis.positions(times)))
    check_inputs(observations, columns)
    for name, values in zip(columns.inputs, observations.values.T, strict=True):
        warn_far_training(name, values)
    grid = to_grid(observations, axis.step, shape.max_gap)
    shape.check_length(grid, axis.describe())
    ends, missing = shape.select(grid)
    times = ((grid.times - grid.times.min()) / axis.step)[ends]
    ends, times = ends[np.argsort(times, kind="stable")], np.sort(times)
    rest, calibration = shape.calibration_split(times)
    past = grid.times <= grid.times[ends[rest[-1]]]
    offset, scale, roughness, amplitudes = fit_scaling(grid, with_offsets(grid, grid.irregular), past, shape)
    settings = columns, axis, cycles, grid.irregular, missing, shape, offset, scale, roughness
    preprocessor = SeriesPreprocessor(*settings, np.ones(shape.leads), gap_range(observations), with_age=True)
    seen = grid.times <= grid.times[ends[rest[-1]]] + (shape.horizon + 0.5) * axis.step  # not later: for calibration
    far = replace(preprocessor, shape=WindowShape(shape.lookback, shape.leads))
    past_grid = replace(grid, values=np.where(seen[:, None], grid.values, np.nan))
    change = rms_change(far.windows(past_grid, ends, torch.float32), rest)
    preprocessor = replace(preprocessor, change=change)
    windows = preprocessor.windows(grid, ends, torch.float32)
    max_level = MAX_LEVEL if len(ends) <= MANY_WINDOWS else None
    problem = WindowProblem(
        windows.values.shape[1], shape.horizon, lookback=shape.lookback, calendar_dim=2 * len(cycles) + 1,
        missing=missing, amplitudes=tuple(amplitudes.tolist()), max_level=max_level, missing_targets=missing,
    )  # fmt: skip
    held_out = windows.with_ends(windows.ends[torch.from_numpy(calibration)])
    return TrainingSeries(observations, preprocessor, problem, windows, times, rest, held_out)


def fit_scaling(
    grid: Grid, values: np.ndarray, past: np.ndarray, shape: WindowShape
) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    """Offset, scale, roughness, and typical amplitudes of the inputs, from the slots that are `past`, (slots,).

    An amplitude is the root mean square of a window's differences to its last value, in `scale`. `values` are those of
    the grid and further inputs, (slots, inputs).
    """
    known = np.where(np.isnan(values[past]).all(0), 0.0, values[past])  # an input may begin later
    scale = np.where(np.nanmax(known, 0) > np.nanmin(known, 0), np.nanstd(known, 0), 1.0)
    offset = np.nanmean(known, 0)
    ends = subsample(np.flatnonzero(past & shape.usable(grid)), MAX_SCALING_WINDOWS)
    amplitudes, roughness = [], []
    for block in np.array_split(ends, -(-len(ends) // SCALING_CHUNK)):
        back = block[:, None] + np.arange(1 - shape.lookback, 1)
        x = np.where((back < grid.start[block, None])[..., None], np.nan, values[np.maximum(back, 0)])
        x = interpolate_missing(torch.as_tensor((x - offset) / scale))
        amplitudes.append((x - x[:, -1:]).square().mean(1).sqrt())
        roughness.append((x[..., 0].diff(dim=1).square().sum(1) / max(1, shape.lookback - 1)).sqrt())
    return offset, scale, float(_typical(torch.cat(roughness))), _typical(torch.cat(amplitudes)).numpy()


def rms_change(windows: WindowData, rows: np.ndarray) -> np.ndarray:
    """Root mean square of `y` at each lead time, (horizon,), for windows whose `change_std` is 1.

    `nsac.training.typical_change` is the same for complete windows of constant roughness; this one skips missing
    values, and replaces a change of 0 by the mean of the others.
    """
    total = count = torch.zeros(windows.horizon, dtype=torch.float64)
    for chunk in torch.from_numpy(rows).split(CHANGE_CHUNK):
        y = windows.batch(chunk)["y"].double()
        total, count = total + y.square().nansum(0), count + (~y.isnan()).sum(0)
    change = (total / count.clamp(min=1)).sqrt()
    positive = change[change > 0]
    return torch.where(change > 0, change, positive.mean() if len(positive) else 1.0).numpy()


def with_offsets(grid: Grid, irregular: bool) -> np.ndarray:
    """Inputs of a model, (slots, inputs): values of a grid, and the offsets from its slots if it is irregular."""
    return np.column_stack([grid.values, grid.offset]) if irregular else grid.values


def check_array_shapes(arrays: dict[str, np.ndarray], shapes: dict[str, tuple[int, ...]]) -> None:
    """Arrays of a model folder have these shapes; -1 matches any length."""
    for name, shape in shapes.items():
        given = arrays[name].shape
        if len(given) != len(shape) or any(n not in (-1, m) for n, m in zip(shape, given, strict=True)):
            raise ValueError(f"Tensor {name!r} must have shape {shape}. Got {given} instead.")


def _typical(sizes: Tensor) -> Tensor:
    """Median over rows; the root mean square if most are 0, and 1 if all are."""
    median, rms = sizes.median(0).values, sizes.square().mean(0).sqrt()
    typical = torch.where(median > 0, median, rms)
    return torch.where(typical > 0, typical, 1.0)
