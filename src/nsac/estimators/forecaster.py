"""Forecasts of a series, several steps ahead, from a frame with a time column; irregular and with holes."""
# pyright: reportArgumentType=false
# (the type checker takes rows of a frame for a column, and a comparison of arrays for a single one)

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from nsac._checks import check_int
from nsac.estimators.base import AbstractEstimator
from nsac.estimators.reach import Reach, thinned, typical_change, typical_scales
from nsac.estimators.records import (
    Columns,
    Record,
    find_columns,
    given_step,
    kind_of,
    read_record,
    read_times,
    show_times,
    typical_step,
)
from nsac.estimators.stream import LEVELS, Stream
from nsac.estimators.windows import CYCLES, Grid, Windows, calendar_of, counts_within, cycles_in, to_grid
from nsac.methods import METHODS, WindowProblem
from nsac.uncertainty import Prediction
from nsac.uncertainty.checks import check_probability
from nsac.uncertainty.scores import crps, mae, mse, nll

CHUNK = 8192
"""Windows whose draws are in memory at once."""
JUDGED = 2000
"""Windows of a fold that a backtest scores, at most; thinned out evenly."""


class Forecasts(NamedTuple):
    """Forecasts from many rows of a frame, in the unit of the target."""

    prediction: Prediction  # (rows, horizon), calibrated
    lower: Tensor  # (rows, horizon), ends of the interval
    upper: Tensor
    y: Tensor  # (rows, horizon), what came; NaN where it is not known
    naive: Tensor  # (rows, horizon), the last known value
    times: np.ndarray  # (rows, horizon), of what is predicted: nanoseconds since 1970 in UTC, or numbers
    series: np.ndarray  # (rows,), names


