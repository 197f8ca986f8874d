"""Irregular series as inputs to explain: every observation is a token, with a channel, a time and a value."""

import copy
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch

from nsac.estimators.event_forecasts import EventForecasts
from nsac.estimators.event_frames import EventFrame, Observed, read_events
from nsac.estimators.event_queries import ask
from nsac.estimators.event_rows import Origins
from nsac.estimators.forecaster import NSACForecaster
from nsac.estimators.times import describe_times, read_times, restore_times
from nsac.estimators.windows import subsample
from nsac.explain.circuit import ExplainError, Trace, find_network
from nsac.explain.series import AbstractSeriesSubject, Observation, lead_name, origin_names, spread_leads
from nsac.explain.subjects import CHUNK_ROWS, Predicted, check_rows, split_rows
from nsac.methods import NSACMethod
from nsac.models.encoder import Batch
from nsac.training.events import EventsData, Queries

TIME_UNITS = (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))
"""Units of dated times: the largest that is no longer than two steps."""


class EventSubject(AbstractSeriesSubject):
    """Series up to several forecast origins, as `NSACForecaster` with `encoding="events"` reads them.

    A row of `inputs` has the observations of a lookback: `x`, in their own unit, `channel`, and `times` since the
    origin; NaN in `x` is no observation. `row` is the number of the origin, whose queries and attributes are fixed.

    Args:
        model: fitted.
        frame: rows as for `predict`.
        origins: row numbers of the frame to forecast from; the last row of each series by default.
    """

    kind: ClassVar[str] = "events"
    model: NSACForecaster
    explained: list[int]  # outputs that have attributions and traces

    def __init__(self, model: NSACForecaster, frame: pd.DataFrame, origins: Sequence[int] | None = None):
        find_network(model.members_[0])
        self.model, self.maker, self.num_samples = model, model.events_, model.num_samples
        self.forecasts = EventForecasts(model)
        events = read_events(frame, model.columns_)
        fitted, given = describe_times(model.axis_.dtype), describe_times(events.time_dtype)
        if given != fitted:
            raise ExplainError(f"Time column {model.columns_.time!r} must hold {fitted}, as in `fit`. Got {given}.")
        series, times = _chosen(events, model, frame, origins)
        self.frame = _one_series_per_origin(events, model, series, times)
        self._read()
        names = [events.names[i] for i in series]
        self.labels = origin_names(names, restore_times(self.frame.row_times, events.time_dtype), False)
        self.channels = self.features = list(model.columns_.channels)
        steps, targets = range(1, model.horizon_ + 1), model.targets_
        self.outputs = [lead_name(h) if len(targets) == 1 else f"{t}, {lead_name(h)}" for h in steps for t in targets]
        leads = spread_leads(model.horizon_)
        self.explained = [lead * len(targets) + t for lead in leads for t in range(len(targets))]
        self.unit, self.seconds = _time_unit(model)
        self.keys = [f"observation {i + 1}" for i in range(self.inputs["x"].shape[1])]

    def _read(self) -> None:
        """Observations and queries of all origins."""
        frame, maker, n = self.frame, self.maker, len(self.frame.names)
        origins, series, times, count = ask(frame, self.model, None)
        self.clock = frame.clock(origins)
        queries = maker.asked_queries(frame, series, times, count)
        rows = maker.rows(frame, Origins(np.arange(n), self.clock, self.clock), queries, torch.float64)
        asked = len(queries.channel) // n
        self.query_channel = queries.channel[:asked]
        self.leads = (queries.times.view(n, asked) - torch.from_numpy(self.clock)[:, None]).double()  # on the clock
        self.future = None if queries.future is None else queries.future.view(n, asked, -1)
        self.static = torch.from_numpy((frame.static - maker.static_mean) / maker.static_std)
        place = torch.arange(max(1, int((rows.stop - rows.start).max())))
        index, empty = rows.start[:, None] + place, place >= (rows.stop - rows.start)[:, None]
        index = index.clamp(max=max(len(rows.values) - 1, 0))
        known = len(rows.values) > 0
        x = rows.values[index] if known else torch.zeros(index.shape)
        since = rows.times[index] - rows.origins[:, None] if known else torch.zeros(index.shape)
        channel = rows.channel[index] if known else torch.zeros(index.shape, dtype=torch.int64)
        self.inputs = {
            "x": x.double().masked_fill(empty, torch.nan), "channel": channel.masked_fill(empty, 0),
            "times": since.double().masked_fill(empty, 0), "row": torch.arange(n),
        }  # fmt: skip

    def asking(self, outputs: Sequence[int]) -> "EventSubject":
        """The same rows with some of the outputs."""
        other, chosen = copy.copy(self), list(outputs)
        other.outputs, other.explained = [self.outputs[i] for i in chosen], list(range(len(chosen)))
        other.query_channel = self.query_channel[chosen]
        other.leads, other.future = self.leads[:, chosen], None if self.future is None else self.future[:, chosen]
        return other

    def asking_at(self, leads: Sequence[float], target: int = 0) -> "EventSubject":
        """The same rows with queries of one target at other lead times, on the clock."""
        other, n = copy.copy(self), len(self.clock)
        other.leads = torch.tensor(list(leads), dtype=torch.float64).expand(n, -1)
        other.query_channel = torch.full((len(leads),), target)
        other.outputs = [f"{lead / self.seconds:g} {self.unit} ahead".replace("  ", " ") for lead in leads]
        other.explained = list(range(len(leads)))
        times = self.frame.times((torch.from_numpy(self.clock)[:, None] + other.leads).numpy().ravel())
        future = self.maker.future(self.frame, np.repeat(np.arange(n), len(leads)), times)
        other.future = None if future is None else future.view(n, len(leads), -1)
        return other

    def observations(self, row: int) -> list[Observation]:  # noqa: D102
        x, channel, times = (self.inputs[name][row].numpy() for name in ("x", "channel", "times"))
        return [
            Observation(int(channel[i]), float(times[i] / self.seconds), float(x[i]), (int(i),))
            for i in np.lexsort([times, channel]) if not np.isnan(x[i])
        ]  # fmt: skip

    def observation_name(self, channel: int, time: float) -> str:
        """For people."""
        return f"{self.channels[channel]}, {time:.4g} {self.unit}".rstrip()

    def key_labels(self, row: int) -> list[str]:  # noqa: D102
        channel, times = self.inputs["channel"][row], self.inputs["times"][row] / self.seconds
        known = int((~self.inputs["x"][row].isnan()).sum())
        return [self.observation_name(int(channel[i]), float(times[i])) for i in range(known)]

    def without(self, row: int, observations: Sequence[Observation]) -> Batch:  # noqa: D102
        inputs = {name: each[[row] * len(observations)].clone() for name, each in self.inputs.items()}
        for i, observation in enumerate(observations):
            inputs["x"][(i, *observation.place)] = torch.nan
        return inputs

    def predict(self, inputs: Batch, coverage: float = 0.9) -> Predicted:  # noqa: D102
        count = (~inputs["x"].isnan()).sum(1)
        order = count.argsort(stable=True)  # rows of similar length need little padding
        found = []
        for chunk in split_rows({name: each[order] for name, each in inputs.items()}, CHUNK_ROWS):
            p, cell = self.forecasts.calibrated(self.forecasts.answers(self._data(chunk)))
            ends = self.model.calibration_.interval(p, cell, coverage)
            found.append([each.view(len(chunk["x"]), -1) for each in (p.mean, p.aleatoric, p.epistemic, *ends)])
        back = order.argsort()
        return Predicted(*(torch.cat(column)[back].numpy() for column in zip(*found, strict=True)))

    def curve(self, row: int, leads: Sequence[float], target: int, coverage: float) -> pd.DataFrame:
        """Forecasts of one row at these lead times, in `unit`, and its gates there: see `Explanation.at`."""
        asked = self.asking_at([lead * self.seconds for lead in leads], target)
        asked.inputs = {name: each[row : row + 1] for name, each in self.inputs.items()}
        p = asked.predict(asked.inputs, coverage)
        table: dict[str, Any] = {"lead": list(leads)} | {name: each[0] for name, each in p._asdict().items()}
        traces = asked.traces()
        for name in ("kappa", "phi", "psi", "logit", "sigma"):
            cells = [{**each.gates, "logit": each.mu, "sigma": each.sigma} for each in traces]
            if name in cells[0]:
                found = [
                    (t.weights_mean * cell[name])[0].sum(-1).mean(0) for t, cell in zip(traces, cells, strict=True)
                ]
                table[name] = np.mean(found, 0)
        return pd.DataFrame(table)

    def model_means(self, inputs: Batch) -> dict[str, np.ndarray]:  # noqa: D102
        data, found, trees = self._data(inputs), {}, []
        rows = torch.arange(len(data))
        batch, (offset, scale) = data.batch(rows), data.offset_and_scale(rows)
        for i, member in enumerate(self.members):
            if isinstance(member, NSACMethod) and member.stack is not None:
                own = member.network_draws(batch, self.num_samples).mean.mean(0)
                trees.append(member.stack.trees.predict(batch).mean)
            else:
                own = member.predict(batch, self.num_samples).mean
            found[f"network {i + 1}"] = (offset + scale * own).squeeze(-1).numpy()
        if trees:
            found["trees"] = (offset + scale * torch.stack(trees).mean(0)).squeeze(-1).numpy()
        return found

    def shares(self) -> dict[str, np.ndarray]:  # noqa: D102
        stacks = [member.stack for member in self.members if isinstance(member, NSACMethod)]
        trees = [0.0 if stack is None else float(stack.choice[0]) for stack in stacks]
        share, ones = np.mean(trees) if trees else 0.0, np.ones(len(self.outputs))
        return {"networks": (1 - share) * ones} | ({"trees": share * ones} if share else {})

    def network_inputs(self) -> Batch:  # noqa: D102
        return self._data(self.inputs).batch(torch.arange(len(self)))

    def traces(self) -> list[Trace]:
        """The cells of each member; queries are those that are `explained`, keys are observations in order of time."""
        shown = self.asking(self.explained) if len(self.explained) < len(self.outputs) else self
        return super(EventSubject, shown).traces()

    def _data(self, inputs: Batch) -> EventsData:
        """The rows as the members read them."""
        known, rows, asked = ~inputs["x"].isnan(), inputs["row"], len(self.query_channel)
        n, stop = len(rows), known.sum(1).cumsum(0)
        place = asked * torch.arange(n + 1)
        queries = Queries(
            self.query_channel.repeat(n), self.leads[rows].flatten(), torch.full((n * asked,), torch.nan).double(),
            place[:-1], place[1:], None if self.future is None else self.future[rows].flatten(0, 1),
        )  # fmt: skip
        x, channel, times = (inputs[name][known] for name in ("x", "channel", "times"))
        data = EventsData(
            x, channel, times, torch.zeros(n, dtype=torch.float64), stop - known.sum(1), stop, queries,
            self.maker.scale, dtype=torch.float64,
        )  # fmt: skip
        if self.maker.static_dim:
            levels = [self.maker.scale.levels(data)] if self.maker.with_levels else []
            data.static = torch.cat([self.static[rows], *levels], 1)
        return data


