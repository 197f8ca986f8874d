"""Forecasts: the transformer ETTm1 and the weather in Jena."""
# pyright: reportArgumentType=false, reportAssignmentType=false
# (the type checker takes a column of a frame for a frame, and unpacked parts for any argument)

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsac.lab.datasets import load_ettm1, load_jena, segments
from nsac.lab.datasets.weather import JENA_COLUMNS
from nsac.lab.tasks.base import Protocols, Task, WindowSplit, task
from nsac.lab.tasks.tables import tensor
from nsac.methods import WindowProblem
from nsac.training import typical_change, window_ends

PARTS = ("train", "validation", "calibration", "test")


@dataclass(frozen=True)
class Setting:
    """Numbers of a forecasting task."""

    borders: Mapping[str, tuple[int, int]]
    """rows of each part"""
    lookback: int
    horizon: int
    targets: tuple[str, ...]
    step: pd.Timedelta
    season: int
    """rows of a day"""
    min_max: bool
    """scored with the training part from 0 to 1, or standardised by it"""
    reach_back: bool
    """whether windows of a part may begin in the part before it, so that only targets keep to the part"""


def build(name: str, protocol: Protocols, seed: int, frame: pd.DataFrame, setting: Setting, text: str) -> Task:
    """The task for a record with the column `date`; no window crosses a gap, a repeated stamp or a missing value."""
    raw = frame.drop(columns="date").to_numpy(float)
    train_rows = np.arange(*setting.borders["train"])
    known = raw[train_rows][~np.isnan(raw[train_rows]).any(1)]
    scaled = (raw - known.mean(0)) / np.where(known.std(0) > 0, known.std(0), 1.0)
    values = tensor(scaled)
    columns = list(frame.columns.drop("date"))
    targets = [columns.index(target) for target in setting.targets]
    history = max(setting.lookback, setting.season)
    ends = window_ends(segments(frame["date"], setting.step), history, setting.horizon, ~np.isnan(raw).any(1))
    back = setting.lookback if not setting.reach_back else 0
    inside = {
        part: ends[(ends + 1 >= first + back) & (ends + setting.horizon < last)]
        for part, (first, last) in setting.borders.items()
    }
    change = typical_change(values, inside["train"], setting.horizon, targets)
    mean, std = known.mean(0)[targets], known.std(0)[targets]
    low, span = (known.min(0)[targets], np.ptp(known, 0)[targets]) if setting.min_max else (mean, std)
    if setting.min_max:
        text += _MIN_MAX.format(span=span[0], square=span[0] ** 2)
    unit = tensor((mean - low) / span), tensor(std / span)
    calendar = tensor(standard_calendar(frame["date"]))
    shape = setting.lookback, setting.horizon, targets, change, calendar, setting.season
    parts = {part: WindowSplit(*unit, values, inside[part], *shape) for part in PARTS}
    problem = WindowProblem(
        len(columns), setting.horizon * len(targets), lookback=setting.lookback, calendar_dim=calendar.shape[1],
        targets=tuple(targets) if len(targets) > 1 else (),
    )  # fmt: skip
    unit_name = "min-max" if setting.min_max else "training standard deviations"
    naive = ("persistence", "seasonal", "ridge")
    return Task(name, protocol, seed, text, unit_name, problem, **parts, baselines=naive)


def standard_calendar(dates: pd.Series) -> np.ndarray:
    """Time of day and of week on circles, (rows, 4); all of it is known in advance."""
    day = 2 * np.pi * (dates.dt.hour + dates.dt.minute / 60) / 24
    week = 2 * np.pi * dates.dt.day_of_week / 7
    return np.stack([np.sin(day), np.cos(day), np.sin(week), np.cos(week)], 1)


def shares(rows: int, *cuts: float) -> dict[str, tuple[int, int]]:
    """Parts one after the other, by their share of the rows; the last gets what is left."""
    edges = [0, *(round(rows * cut) for cut in np.cumsum(cuts)), rows]
    return {part: (edges[i], edges[i + 1]) for i, part in enumerate(PARTS)}


