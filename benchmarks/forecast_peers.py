"""Forecasts with predicted quantiles, each method with its own defaults and one thread: the peers of `forecast.py`.

A method is a function of a `Series` and a seed, and sees the rows before the test part. It returns a function that
forecasts from all origins, of which each sees the rows up to it. Forecasts of a method are `LEVELS` quantiles and a
mean; the mean of a method that has none is the mean of its quantiles. Packages are imported where they are used.
"""

import logging
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from peers import COVERAGE, QUANTILES
from scipy.stats import norm

Array = np.ndarray

ENDS = ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2)
LEVELS = np.array([*QUANTILES, *ENDS])
VALIDATION_SHARE = 0.1
"""Latest share of the fitted rows that choose a penalty, or stop training early."""
PENALTIES = [10.0**k for k in range(-3, 5)]
"""Of the ridge regression, per window."""
BOOSTED_LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
"""Quantile levels of LightGBM; others are interpolated."""
BOOSTED_LAGS = (1, 3, 6, 12, 24)
"""Steps; changes of covariates that LightGBM reads."""
ETS_DAYS = 28
"""Days that AutoETS selects its model on, and days before an origin that the states of this model are filtered on."""
ETS_STRIDE = 7
"""AutoETS forecasts from every seventh origin."""
ETS_MAX_SEASON = 24
"""Steps; AutoETS has no longer season, and then none at all."""
BATCH_WINDOWS = 256
CHECK_STEPS, PATIENCE = 25, 10
"""Networks validate every so many steps, stop after so many validations without progress, and keep the best weights."""


class Series(NamedTuple):
    """A regular series, in which missing values are filled."""

    values: pd.DataFrame  # (rows, columns), the target first, by date; missing values are those before them
    fitted: int  # rows before the test part
    origins: Array  # of each forecast, the last row that it sees, ascending by 1
    lookback: int
    horizon: int
    season: int  # steps of a day
    between: Array  # (rows, columns), missing values are interpolated in time
    last: Array  # (rows,), the last row up to each whose target is known

    @property
    def train_ends(self) -> Array:
        """Origins whose steps are all fitted rows."""
        return np.arange(max(self.lookback, self.season) - 1, self.fitted - self.horizon)

    @property
    def target(self) -> Array:
        return self.values.iloc[:, 0].to_numpy()

    def windows(self, ends: Array) -> Array:
        """(origins, lookback, columns), interpolated, and constant after the last known target."""
        rows = ends[:, None] + np.arange(1 - self.lookback, 1)
        later = rows > self.last[ends][:, None]
        return np.where(later[..., None], self.values.to_numpy()[rows], self.between[rows])

    def ahead(self, ends: Array) -> Array:
        """(origins, horizon), what comes after these rows, interpolated."""
        return self.between[ends[:, None] + np.arange(1, self.horizon + 1), 0]


class Forecasts(NamedTuple):
    """Of some origins."""

    mean: Array  # (origins, horizon)
    quantiles: Array  # (origins, horizon, levels)
    every: int = 1  # they are every so many-th origin


Predict = Callable[[Array], Forecasts]


def gaussian(mean: Array, std: Array) -> Forecasts:
    return Forecasts(mean, mean[..., None] + std[..., None] * norm.ppf(LEVELS))


# Baselines


def persistence(series: Series, seed: int) -> Predict:
    """The last value; the standard deviation is that of its errors in the fitted rows, at each lead time."""
    return repeated(series, lambda ends: series.target[ends][:, None].repeat(series.horizon, 1))


