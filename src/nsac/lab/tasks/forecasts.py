"""Forecasting tasks: transformer temperatures (ETTm1) and the weather in Jena."""
# pyright: reportArgumentType=false, reportAssignmentType=false
# (the type checker takes a column of a frame for a frame, and unpacked splits for any argument)

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from nsac.lab.datasets import load_ettm1, load_jena, segments
from nsac.lab.datasets.weather import JENA_COLUMNS
from nsac.lab.tasks.base import SPLITS, Protocols, Task, WindowSplit, task
from nsac.lab.tasks.tables import tensor
from nsac.methods import WindowProblem
from nsac.training import typical_change, window_ends


class Setting(NamedTuple):
    """Splits and windows of a forecasting task."""

    borders: Sequence[int]  # first row of each split, and the row after the last
    lookback: int
    horizon: int
    targets: tuple[str, ...]
    step: pd.Timedelta


def build(name: str, protocol: Protocols, seed: int, frame: pd.DataFrame, setting: Setting, text: str) -> Task:
    """The task of a series with the column `date`; no window crosses a gap, a repeated time or a missing value.

    Under the paper's protocol, scores are of values scaled to 0 to 1 by the training split, and windows lie inside
    their split; under the sound one, scores are of standardised values, and windows may begin in the split before.
    """
    raw = frame.drop(columns="date").to_numpy(float)
    complete: np.ndarray = ~np.isnan(raw).any(1)
    first, stop = setting.borders[:2]
    train = raw[first:stop][complete[first:stop]]
    mean, std = train.mean(0), train.std(0)
    values = tensor((raw - mean) / np.where(std > 0, std, 1.0))
    columns = list(frame.columns.drop("date"))
    targets = [columns.index(target) for target in setting.targets]
    season = pd.Timedelta("1D") // setting.step
    ends = window_ends(segments(frame["date"], setting.step), max(setting.lookback, season), setting.horizon, complete)
    inside = {}
    for split, first, stop in zip(SPLITS, setting.borders[:-1], setting.borders[1:], strict=True):
        earliest = first + setting.lookback if protocol == "paper" else first
        inside[split] = ends[(ends + 1 >= earliest) & (ends + setting.horizon < stop)]
    change = typical_change(values, inside["train"], setting.horizon, targets)
    low, span, unit_name = mean[targets], std[targets], "training standard deviations"
    if protocol == "paper":
        unit_name = "min-max"
        low, span = train.min(0)[targets], np.ptp(train, 0)[targets]
        text += _MIN_MAX.format(span=span[0], square=span[0] ** 2)
    unit = tensor((mean[targets] - low) / span), tensor(std[targets] / span)
    calendar = tensor(standard_calendar(frame["date"]))
    shape = setting.lookback, setting.horizon, targets, change, calendar, season
    splits = {split: WindowSplit(*unit, values, inside[split], *shape) for split in SPLITS}
    problem = WindowProblem(
        len(columns), setting.horizon * len(targets), lookback=setting.lookback, calendar_dim=calendar.shape[1],
        targets=tuple(targets) if len(targets) > 1 else (),
    )  # fmt: skip
    baselines = ("persistence", "seasonal", "ridge")
    return Task(name, protocol, seed, text, unit_name, problem, **splits, baselines=baselines)


def standard_calendar(dates: pd.Series) -> np.ndarray:
    """Sine and cosine of the time of day and of week, (rows, 4); all of it is known in advance."""
    day = 2 * np.pi * (dates.dt.hour + dates.dt.minute / 60) / 24
    week = 2 * np.pi * dates.dt.day_of_week / 7
    return np.stack([np.sin(day), np.cos(day), np.sin(week), np.cos(week)], 1)


def paper_borders(rows: int) -> list[int]:
    """80 % train, 5 % validation, 5 % calibration, 10 % test, in time order."""
    return [0, *(round(rows * share) for share in np.cumsum([0.8, 0.05, 0.05])), rows]