_CHANGE = (
    "The model sees standardised variables and time of day and week, and predicts the change from the last value in "
    "units of its typical size at each step ahead, all with moments of the training part; it is scored as a value. "
    "Forecasts are made only where a whole day came before without a break (it may begin in the part before), since "
    "the seasonal naive forecast repeats it."
)
_MIN_MAX = (
    " The paper says that predictions were transformed back before they were scored, but its numbers fit no one unit: "
    "in squared degrees 0.0099 for ETTm1 would be an error of 0.1 degrees, in min-max 0.1675 for Jena would be worse "
    "than the training mean. Scores here stay min-max; for squared degrees multiply MSE by {square:.4g}, the square of "
    "the training part's span of {span:.4g}."
)
_ETTM1_PAPER = (
    "The first 15,000 rows (156 days) of ETTm1, 80 % train, 10 % validation (its second half calibrates), 10 % test, "
    "in time order; windows lie wholly inside their part. 48 steps (12 hours) of all seven variables predict the "
    "next 24 (6 hours) of the oil temperature, scored after min-max scaling with the training part. " + _CHANGE
)
_ETTM1_SOUND = (
    "All of ETTm1's standard benchmark: 12, 4 and 4 months of 30 days for training, validation (its last two months "
    "calibrate) and test; 96 steps of all seven variables predict the next {horizon} of all seven, standardised with "
    "the training part, so that MSE and MAE stand beside those published for DLinear, PatchTST and iTransformer. "
    "Windows of a part may begin before it, their targets may not. " + _CHANGE
)
_JENA = (
    "The year 2020 of the Jena station, the 14 variables it shares with the record of 2009 to 2016, which the paper "
    "used: numbers here are not numbers of that record. "
)
_JENA_PAPER = (
    _JENA + "80 % train, 10 % validation (its second half calibrates), 10 % test, in time order; windows lie wholly "
    "inside their part, and none crosses the gap, the repeated stamp or a missing value. 48 steps (8 hours) predict "
    "the next 24 (4 hours) of the temperature, scored after min-max scaling with the training part. " + _CHANGE
)
_JENA_SOUND = (
    _JENA + "January to July train, August validates, September calibrates, October to December test, so that the "
    "test part has weather the training part has not; wind direction enters as sine and cosine. 144 steps (a day) "
    "predict the next 24 (4 hours) of the temperature, scored in training standard deviations; no window crosses the "
    "gap, the repeated stamp or a missing value. Windows of a part may begin before it, their targets may not. "
    + _CHANGE
)
_QUARTER, _TEN = pd.Timedelta("15min"), pd.Timedelta("10min")


def ettm1_paper(seed: int, frame: pd.DataFrame) -> Task:
    """Min-max, first 15,000 rows, 48 to 24, oil temperature."""
    setting = Setting(shares(15000, 0.8, 0.05, 0.05), 48, 24, ("OT",), _QUARTER, 96, True, False)
    return build("ettm1", "paper", seed, frame.iloc[:15000], setting, _ETTM1_PAPER)


def ettm1_sound(seed: int, frame: pd.DataFrame, horizon: int = 96) -> Task:
    """The standard benchmark, multivariate."""
    month = 30 * 96
    borders = {
        "train": (0, 12 * month), "validation": (12 * month, 14 * month),
        "calibration": (14 * month, 16 * month), "test": (16 * month, 20 * month),
    }  # fmt: skip
    setting = Setting(borders, 96, horizon, tuple(frame.columns.drop("date")), _QUARTER, 96, False, True)
    name = "ettm1" if horizon == 96 else f"ettm1-{horizon}"
    return build(name, "sound", seed, frame, setting, _ETTM1_SOUND.format(horizon=horizon))


def jena_paper(seed: int, frame: pd.DataFrame) -> Task:
    """Min-max, 48 to 24, temperature."""
    frame = frame[["date", *JENA_COLUMNS]]
    setting = Setting(shares(len(frame), 0.8, 0.05, 0.05), 48, 24, ("T (degC)",), _TEN, 144, True, False)
    return build("jena", "paper", seed, frame, setting, _JENA_PAPER)


def jena_sound(seed: int, frame: pd.DataFrame) -> Task:
    """Seven months train, three others test."""
    angle = np.deg2rad(frame["wd (deg)"])
    frame = frame[["date", *JENA_COLUMNS]].drop(columns="wd (deg)").assign(wd_sin=np.sin(angle), wd_cos=np.cos(angle))
    month = frame["date"].dt.month.where(frame["date"].dt.year == 2020, 13).to_numpy()
    edges = np.searchsorted(month, [1, 8, 9, 10, 14])
    borders = {part: (int(edges[i]), int(edges[i + 1])) for i, part in enumerate(PARTS)}
    setting = Setting(borders, 144, 24, ("T (degC)",), _TEN, 144, False, True)
    return build("jena", "sound", seed, frame, setting, _JENA_SOUND)


task("ettm1", "paper")(lambda seed: ettm1_paper(seed, load_ettm1()))
task("ettm1", "sound")(lambda seed: ettm1_sound(seed, load_ettm1()))
task("ettm1-24", "sound")(lambda seed: ettm1_sound(seed, load_ettm1(), horizon=24))
task("jena", "paper")(lambda seed: jena_paper(seed, load_jena()))
task("jena", "sound")(lambda seed: jena_sound(seed, load_jena()))