def seasonal(series: Series, seed: int) -> Predict:
    """The value one day before, or the least number of days that is known; the standard deviation as above."""
    steps = np.arange(1, series.horizon + 1)
    before = steps - series.season * -(-steps // series.season)
    return repeated(series, lambda ends: series.target[ends[:, None] + before])


def repeated(series: Series, mean: Callable[[Array], Array]) -> Predict:
    std = np.sqrt(np.mean((mean(series.train_ends) - series.ahead(series.train_ends)) ** 2, 0))
    return lambda ends: gaussian(mean(ends), np.broadcast_to(std, (len(ends), series.horizon)))


def ridge(series: Series, seed: int) -> Predict:
    """All values of the window, as differences to the latest, and the calendar, to changes from the last value.

    The latest fitted rows choose the penalty and give the standard deviation; then they are fitted as well.
    """
    scale = series.values.iloc[: series.fitted].std().to_numpy()
    scale = np.where(scale > 0, scale, 1.0)
    mean = series.values.iloc[: series.fitted].mean().to_numpy() / scale

    def design(ends: Array) -> Array:
        windows = series.windows(ends) / scale
        last = windows[:, -1]
        centred = last - mean
        past = (windows[:, :-1] - last[:, None]).reshape(len(ends), -1)
        return np.hstack([past, centred, calendar(series, ends), np.ones((len(ends), 1))])

    def solve(ends: Array, penalty: float) -> Array:
        x, y = design(ends), series.ahead(ends) - series.target[ends][:, None]
        eye = np.diag([*np.full(x.shape[1] - 1, penalty * len(x)), 1e-9])
        return np.linalg.solve(x.T @ x + eye, x.T @ y)

    train, held_out = split(series)
    x, y = design(held_out), series.ahead(held_out) - series.target[held_out][:, None]
    errors = [x @ solve(train, penalty) - y for penalty in PENALTIES]
    best = int(np.argmin([np.mean(error**2) for error in errors]))
    std, weights = np.sqrt(np.mean(errors[best] ** 2, 0)), solve(series.train_ends, PENALTIES[best])

    def predict(ends: Array) -> Forecasts:
        centre = series.target[ends][:, None] + design(ends) @ weights
        return gaussian(centre, np.broadcast_to(std, centre.shape))

    return predict


def split(series: Series) -> tuple[Array, Array]:
    """Training and validation origins: the latest validate, and no forecasts of the two overlap."""
    ends = series.train_ends
    size = round(VALIDATION_SHARE * len(ends))
    return ends[: -size - series.horizon], ends[-size:]


def calendar(series: Series, ends: Array) -> Array:
    """(origins, 4), sine and cosine of the time of day and of week."""
    dates: Any = series.values.index[ends]
    day = 2 * np.pi * (dates.hour + dates.minute / 60) / 24
    week = (2 * np.pi * dates.day_of_week + day) / 7
    return np.stack([np.sin(day), np.cos(day), np.sin(week), np.cos(week)], 1)


# Boosted trees


def lightgbm(series: Series, seed: int) -> Predict:
    """Direct forecasts: a row is a window and a lead time, one model per quantile level and one of the mean."""
    from lightgbm import LGBMRegressor

    def pairs(ends: Array) -> Array:
        return boosted_pairs(series, ends)

    ends = series.train_ends
    x, y = pairs(ends), (series.ahead(ends) - series.target[ends][:, None]).ravel()
    options: dict[str, Any] = {"random_state": seed, "n_jobs": 1, "verbose": -1}
    mean = LGBMRegressor(**options).fit(x, y)
    models = [LGBMRegressor(objective="quantile", alpha=q, **options).fit(x, y) for q in BOOSTED_LEVELS]

    def predict(ends: Array) -> Forecasts:
        rows, last = pairs(ends), series.target[ends][:, None]
        centre = np.asarray(mean.predict(rows)).reshape(len(ends), -1)
        found = np.stack([np.asarray(model.predict(rows)).reshape(len(ends), -1) for model in models], 2)
        return Forecasts(last + centre, last[..., None] + interpolate_levels(found, BOOSTED_LEVELS))

    return predict


def boosted_pairs(series: Series, ends: Array) -> Array:
    """(origins * horizon, features): lags and calendar of a window, the lead time, and the calendar then.

    Lags are differences to the last value; those of the target are all of the window, also counted from a day before
    the lead time on.
    """
    values, steps = series.values.to_numpy(), np.arange(1, series.horizon + 1)
    last = values[ends]
    past = series.target[ends[:, None] + np.arange(1 - series.lookback, 0)] - last[:, :1]
    changes = [values[ends - lag] - last for lag in BOOSTED_LAGS if lag < series.lookback]
    means = [values[ends[:, None] + np.arange(-length, 1)].mean(1) - last for length in (6, series.lookback - 1)]
    window = np.hstack([past, last, *changes, *means]).astype(np.float32)
    then = ends[:, None] + steps
    dates: Any = (
        pd.DatetimeIndex(series.values.index[ends]).to_numpy()[:, None]
        + steps * (series.values.index[1] - series.values.index[0]).to_numpy()
    )
    dates = pd.DatetimeIndex(dates.ravel())
    before = then - series.season * -(-steps // series.season)
    near = [series.target[np.minimum(before + shift, ends[:, None])] - last[:, :1] for shift in (-1, 0, 1)]
    lead = [np.broadcast_to(steps, then.shape), *near]
    columns = [each.reshape(-1, 1) for each in lead]
    columns += [np.asarray(each)[:, None] for each in (dates.hour + dates.minute / 60, dates.day_of_week)]
    return np.hstack([window.repeat(series.horizon, 0), *columns]).astype(np.float32)


def interpolate_levels(found: Array, levels: Any) -> Array:
    """Quantiles at `LEVELS`, linear in normal scores between those at `levels` and beyond."""
    found, known, asked = np.sort(found, -1), norm.ppf(levels), norm.ppf(LEVELS)
    right = np.clip(np.searchsorted(known, asked), 1, len(known) - 1)
    share = (asked - known[right - 1]) / (known[right] - known[right - 1])
    return found[..., right - 1] * (1 - share) + found[..., right] * share


# Networks


def nhits(series: Series, seed: int) -> Predict:
    """NHITS of the target and the calendar; with the covariates as well it was worse in spring."""
    from neuralforecast.models import NHITS

    return fit_network(NHITS, series, seed, max_steps=1000, futr_exog_list=CALENDAR)


def patchtst(series: Series, seed: int) -> Predict:
    """PatchTST; it reads the target alone."""
    from neuralforecast.models import PatchTST

    return fit_network(PatchTST, series, seed, max_steps=5000)


CALENDAR = ["day_sine", "day_cosine", "week_sine", "week_cosine"]


def fit_network(cls: Any, series: Series, seed: int, **options: Any) -> Predict:
    """A network of neuralforecast on the standardised target; defaults, but with `BATCH_WINDOWS` windows in a batch.

    Training stops early by the loss of the latest fitted rows, and the weights are those with the least: the package
    itself would keep the last ones.
    """
    from neuralforecast import NeuralForecast
    from neuralforecast.losses.pytorch import MQLoss
    from pytorch_lightning import Callback

    best: dict[str, Any] = {"loss": np.inf}

    class KeepBest(Callback):
        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            loss = float(trainer.callback_metrics.get("ptl/val_loss", np.inf))
            if not trainer.sanity_checking and loss < best["loss"]:
                weights = {name: value.detach().clone() for name, value in pl_module.state_dict().items()}
                best.update(loss=loss, weights=weights)

    for name in ("lightning.pytorch", "pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="(pytorch_)?lightning|neuralforecast|torch|utilsforecast")
    centre, scale = series.target[: series.fitted].mean(), series.target[: series.fitted].std()
    columns = {"unique_id": "series", "ds": series.values.index, "y": (series.target - centre) / scale}
    times = calendar(series, np.arange(len(series.values)))
    frame = pd.DataFrame(columns).join(pd.DataFrame(times, columns=CALENDAR))
    quiet = {"enable_progress_bar": False, "logger": False, "enable_checkpointing": False, "accelerator": "cpu"}
    model = cls(
        h=series.horizon, input_size=series.lookback, loss=MQLoss(quantiles=sorted(LEVELS)), random_seed=seed + 1,
        windows_batch_size=BATCH_WINDOWS, val_check_steps=CHECK_STEPS, early_stop_patience_steps=PATIENCE,
        alias="model", devices=1, enable_model_summary=False, callbacks=[KeepBest()], **quiet, **options,
    )  # fmt: skip
    forecaster = NeuralForecast([model], freq=series.values.index[1] - series.values.index[0])
    forecaster.fit(frame.iloc[: series.fitted], val_size=round(VALIDATION_SHARE * series.fitted))
    forecaster.models[0].load_state_dict(best["weights"])

    def predict(ends: Array) -> Forecasts:
        rows = frame.iloc[: ends[-1] + 1 + series.horizon]
        ahead = len(ends) + series.horizon - 1
        found = forecaster.cross_validation(rows, n_windows=None, test_size=ahead, step_size=1, use_fitted=True)
        values = found.sort_values(["cutoff", "ds"]).filter(like="model").to_numpy()
        values = values.reshape(len(ends), series.horizon, len(LEVELS)) * scale + centre
        quantiles = np.sort(values, -1)[..., np.argsort(np.argsort(LEVELS))]
        return Forecasts(quantiles[..., : len(QUANTILES)].mean(-1), quantiles)

    return predict


# Exponential smoothing


def autoets(series: Series, seed: int) -> Predict:
    """AutoETS of the target alone: the model is selected once, and its states are filtered up to each origin.

    With a season, models without one are not considered: their information criterion is better in spring and autumn,
    and their forecasts are those of persistence.
    """
    from statsforecast.models import AutoETS

    season = series.season if series.season <= ETS_MAX_SEASON else 1
    rows = slice(max(0, series.fitted - ETS_DAYS * series.season), series.fitted)
    model = AutoETS(season_length=season, model="ZZA" if season > 1 else "ZZZ").fit(series.target[rows])
    coverages = sorted({round(100 * abs(2 * q - 1), 6) for q in LEVELS})

    def forecast(end: int) -> tuple[Array, Array]:
        past = series.target[max(0, end + 1 - ETS_DAYS * series.season) : end + 1]
        found = model.forward(past, h=series.horizon, level=coverages)
        bounds = [found[f"{'hi' if q > 0.5 else 'lo'}-{round(100 * abs(2 * q - 1), 6)}"] for q in LEVELS]
        return found["mean"], np.stack(bounds, 1)

    def predict(ends: Array) -> Forecasts:
        found = [forecast(end) for end in ends[::ETS_STRIDE]]
        return Forecasts(np.stack([mean for mean, _ in found]), np.stack([q for _, q in found]), ETS_STRIDE)

    return predict


class Method(NamedTuple):
    """A method, and the package it needs."""

    fit: Callable[[Series, int], Predict]
    package: str


METHODS = {
    "lightgbm": Method(lightgbm, "lightgbm"),
    "nhits": Method(nhits, "neuralforecast"),
    "patchtst": Method(patchtst, "neuralforecast"),
    "autoets": Method(autoets, "statsforecast"),
    "ridge": Method(ridge, "numpy"),
    "seasonal": Method(seasonal, "numpy"),
    "persistence": Method(persistence, "numpy"),
}
