"""Forecasts of irregularly sampled time series with missing values, several steps ahead."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state
from torch import Tensor

from nsac._checks import check_choice, check_int
from nsac.estimators.encoding import ENCODINGS, Choice, as_names, choose_by_times, choose_encoding
from nsac.estimators.event_calibration import EventCalibration
from nsac.estimators.event_frames import EventColumns, find_event_columns
from nsac.estimators.forecasting import AbstractForecaster
from nsac.estimators.observations import SeriesColumns, check_frame, find_columns
from nsac.estimators.preprocessing import MANY_WINDOWS
from nsac.estimators.times import TimeReading, check_zone, parse_times
from nsac.methods import METHODS

LOG = logging.getLogger("nsac")


class NSACForecaster(AbstractForecaster):
    """Forecasts with calibrated uncertainty, from a frame with a time column.

    Observation times may be irregular and values missing. A regular series is put on a grid: every row goes to its
    nearest slot (rows that share one are averaged), and the model sees windows of it. For irregular and sparse series,
    several targets, attributes of series and known-future columns, every observed value is an event of its own, and
    there is no grid (`encoding`). Time of day, of week and of year are inputs if a series spans such a cycle twice.

    The latest tenth of the forecast origins, at most 2000, is the calibration set; of ten or more series of events it
    is a share of the series. Each member of the ensemble trains on the others except for a block of time, or some
    series, its validation set; together they predict as one mixture.

    Args:
        horizon: steps to predict, or a duration: a text such as "24h", or "24" if times are numbers.
        lookback: steps that a forecast is made from, or a duration.
        target: column to predict, or several, each observed at its own times.
        time: column of dates, with or without a time zone, or of numbers.
        series: column that names the series, if there are several. They share one model.
        covariates: further input columns; by default all other columns of numbers. Columns of text are left out.
        known_future: columns that are known in advance. Rows after the last observation, with an empty target, have
            their future values, and are what is predicted.
        static: attributes of a series, numbers or text, the same in all of its rows.
        encoding: "grid", "events", or "auto": what suits the data, see `encoding_` and `encoding_reason_`.
        step: length of a step, a text such as "15min" for dates or a number; by default the typical gap between rows.
            Months, quarters, years and business days are recognised as steps of the calendar: a series of month
            starts is forecast at the next ones.
        time_format: format of dates that are text or whole numbers, for instance "%d.%m.%Y %H:%M".
        dayfirst: whether "01/02/1990" is in February; needed if no row decides it. `predict` reads dates as `fit` did.
        method: a name in `nsac.METHODS` that takes windows or events.
        members: size of the ensemble; a single member is validated on its latest windows. Events: a short series has
            fewer, at most one for six horizons.
        num_samples: Monte Carlo draws of each member.
        training: fields of `nsac.training.TrainConfig` that replace the defaults.
        random_state: fixes everything that is random: a number, None or a `RandomState`.
        verbose: whether to show a progress bar, on a terminal.
        folds: deprecated name of `members`.

    Attributes:
        members_: the fitted methods.
        encoding_, encoding_reason_: the encoding in use, and a sentence on why.
        data_: number of rows, of series and of missing targets, first and last time.
        calibration_: variance scale and conformal scores of their mixture, per lead time.
        columns_, cycles_: columns, and cycles of the calendar, in use.
        step_: length of a step: nanoseconds, in the unit of the time column, or months or days of the calendar.
        horizon_, lookback_: both in steps.
        irregular_: grid: whether the time between an observation and its slot is an input.
        components_: grid: linear regression and trees beside the members, and the weights of all; None for methods
            other than `"nsac"`, for more than 20,000 windows, and in model folders of earlier versions.
        outage_scale_: grid: factors on the standard deviation after an outage, by the age of the last known value.
        correlation_: grid: of the errors at all lead times, for joint samples.
        preprocessor_, events_: turn frames into windows, or into events.
        online_: adaptive margins, see `update`; on a grid its `stream_`.
    """

    def __init__(
        self,
        horizon: int | str = 24,
        lookback: int | str = 48,
        target: str | Sequence[str] = "y",
        time: str = "date",
        series: str | None = None,
        *,
        covariates: Sequence[str] | None = None,
        known_future: Sequence[str] | None = None,
        static: Sequence[str] | None = None,
        encoding: str = "auto",
        step: str | float | None = None,
        time_format: str | None = None,
        dayfirst: bool | None = None,
        method: str = "nsac",
        members: int = 5,
        num_samples: int = 20,
        training: dict[str, Any] | None = None,
        random_state: Any = None,
        verbose: bool = False,
        folds: Any = "deprecated",
    ):
        self.horizon = horizon
        self.lookback = lookback
        self.target = target
        self.time = time
        self.series = series
        self.covariates = covariates
        self.known_future = known_future
        self.static = static
        self.encoding = encoding
        self.step = step
        self.time_format = time_format
        self.dayfirst = dayfirst
        self.method = method
        self.members = members
        self.num_samples = num_samples
        self.training = training
        self.random_state = random_state
        self.verbose = verbose
        self.folds = folds

    def fit(self, frame: pd.DataFrame, y: None = None) -> "NSACForecaster":
        """Fit and calibrate; the target is one of the columns, and `y` is not used. Rows may be in any order."""
        check_int("members", self.members)
        self._check_names()
        members: Any = self._n_members()
        self.encoding_, self.encoding_reason_ = self._choose_encoding(frame)
        self._check_method()
        columns: Any = self._event_columns(frame) if self.encoding_ == "events" else self._find_columns(frame)
        data = self._data(frame, columns.reading)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._forecasts.fit(frame, columns, members, seed)
        self.data_ = data
        return self

    def _check_names(self) -> None:
        for name, optional in (("time", False), ("series", True)):
            value = getattr(self, name)
            if pd.api.types.is_list_like(value) or (value is None and not optional):
                raise ValueError(f"`{name}` must be the name of a column. Got {value!r} instead.")
        for name, optional in (("target", False), ("covariates", True), ("known_future", True), ("static", True)):
            value = getattr(self, name)
            several = isinstance(value, str) or pd.api.types.is_list_like(value)
            if not (several or (value is None and optional)):
                raise ValueError(f"`{name}` must be the name of a column, or a list of names. Got {value!r} instead.")

    def _data(self, frame: pd.DataFrame, reading: TimeReading) -> dict[str, Any]:
        frame = check_frame(frame, self.time, [])
        times = parse_times(frame.loc[:, self.time], self.time, reading)
        check_zone(times.dtype, self.time)
        missing = {name: int(np.sum(pd.isna(frame[name]))) for name in self.targets_}
        series = 1 if self.series is None else len(pd.unique(frame.loc[:, self.series]))
        first, last = str(times.min()), str(times.max())
        return {"rows": len(frame), "series": series, "first": first, "last": last, "missing": missing}

    def _reading(self) -> TimeReading:
        check_choice("dayfirst", self.dayfirst, (None, True, False))
        if not (self.time_format is None or isinstance(self.time_format, str)):
            raise ValueError(f"`time_format` must be a text such as '%d.%m.%Y'. Got {self.time_format!r} instead.")
        return TimeReading(self.time_format, self.dayfirst)

    def _find_columns(self, frame: pd.DataFrame) -> SeriesColumns:
        return find_columns(frame, self.time, self.series, self.targets_[0], self.covariates, self._reading())

    def _event_columns(self, frame: pd.DataFrame) -> EventColumns:
        known_future, static = as_names(self.known_future), as_names(self.static)
        covariates = None if self.covariates is None else as_names(self.covariates)
        names = self.time, self.series, self.targets_, covariates, known_future, static
        return find_event_columns(frame, *names, self._reading())

    def _choose_encoding(self, frame: pd.DataFrame) -> Choice:
        check_choice("encoding", self.encoding, ENCODINGS)
        check_choice("method", self.method, [n for n, cls in METHODS.items() if set(self.kinds) & set(cls.kinds)])
        takes_events = "events" in METHODS[self.method].kinds
        choice = choose_encoding(
            self.encoding, self.targets_, as_names(self.static), as_names(self.known_future), takes_events
        )
        if choice is None:
            choice = choose_by_times(frame, self._find_columns(frame), self.step)
        LOG.info(choice.reason)
        return choice

    def _training(self, rows: int) -> dict[str, Any]:
        if self._kind == "events":
            return {
                "max_steps": int(min(150 + rows // 20, 600)), "batch_size": int(min(64, rows)), "learning_rate": 2e-3,
                "weight_decay": 0.1, "validate_every": 60, "validation_batch_size": 256,
            }  # fmt: skip
        most = 500 if self.method == "nsac" and rows <= MANY_WINDOWS else 2000  # the other models need no more
        return {
            "max_steps": int(min(300 + rows // 2, most)), "batch_size": int(min(128, rows)), "learning_rate": 2e-3,
            "weight_decay": 0.5, "validate_every": 150,
        }  # fmt: skip

    def _state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        facts, tensors = self._forecasts.state()
        return facts | {"encoding_reason": self.encoding_reason_, "data": self.data_}, tensors

    def _read_calibration(self, tensors: dict[str, Tensor]) -> Any:
        if self._kind == "events":
            return EventCalibration.from_tensors(tensors, len(self.targets_))
        return super()._read_calibration(tensors)

    def _load_state(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self._forecasts.load_state(facts, tensors)
        encoding = "events" if self._kind == "events" else "grid"
        self.encoding_, self.encoding_reason_ = encoding, str(facts.get("encoding_reason", ""))
        self.data_ = dict(facts.get("data", {}))  # older folders have neither