class NSACForecaster(AbstractEstimator):
    """Forecasts with calibrated uncertainty, from a frame with a time column.

    Steps may be irregular and values missing: every row goes to the nearest slot of a regular grid (rows that share one
    are averaged), and empty slots are holes that the model knows of. What is predicted is the change of the target from
    its last known value. Time of day, of week and of year are inputs too, as far as the record shows such a cycle.

    The latest tenth of the windows, at most 2000, calibrates. Of the rest, each of `folds` members trains on all but
    one block of time, its own, which chooses its weights; together they predict as one mixture.

    Args:
        horizon: steps to predict.
        lookback: steps that are looked at.
        target: column to predict.
        time: column of dates, with or without a time zone, or of numbers; ascending within a series.
        series: column that names the series, if there are several. They share one model.
        covariates: columns to look at besides; by default all others that hold numbers. Columns of text are left out.
        step: length of a step, a text such as "15min" for dates or a number; by default the typical gap between rows.
        method: a name in `nsac.METHODS` that takes windows.
        folds: members; 1 trains a single one, and leaves out the latest part to choose its weights.
        training: fields of `nsac.training.TrainConfig` that replace the defaults.
        random_state: fixes everything that is random: a number, None or a `RandomState`.
        verbose: whether to show a bar, on a terminal.

    Attributes:
        members_: the fitted methods.
        calibration_: what corrects their mixture, step by step ahead.
        columns_: columns in use.
        step_: length of a step: nanoseconds, or in the unit of the time column.
        cycles_: cycles of the calendar in use.
    """

    kind: ClassVar[str] = "windows"
    problem_: WindowProblem

    def __init__(
        self,
        horizon: int = 24,
        lookback: int = 48,
        target: str = "y",
        time: str = "date",
        series: str | None = None,
        *,
        covariates: Sequence[str] | None = None,
        step: str | float | None = None,
        method: str = "nsac",
        folds: int = 5,
        training: dict[str, Any] | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.horizon = horizon
        self.lookback = lookback
        self.target = target
        self.time = time
        self.series = series
        self.covariates = covariates
        self.step = step
        self.method = method
        self.folds = folds
        self.training = training
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, frame: pd.DataFrame, y: None = None) -> "NSACForecaster":
        """Fit and calibrate.

        Args:
            frame: rows in order of time; the target is one of its columns.
            y: not used.
        """
        self._check_method()
        for name in ("horizon", "lookback", "folds"):
            check_int(name, getattr(self, name))
        self.columns_ = find_columns(frame, self.time, self.series, self.target, self.covariates)
        record = read_record(frame, self.columns_)
        self.stamps_ = record.stamps
        self.step_ = typical_step(record) if self.step is None else given_step(self.step, record)
        self._check_values(record)
        grid = to_grid(record, self.step_, max(self.lookback, self.horizon))
        reach = self._reach
        reach.check(grid, self._shown_step())
        self.irregular_ = grid.irregular
        self.cycles_ = cycles_in(record.times, self.step_)
        ends, holes = reach.choose(grid)
        when = ((grid.times - grid.times.min()) / self.step_)[ends]
        ends, when = ends[np.argsort(when, kind="stable")], np.sort(when)
        rest, calibration = reach.split(when)
        past = grid.times <= grid.times[ends[rest[-1]]]
        self.centre_, self.unit_, self.rough_, amplitudes = typical_scales(grid, self._inputs(grid), past, reach)
        self.change_ = np.ones(self.horizon)
        windows = self._windows(grid, torch.from_numpy(ends), torch.float32, holes)
        self.change_ = typical_change(windows, rest)
        windows = self._windows(grid, torch.from_numpy(ends), torch.float32, holes)
        problem = WindowProblem(
            windows.values.shape[1], self.horizon, lookback=self.lookback, calendar_dim=2 * len(self.cycles_),
            missing=holes, amplitudes=tuple(amplitudes.tolist()), missing_targets=holes,
        )  # fmt: skip
        random = check_random_state(self.random_state)
        held = windows.at(windows.ends[torch.from_numpy(calibration)])
        parts = reach.parts(rest, when, self.folds)
        self._learn(problem, windows, held, parts, int(random.randint(2**31 - 1)))
        self.stream_ = Stream(self._errors(held))
        self.origin_ = record.times.min()
        self.seen_ = {_key(name): last for name, last in zip(record.names, record.last, strict=True)}
        return self

    def predict(self, frame: pd.DataFrame, at: Any = None, coverage: float = 0.9) -> pd.DataFrame:
        """Forecast the steps after the last row of each series.

        Args:
            frame: at least the latest rows, `lookback` steps if possible; earlier ones do not matter.
            at: times to forecast instead, after the last row and within the horizon. Between steps forecasts are
                interpolated, from the last known value on.
            coverage: of the interval; 0.9 makes the columns `lower_90` and `upper_90`.

        Returns:
            One row per step (and series): the time, the series, `mean`, `std`, `aleatoric` and `epistemic` variance
            (std^2 is their sum), and the ends of the interval.
        """
        check_probability("coverage", coverage)
        record, windows, p = self._latest(frame)
        lower, upper = self._interval(windows, p, coverage)
        p = self._in_unit(windows, torch.arange(len(windows)), self.calibration_.apply(p))
        last = record.last
        mean, std = p.mean_draws, p.log_std_draws.exp()
        ahead = np.arange(1, self.horizon + 1)
        times = last[:, None] + (ahead * self.step_)[None]
        if at is not None:
            times, lead = self._leads(at, last)
            start = torch.as_tensor(self._last_known(windows))
            zero = torch.zeros_like(start)
            mean, std = (_interpolate(v, z, lead) for v, z in ((mean, start), (std, zero)))
            lower, upper = (_interpolate(v, start, lead) for v in (lower, upper))
        p = Prediction(mean, std.log())
        percent = f"{100 * coverage:g}"
        table: dict[str, Any] = {self.columns_.time: show_times(times.ravel(), record.stamps)}
        if self.columns_.series is not None:
            table[self.columns_.series] = np.repeat(np.array(record.names, dtype=object), times.shape[1])
        numbers = {"mean": p.mean, "std": p.std, "aleatoric": p.aleatoric, "epistemic": p.epistemic}
        numbers |= {f"lower_{percent}": lower, f"upper_{percent}": upper}
        return pd.DataFrame(table | {name: value.flatten().numpy() for name, value in numbers.items()})

    def predict_interval(self, frame: pd.DataFrame, coverage: float = 0.9) -> np.ndarray:
        """Lower and upper ends of the steps after the last row of each series, (series, 2, horizon)."""
        check_probability("coverage", coverage)
        _, windows, p = self._latest(frame)
        return torch.stack(self._interval(windows, p, coverage), 1).numpy()

    def predict_quantiles(
        self, frame: pd.DataFrame, quantiles: float | Sequence[float] = (0.1, 0.5, 0.9)
    ) -> np.ndarray:
        """Quantiles of the calibrated mixture, (series, quantiles, horizon)."""
        levels = np.atleast_1d(quantiles).tolist()
        return self.predict_distribution(frame).quantile(levels).movedim(0, 1).numpy()

    def predict_distribution(self, frame: pd.DataFrame) -> Prediction:
        """The calibrated mixture in the unit of the target, (series, horizon)."""
        _, windows, p = self._latest(frame)
        return self._in_unit(windows, torch.arange(len(windows)), self.calibration_.apply(p))

    def forecasts(
        self, frame: pd.DataFrame, since: Any = None, coverage: float = 0.9, most: int | None = None
    ) -> Forecasts:
        """What would have been forecast at every row of a frame, beside what came; no adaptive margins.

        Args:
            frame: rows in order of time.
            since: time; only forecasts whose steps are all from then on.
            coverage: of the interval.
            most: so many rows at most, evenly thinned out.
        """
        record = self._read(frame)
        grid, windows = self._judgeable(record)
        if since is not None:
            first = read_times(pd.Series([since]), self.columns_.time)[0][0]
            windows = windows.at(windows.ends[torch.from_numpy(grid.times[windows.ends] + self.step_ >= first)])
        if most is not None:
            windows = windows.at(windows.ends[torch.from_numpy(thinned(np.arange(len(windows)), most))])
        if not len(windows):
            raise ValueError(
                f"`frame` must hold a row with a known {self.target!r} in the {self.lookback} steps up to it and in "
                f"the {self.horizon} steps after it. Got none in {len(frame)} rows."
            )
        p = self._draws(windows)
        lower, upper = self._band(windows, *self.calibration_.interval(p, coverage))
        rows = torch.arange(len(windows))
        p = self._in_unit(windows, rows, self.calibration_.apply(p))
        times = grid.times[windows.ends][:, None] + np.arange(1, self.horizon + 1) * self.step_
        shift, scale = (torch.as_tensor(v[0]) for v in (self.centre_, self.unit_))
        y = shift + scale * windows.goals(windows.ends)
        naive = torch.as_tensor(self._last_known(windows))[:, None].expand_as(y)
        names = np.array(record.names, dtype=object)[grid.codes[windows.ends]]
        return Forecasts(p, lower, upper, y, naive, times, names)

    def update(self, frame: pd.DataFrame) -> "NSACForecaster":
        """Adapt the intervals to what came since the last call, or since `fit`.

        Every forecast that could have been made in the frame and has come due since is judged, in order of time: after
        misses intervals of `predict` become wider, after hits narrower, each step ahead by itself, so that in the long
        run the share of misses is what was asked for. Means and variances stay what they are.

        Args:
            frame: the new rows, and before them `lookback + horizon` steps of the rows that were there already. More
                does no harm: no forecast is judged twice.
        """
        steps, scores, record = self._due(frame)
        self.stream_.update(steps, scores)
        self._remember(record)
        return self

    def track(self, frame: pd.DataFrame) -> pd.DataFrame:
        """`update`, and how the adaptive intervals of each step ahead did on what was judged.

        Returns:
            One row per step ahead: `step`, `judged` (how many), and `coverage_50`, ..., the share inside.
        """
        steps, scores, record = self._due(frame)
        margins = self.stream_.update(steps, scores)
        self._remember(record)
        known = ~np.isnan(scores)
        inside = ((scores[:, None] <= margins) & known[:, None]).sum(0) / np.maximum(known.sum(0), 1)
        table = {"step": np.arange(1, self.horizon + 1), "judged": known.sum(0)}
        return pd.DataFrame(table | {f"coverage_{100 * c:g}": inside[i] for i, c in enumerate(LEVELS)})

    def backtest(self, frame: pd.DataFrame, folds: int = 5) -> pd.DataFrame:
        """Fit on the past and score what follows, several times, beside naive forecasts.

        The record is cut into `folds + 1` blocks of as many rows; fold k fits the first k and scores forecasts of block
        k + 1. This estimator stays what it is.

        Returns:
            One row per fold and method: `mse`, `mae`, `crps`, `nll`, `coverage_90` and `width_90` in the unit of the
            target, over all steps ahead.
        """
        check_int("folds", folds)
        columns = find_columns(frame, self.time, self.series, self.target, self.covariates)
        times = read_record(frame, columns).times
        edges = np.sort(times)[np.arange(1, folds + 1) * len(times) // (folds + 1)]
        stamps = read_times(pd.Series(frame.reset_index()[self.time]), self.time)[0]
        rows = []
        for k, first in enumerate(edges):
            stop = edges[k + 1] if k + 1 < folds else np.inf
            past = frame[stamps < first]
            fitted: NSACForecaster = clone(self)  # pyright: ignore[reportAssignmentType]
            fitted.fit(past)
            made = fitted._between(frame[stamps < stop], first)
            known = ~made.y.isnan()
            y = made.y[known]
            own = _scores(made.prediction[known], made.lower[known], made.upper[known], y)
            rows.append({"fold": k + 1, "method": self.method, "forecasts": int(known.sum()), **own})
            for name, p in fitted._naive(past, frame[stamps < stop], first).items():
                lower, upper = p[known].interval(0.9)
                naive = _scores(p[known], lower, upper, y)
                rows.append({"fold": k + 1, "method": name, "forecasts": int(known.sum()), **naive})
        return pd.DataFrame(rows)

    def _between(self, frame: pd.DataFrame, first: Any) -> Forecasts:
        return self.forecasts(frame, since=show_times(np.array([first]), self.stamps_)[0], most=JUDGED)

    def _naive(self, past: pd.DataFrame, frame: pd.DataFrame, first: Any) -> dict[str, Prediction]:
        """Persistence, and where there is a day the season, with the deviations they have in the past."""
        grid, windows = self._judgeable(self._read(frame))
        kept = np.flatnonzero(grid.times[windows.ends] + self.step_ >= first)
        windows = windows.at(windows.ends[torch.from_numpy(thinned(kept, JUDGED))])
        _, old = self._judgeable(self._read(past))
        batch = windows.batch(torch.arange(len(windows)))
        found = {}
        for name in ("persistence", "seasonal"):
            if name in batch:
                with_holes = replace(self.problem_, missing_targets=True)
                method = METHODS[name](with_holes).double()
                method.solve(old, old)  # pyright: ignore[reportCallIssue]
                found[name] = self._in_unit(windows, torch.arange(len(windows)), method.predict(batch))
        return found

    def _read(self, frame: pd.DataFrame) -> Record:
        check_is_fitted(self)
        record = read_record(frame, self.columns_)
        if kind_of(record.stamps) != kind_of(self.stamps_):
            raise ValueError(
                f"Time column {self.columns_.time!r} must hold {kind_of(self.stamps_)}, as in `fit`. Got "
                f"{kind_of(record.stamps)} instead."
            )
        return record

    def _latest(self, frame: pd.DataFrame) -> tuple[Record, Windows, Prediction]:
        """The window that ends with the last row of each series, and its prediction as the members make it."""
        record = self._read(frame)
        record = record.since(record.last - (self.lookback - 0.5) * self.step_)
        grid = to_grid(record, self.step_, None, to_last=True)
        ends = np.flatnonzero(np.append(np.diff(grid.codes) != 0, True))
        known = counts_within(np.isfinite(grid.values[:, 0]), grid.start[ends], ends + 1)
        for which in np.flatnonzero(known == 0):
            whose = "" if self.columns_.series is None else f" of series {record.names[which]!r}"
            raise ValueError(
                f"Column {self.columns_.target!r}{whose} must have a value in the last {self.lookback} steps. All are "
                "missing. Pass rows up to a later time, or fit with a longer `lookback`."
            )
        windows = self._windows(grid, torch.from_numpy(ends), torch.float64, self.problem_.missing)
        return record, windows, self._draws(windows)

    @property
    def _reach(self) -> Reach:
        return Reach(self.lookback, self.horizon)

    def _inputs(self, grid: Grid) -> np.ndarray:
        return np.column_stack([grid.values, grid.offset]) if self.irregular_ else grid.values

    def _windows(self, grid: Grid, ends: Tensor, dtype: torch.dtype, holes: bool) -> Windows:
        values = (self._inputs(grid) - self.centre_) / self.unit_
        season = round(CYCLES["day"] / self.step_) if "day" in self.cycles_ else 0
        return Windows(
            torch.as_tensor(values, dtype=dtype), torch.from_numpy(grid.start), torch.from_numpy(grid.stop),
            torch.as_tensor(calendar_of(grid.times, self.stamps_, self.cycles_), dtype=dtype), ends, self.lookback,
            torch.as_tensor(self.change_, dtype=dtype), self.rough_, season, not holes,
        )  # fmt: skip

    def _judgeable(self, record: Record) -> tuple[Grid, Windows]:
        """All windows with a known target both before and after their end, in double precision."""
        grid = to_grid(record, self.step_, max(self.lookback, self.horizon))
        ends = np.flatnonzero(self._reach.usable(grid))
        return grid, self._windows(grid, torch.from_numpy(ends), torch.float64, self.problem_.missing)

    def _check_values(self, record: Record) -> None:
        for i, name in enumerate(self.columns_.inputs):
            column = record.values[:, i]
            if np.isnan(column).all():
                raise ValueError(f"Column {name!r} must have a value in at least one row. All are missing.")
            if i == 0 and np.nanmax(column) == np.nanmin(column):
                raise ValueError(f"Target column {name!r} must vary. It is {np.nanmax(column):g} in every row.")

    def _shown_step(self) -> str:
        return str(pd.Timedelta(self.step_)) if isinstance(self.step_, int) else f"{self.step_:g}"

    def _interval(self, windows: Windows, p: Prediction, coverage: float) -> tuple[Tensor, Tensor]:
        """In the unit of the target; adaptive once there was an update."""
        if not self.stream_.begun:
            return self._band(windows, *self.calibration_.interval(p, coverage))
        half = torch.as_tensor(self.stream_.margin(coverage)) * p.std
        return self._band(windows, p.mean - half, p.mean + half)

    def _band(self, windows: Windows, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        shift, scale = self._level(windows, torch.arange(len(windows)))
        return shift + scale * lower, shift + scale * upper

    def _level(self, windows: Windows, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Shift and scale, (B, horizon), from the unit of `y` to that of the target."""
        last, scale = windows.level(rows)
        return self.centre_[0] + self.unit_[0] * last, self.unit_[0] * scale

    def _last_known(self, windows: Windows) -> np.ndarray:
        return self.centre_[0] + self.unit_[0] * windows.last[windows.ends].double().numpy()

    def _in_unit(self, windows: Windows, rows: Tensor, p: Prediction) -> Prediction:
        shift, scale = self._level(windows, rows)
        return Prediction(shift + scale * p.mean_draws, p.log_std_draws + scale.log())

    def _errors(self, windows: Windows) -> np.ndarray:
        """Errors in predicted deviations, before calibration, (rows, horizon); NaN where nothing was observed."""
        scores = [np.empty((0, self.horizon))]
        for ends in windows.ends.split(CHUNK):
            some = windows.at(ends)
            p, y = self._draws(some), some.batch(torch.arange(len(ends)))["y"].double()
            scores.append(((y - p.mean).abs() / p.std).numpy())
        return np.concatenate(scores)

    def _due(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, Record]:
        """Scores of the forecasts that came due after what was seen: steps of time, and (rows, horizon)."""
        record = self._read(frame)
        lowest = record.times.min() - self.step_
        seen = np.array([self.seen_.get(_key(name), lowest) for name in record.names])
        reach = (self.lookback + self.horizon + 1) * self.step_
        grid, windows = self._judgeable(record.since(seen - reach))
        scores = np.full((len(grid.times), self.horizon), np.nan)
        if len(windows):
            ends = windows.ends.numpy()
            z = self._errors(windows)
            for h in range(self.horizon):
                due = ends + h + 1 < grid.stop[ends]
                scores[ends[due] + h + 1, h] = z[due, h]
        fresh = grid.times > seen[grid.codes] + self.step_ / 4
        kept = np.flatnonzero(fresh & ~np.isnan(scores).all(1))
        steps = np.rint((grid.times[kept] - self.origin_) / self.step_).astype(np.int64)
        order = np.argsort(steps, kind="stable")
        return steps[order], scores[kept[order]], record

    def _remember(self, record: Record) -> None:
        for name, last in zip(record.names, record.last, strict=True):
            self.seen_[_key(name)] = max(last, self.seen_.get(_key(name), last))

    def _leads(self, at: Any, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Times, (series, times), and how many steps after the last row they are."""
        stamps = pd.Series(at if isinstance(at, (pd.Series, pd.Index, np.ndarray, list, tuple)) else [at])
        times, kind = read_times(stamps.reset_index(drop=True), "at")
        if kind_of(kind) != kind_of(self.stamps_):
            raise ValueError(f"`at` must be {kind_of(self.stamps_)}, as the time column. Got {kind_of(kind)} instead.")
        times = np.broadcast_to(times, (len(last), len(times)))
        lead = (times - last[:, None]) / self.step_
        bad = (lead <= 0) | (lead > self.horizon + 1e-9)
        if bad.any():
            series, which = np.argwhere(bad)[0]
            ends = show_times(last[series] + np.array([0, self.horizon]) * self.step_, self.stamps_)
            raise ValueError(
                f"`at` must be after {ends[0]}, the last row, and no later than {ends[1]}, {self.horizon} steps of "
                f"{self._shown_step()} after it. Got {stamps.iloc[which]} instead. Fit with a longer `horizon`, or "
                "pass a frame that ends elsewhere."
            )
        return times, lead

    def _training(self, rows: int) -> dict[str, Any]:
        return {
            "max_steps": int(min(300 + rows // 2, 2000)), "batch_size": int(min(128, rows)), "learning_rate": 2e-3,
            "weight_decay": 0.5, "validate_every": 150,
        }  # fmt: skip

    def _state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        columns, stream = self.columns_, self.stream_
        facts = {
            "columns": [columns.time, columns.series, columns.target, list(columns.covariates)],
            "stamps": str(self.stamps_), "step": self.step_, "cycles": self.cycles_, "irregular": self.irregular_,
            "seen": list(self.seen_), "begun": stream.begun, "now": stream.now, "rough": self.rough_,
        }  # fmt: skip
        arrays = {"centre": self.centre_, "unit": self.unit_, "change": self.change_}
        arrays |= {"scores": stream.scores, "alpha": stream.alpha, "said": stream.issued}
        arrays |= {"seen": np.array(list(self.seen_.values())), "origin": np.array(self.origin_)}
        return facts, {name: torch.as_tensor(array) for name, array in arrays.items()}

    def _load_state(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        time, series, target, covariates = facts["columns"]
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        self.columns_ = Columns(time, series, target, tuple(covariates))
        self.stamps_ = pd.api.types.pandas_dtype(facts["stamps"])
        self.step_, self.cycles_, self.irregular_ = facts["step"], list(facts["cycles"]), facts["irregular"]
        self.rough_ = float(facts["rough"])
        self.centre_, self.unit_, self.change_ = (arrays[name] for name in ("centre", "unit", "change"))
        self.seen_ = dict(zip(facts["seen"], arrays["seen"], strict=True))
        self.origin_ = arrays["origin"][()]
        self.stream_ = Stream(arrays["scores"], arrays["alpha"], arrays["said"], facts["now"], True)
        self.stream_.begun = facts["begun"]
        inputs = len(self.columns_.inputs) + self.irregular_
        sizes = {"centre": (inputs,), "unit": (inputs,), "change": (self.horizon,), "scores": (-1, self.horizon)}
        sizes |= {"alpha": (len(LEVELS), self.horizon), "said": (self.horizon + 1, len(LEVELS), self.horizon)}
        for name, size in sizes.items():
            shape = tensors[name].shape
            if len(shape) != len(size) or any(n not in (-1, m) for n, m in zip(size, shape, strict=True)):
                raise ValueError(f"Tensor {name!r} must have shape {size}. Got {tuple(shape)} instead.")
        problem = self.problem_
        if (problem.input_dim, problem.output_dim, problem.lookback) != (inputs, self.horizon, self.lookback):
            raise ValueError("`columns` do not fit the problem.")


def _scores(p: Prediction, lower: Tensor, upper: Tensor, y: Tensor) -> dict[str, float]:
    inside = ((lower <= y) & (y <= upper)).double().mean().item()
    table = {"mse": mse(p, y), "mae": mae(p, y), "crps": crps(p, y), "nll": nll(p, y)}
    return table | {"coverage_90": inside, "width_90": (upper - lower).mean().item()}  # pyright: ignore


def _interpolate(steps: Tensor, start: Tensor, lead: np.ndarray) -> Tensor:
    """Values at fractional steps ahead, (..., series, times), of values at whole ones, (..., series, horizon)."""
    first = start[:, None].expand(*steps.shape[:-1], 1)
    path = torch.cat([first, steps], -1)
    left = torch.as_tensor(np.clip(np.floor(lead), 0, steps.shape[-1] - 1).astype(np.int64)).expand(
        *steps.shape[:-1], -1
    )
    share = torch.as_tensor(lead) - left
    a, b = path.gather(-1, left), path.gather(-1, left + 1)
    return a + share * (b - a)


def _key(name: Any) -> str | int | None:
    """A name of a series as JSON has it."""
    if isinstance(name, (int, np.integer)) and not isinstance(name, bool):
        return int(name)
    return None if name is None else str(name)