def observed_rows(model: NSACForecaster, frame: pd.DataFrame, most: int) -> EventsData:
    """Origins with the targets that follow them within the horizon, evenly spaced."""
    events, maker = read_events(frame, model.columns_), model.events_
    channels = len(model.columns_.targets) + len(model.columns_.covariates)
    seen = events.events.where(events.events.column < channels)
    clock = events.clock(seen.times)
    new = np.append(True, (np.diff(seen.series) != 0) | (np.diff(clock) != 0))[: len(clock)]
    origins = Origins(seen.series[new], clock[new], clock[new])
    followed = maker.observed_queries(events, origins)
    rows = subsample(np.flatnonzero((followed.stop > followed.start).numpy()), most)
    origins = origins.where(rows)
    return maker.rows(events, origins, maker.observed_queries(events, origins), torch.float64)


def _chosen(
    events: EventFrame, model: NSACForecaster, frame: pd.DataFrame, rows: Sequence[int] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Series and times of the forecast origins."""
    columns = model.columns_
    if rows is None:
        channels = len(columns.targets) + len(columns.covariates)
        return np.arange(len(events.names)), events.origins(channels if columns.known_future else None)
    rows = check_rows(rows, len(frame))
    column: Any = frame[columns.time]
    times = read_times(column.reset_index(drop=True), columns.time, columns.reading)[0][rows]
    if columns.series is None:
        return np.zeros(len(rows), dtype=np.int64), times
    number = {name: i for i, name in enumerate(events.names)}
    return np.array([number[name] for name in frame[columns.series].iloc[rows]]), times


def _one_series_per_origin(
    events: EventFrame, model: NSACForecaster, series: np.ndarray, times: np.ndarray
) -> EventFrame:
    """A frame in which every origin is a series of its own, which ends with it; what is known in advance stays."""
    columns, maker, all_events = model.columns_, model.events_, events.events
    known_ahead = len(columns.targets) + len(columns.covariates)  # columns from here on
    first = np.searchsorted(all_events.series, np.arange(len(events.names) + 1))
    found: list[list[np.ndarray]] = []
    row_times = times.copy()
    for i, (one, time) in enumerate(zip(series, times, strict=True)):
        own = slice(first[one], first[one + 1])
        at, column, values = all_events.times[own], all_events.column[own], all_events.values[own]
        age = events.clock(np.array([time]))[0] - events.clock(at)
        kept = ((age >= 0) & (age < maker.lookback) | (column >= known_ahead)) & (age >= -maker.horizon)
        found.append([np.full(kept.sum(), i), at[kept], column[kept], values[kept]])
        seen = at[kept & (age >= 0) & (column < known_ahead)]
        if columns.known_future and len(seen):
            row_times[i] = seen[-1]  # the origin is the last observation; later rows are what is predicted
    joined: list[Any] = [np.concatenate(column) for column in zip(*found, strict=True)]
    names = list(range(len(series)))
    static = events.static[series]
    return EventFrame(names, Observed(*joined), np.arange(len(series)), row_times, static, events.time_dtype)


def _time_unit(model: NSACForecaster) -> tuple[str, float]:
    """Name of the unit in which times are shown, and its length on the clock."""
    if model.axis_.dtype == np.dtype(np.float64):
        return "", 1.0
    step = model.events_.horizon / model.horizon_
    return next((each for each in TIME_UNITS if each[1] <= 2 * step), TIME_UNITS[-1])