_CHANGE = (
    "Inputs are standardised variables and the time of day and of week. The model predicts the change from the last "
    "value in units of its typical size at each lead time; all moments are those of the training split. Scores are of "
    "values, not of changes. Forecasts are made only where a whole day without a break came before (it may begin in "
    "the split before), since the seasonal naive baseline repeats it."
)
_MIN_MAX = (
    " The paper states that predictions were transformed back before they were scored, but its numbers fit no single "
    "unit: in squared degrees 0.0099 for ETTm1 would be an error of 0.1 degrees, in min-max units 0.1675 for Jena "
    "would be worse than the training mean. Scores here stay in min-max units; for squared degrees multiply MSE by "
    "{square:.4g}, the square of the training split's range of {span:.4g}."
)
_ETTM1_PAPER = (
    "The first 15,000 rows (156 days) of ETTm1, 80 % train, 10 % validation (its second half is the calibration "
    "split), 10 % test, in time order; windows lie completely inside their split. 48 steps (12 hours) of all seven "
    "variables predict the next 24 (6 hours) of the oil temperature, scored after min-max scaling with the training "
    "split. " + _CHANGE
)
_ETTM1_SOUND = (
    "The standard benchmark on all of ETTm1: 12, 4 and 4 months of 30 days for training, validation (its last two "
    "months are the calibration split) and test; 96 steps of all seven variables predict the next {horizon} of all "
    "seven, standardised with the training split, so that MSE and MAE are comparable with those published for DLinear, "
    "PatchTST and iTransformer. Windows of a split may begin before it, their targets may not. " + _CHANGE
)
_JENA = (
    "The year 2020 of the Jena station, with the 14 variables it shares with the series of 2009 to 2016 that the paper "
    "used: numbers here are not comparable with numbers of that series. "
)
_JENA_PAPER = (
    _JENA + "80 % train, 10 % validation (its second half is the calibration split), 10 % test, in time order; windows "
    "lie completely inside their split, and none crosses the gap, the repeated time or a missing value. 48 steps (8 "
    "hours) predict the next 24 (4 hours) of the temperature, scored after min-max scaling with the training split. "
    + _CHANGE
)
_JENA_SOUND = (
    _JENA + "January to July train, August validates, September calibrates, October to December test, so that the "
    "test split has weather that the training split has not; wind direction enters as sine and cosine. 144 steps (a "
    "day) predict the next 24 (4 hours) of the temperature, scored in training standard deviations; no window crosses "
    "the gap, the repeated time or a missing value. Windows of a split may begin before it, their targets may not. "
    + _CHANGE
)
_QUARTER_HOUR, _TEN_MINUTES = pd.Timedelta("15min"), pd.Timedelta("10min")


def ettm1_paper(seed: int, frame: pd.DataFrame) -> Task:
    """48 steps of the first 15,000 rows predict 24 of the oil temperature, scored in min-max units."""
    setting = Setting(paper_borders(15000), 48, 24, ("OT",), _QUARTER_HOUR)
    return build("ettm1", "paper", seed, frame.iloc[:15000], setting, _ETTM1_PAPER)


def ettm1_sound(seed: int, frame: pd.DataFrame, horizon: int = 96) -> Task:
    """The standard multivariate benchmark."""
    borders = [30 * 96 * months for months in (0, 12, 14, 16, 20)]
    setting = Setting(borders, 96, horizon, tuple(frame.columns.drop("date")), _QUARTER_HOUR)
    name = "ettm1" if horizon == 96 else f"ettm1-{horizon}"
    return build(name, "sound", seed, frame, setting, _ETTM1_SOUND.format(horizon=horizon))


def jena_paper(seed: int, frame: pd.DataFrame) -> Task:
    """48 steps predict 24 of the temperature, scored in min-max units."""
    frame = frame[["date", *JENA_COLUMNS]]
    setting = Setting(paper_borders(len(frame)), 48, 24, ("T (degC)",), _TEN_MINUTES)
    return build("jena", "paper", seed, frame, setting, _JENA_PAPER)


def jena_sound(seed: int, frame: pd.DataFrame) -> Task:
    """Trained on seven months, tested on three others."""
    angle = np.deg2rad(frame["wd (deg)"])
    frame = frame[["date", *JENA_COLUMNS]].drop(columns="wd (deg)").assign(wd_sin=np.sin(angle), wd_cos=np.cos(angle))
    month = frame["date"].dt.month.where(frame["date"].dt.year == 2020, 13).to_numpy()
    borders = np.searchsorted(month, [1, 8, 9, 10, 14]).tolist()
    setting = Setting(borders, 144, 24, ("T (degC)",), _TEN_MINUTES)
    return build("jena", "sound", seed, frame, setting, _JENA_SOUND)


task("ettm1", "paper")(lambda seed: ettm1_paper(seed, load_ettm1()))
task("ettm1", "sound")(lambda seed: ettm1_sound(seed, load_ettm1()))
task("ettm1-24", "sound")(lambda seed: ettm1_sound(seed, load_ettm1(), horizon=24))
task("jena", "paper")(lambda seed: jena_paper(seed, load_jena()))
task("jena", "sound")(lambda seed: jena_sound(seed, load_jena()))
