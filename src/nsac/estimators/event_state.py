"""Model folders of forecasters of events: what turns frames into rows, as plain values and tensors."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nsac.estimators.event_frames import EventColumns
from nsac.estimators.event_rows import RowMaker
from nsac.estimators.event_scaling import SeriesScale
from nsac.estimators.preprocessing import check_array_shapes
from nsac.estimators.steps import CYCLES, Calendar, TimeAxis
from nsac.estimators.times import TimeReading
from nsac.methods import EventsProblem

POSITIVE = ("std", "between", "size", "typical")  # fields of a `SeriesScale` that are above 0


def maker_state(maker: RowMaker) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Plain values and tensors."""
    columns = maker.columns
    facts: dict[str, Any] = {name: list(getattr(columns, name)) for name in ("targets", "covariates", "static")}
    facts |= {"known_future": list(columns.known_future), "time": columns.time, "series": columns.series}
    facts |= {"categories": [list(each) for each in columns.categories], "cycles": maker.cycles}
    facts |= {"time_format": columns.reading.format, "dayfirst": columns.reading.dayfirst}
    facts |= {"lookback_length": maker.lookback, "horizon_length": maker.horizon, "with_levels": maker.with_levels}
    tensors = {f"scale.{name}": value for name, value in maker.scale._asdict().items()}
    arrays = {name: getattr(maker, name) for name in ("known_mean", "known_std", "static_mean", "static_std")}
    return facts, tensors | {name: torch.as_tensor(value) for name, value in arrays.items()}


def load_maker(facts: dict[str, Any], tensors: dict[str, Tensor], problem: EventsProblem) -> tuple[TimeAxis, RowMaker]:
    """Inverse of `maker_state`; it must fit the problem of the members. Any exception means a wrong folder."""
    time_dtype = pd.api.types.pandas_dtype(facts["stamps"])
    dated = time_dtype != np.dtype(np.float64)
    reading = TimeReading(facts["time_format"], facts["dayfirst"], numbers=not dated)
    names = {name: tuple(facts[name]) for name in ("targets", "covariates", "known_future", "static")}
    categories = tuple(tuple(each) for each in facts["categories"])
    columns = EventColumns(facts["time"], facts["series"], **names, categories=categories, reading=reading)
    channels, known, static = len(columns.channels), len(columns.known_future), columns.static_dim
    if len(columns.categories) != len(columns.static) or not set(facts["cycles"]) <= set(CYCLES):
        raise ValueError("`columns` must be possible ones.")
    arrays = {name: tensor.double().numpy() for name, tensor in tensors.items()}
    shapes = {f"scale.{name}": (channels,) for name in SeriesScale._fields}
    shapes |= {"known_mean": (known,), "known_std": (known,), "static_mean": (static,), "static_std": (static,)}
    check_array_shapes(arrays, shapes)
    positive = [arrays[f"scale.{name}"] for name in POSITIVE] + [arrays["known_std"], arrays["static_std"]]
    lengths = facts["lookback_length"], facts["horizon_length"], facts["step"]
    if not all((array > 0).all() for array in positive) or not all(0 < length < np.inf for length in lengths):
        raise ValueError("Scales and lengths must be above 0.")
    scale = SeriesScale(*(torch.from_numpy(arrays[f"scale.{name}"]) for name in SeriesScale._fields))
    moments = arrays["known_mean"], arrays["known_std"], arrays["static_mean"], arrays["static_std"]
    maker = RowMaker(
        columns, list(facts["cycles"]), float(lengths[0]), float(lengths[1]), scale,
        *moments, bool(facts["with_levels"]),
    )  # fmt: skip
    sizes = (channels, tuple(range(len(columns.targets))), maker.static_dim, maker.future_dim)
    if (problem.channels, problem.targets, problem.static_dim, problem.future_dim) != sizes:
        raise ValueError("`columns` do not fit the problem.")
    calendar = facts["calendar"]
    return TimeAxis(time_dtype, facts["step"], None if calendar is None else Calendar(*calendar)), maker
