"""Attributions of the observations of a series that add up to a forecast: sampled Shapley values."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from nsac.explain.events import EventSubject
from nsac.explain.series import FORECAST_TIME, AbstractSeriesSubject, WindowSubject

EVALUATED_ROWS = 8_000  # predicted rows that the attributions may take, if every row gets a pair of orders
MIN_PLAYERS = 5  # groups of observations of a row at least, where there are too many rows for single ones
MAX_PAIRS = 10  # pairs of orders per row

Present = Sequence[np.ndarray]  # (groups,) each: which groups of a row have their own values
Evaluate = Callable[[int, np.ndarray, Present], np.ndarray]  # pair, rows (m,), m `Present` -> (3, m, outputs)


class Attributed(NamedTuple):
    """Attributions of all rows."""

    values: list[np.ndarray]  # (3, observations, outputs) each, in the order of `subject.observations`
    calendar: np.ndarray  # (3, n, outputs), of the time of the forecast; 0 if it is no feature
    base: np.ndarray  # (3, n, outputs), prediction of the baseline


class Players(NamedTuple):
    """Observations of a row that are added together, neighbours in time of one channel."""

    group: np.ndarray  # (observations,), number of the group
    count: int  # groups


def event_attributions(subject: EventSubject, predicted: np.ndarray, generator: np.random.Generator) -> Attributed:
    """Shapley values of the presence of each observation of irregular series.

    The baseline is the prediction without any observation: what the model expects of a series of which it knows
    attributes and times only.

    Args:
        subject: rows and model, with the outputs to explain.
        predicted: (3, n, outputs), their predictions.
        generator: draws the orders.
    """
    players, pairs = _players(subject, 0)
    places = [np.array([each.place[0] for each in subject.observations(row)], int) for row in range(len(subject))]

    def evaluate(_: int, rows: np.ndarray, present: Present) -> np.ndarray:
        inputs = {name: each[torch.from_numpy(rows)] for name, each in subject.inputs.items()}
        for i, (row, added) in enumerate(zip(rows, present, strict=True)):
            inputs["x"][i, torch.from_numpy(places[row][~added[players[row].group]])] = torch.nan
        return subject.predict(inputs).quantities

    found, base = _shapley([each.count for each in players], evaluate, predicted, pairs, generator)
    return Attributed(_shared(found, players), np.zeros_like(base), base)


def window_attributions(
    subject: WindowSubject, leads: list[int], predicted: np.ndarray, generator: np.random.Generator
) -> Attributed:
    """Shapley values of the observations of windows: values of another window are replaced by those of the row.

    The baselines are other windows of the series that are familiar to the model; a value that is missing in the row is
    missing there too. The calendar is replaced as a whole.

    Args:
        subject: rows and model.
        leads: outputs to explain.
        predicted: (3, n, leads), their predictions.
        generator: draws the orders.
    """
    dated = FORECAST_TIME in subject.features
    players, pairs = _players(subject, int(dated))
    places = [np.array([each.place for each in subject.observations(row)], int) for row in range(len(subject))]
    baselines = subject.baselines

    def evaluate(pair: int, rows: np.ndarray, present: Present) -> np.ndarray:
        inputs = {name: each[torch.from_numpy(rows)].clone() for name, each in subject.inputs.items()}
        start = {name: each[pair % len(each)] for name, each in baselines.items()}
        for i, (row, added) in enumerate(zip(rows, present, strict=True)):
            step, channel = torch.from_numpy(places[row][~added[players[row].group]]).T
            inputs["x"][i, step, channel] = start["x"][step, channel]
            if dated and not added[-1]:
                inputs["calendar"][i] = start["calendar"]
        return subject.predict(inputs).quantities[:, :, leads]

    counts = [each.count + dated for each in players]
    found, base = _shapley(counts, evaluate, predicted, pairs, generator)
    calendar = np.stack([each[:, -1] for each in found], 1) if dated else np.zeros_like(base)
    return Attributed(_shared([each[:, : len(each[0]) - dated] for each in found], players), calendar, base)


def _players(subject: AbstractSeriesSubject, further: int) -> tuple[list[Players], int]:
    """Groups of each row, and the number of pairs of orders that the budget allows with `further` groups per row."""
    n = len(subject)
    most = max(MIN_PLAYERS, EVALUATED_ROWS // (2 * n)) - further
    players = [_group([each.channel for each in subject.observations(row)], most) for row in range(n)]
    needed = 2 * sum(max(each.count + further - 1, 0) for each in players)
    return players, int(np.clip(EVALUATED_ROWS // max(needed, 1), 1, MAX_PAIRS))


def _group(channels: Sequence[int], most: int) -> Players:
    """At most so many groups, or one per channel; of a channel they are blocks of equal numbers."""
    channel, group, count = np.array(channels, dtype=np.int64), np.zeros(len(channels), dtype=np.int64), 0
    for each in np.unique(channel):
        own = np.flatnonzero(channel == each)
        blocks = len(own) if len(channel) <= most else max(1, int(most * len(own) / len(channel)))
        for block in np.array_split(own, blocks):
            group[block] = count
            count += 1
    return Players(group, count)


def _shared(found: Sequence[np.ndarray], players: Sequence[Players]) -> list[np.ndarray]:
    """Values of groups, (3, groups, outputs), shared equally by their observations."""
    sizes = [np.bincount(each.group, minlength=each.count)[each.group, None] for each in players]
    return [f[:, each.group] / size for f, each, size in zip(found, players, sizes, strict=True)]


def _shapley(
    counts: Sequence[int], evaluate: Evaluate, predicted: np.ndarray, pairs: int, generator: np.random.Generator
) -> tuple[list[np.ndarray], np.ndarray]:
    """Shapley values of the groups of each row, (3, groups, outputs), and the baseline, (3, n, outputs).

    Groups are added to the baseline one by one, in a random order and its reverse; the value of a group is the mean
    change when it is added. Changes add up to the difference from the baseline, whatever the model.
    """
    n = len(counts)
    found = [np.zeros((3, count, predicted.shape[2])) for count in counts]
    base = np.zeros_like(predicted)
    for pair in range(pairs):
        start = evaluate(pair, np.arange(n), [np.zeros(count, dtype=bool) for count in counts])
        base += start / pairs
        orders = [generator.permutation(count) for count in counts]
        for direction in (1, -1):
            ranks = [np.argsort(order[::direction]) for order in orders]
            owner = np.repeat(np.arange(n), [max(count - 1, 0) for count in counts])
            present = [rank < added for rank, count in zip(ranks, counts, strict=True) for added in range(1, count)]
            between = evaluate(pair, owner, present) if len(owner) else np.zeros((3, 0, predicted.shape[2]))
            at = 0
            for row, (rank, count) in enumerate(zip(ranks, counts, strict=True)):
                steps = max(count - 1, 0)
                path = np.concatenate([start[:, row, None], between[:, at : at + steps], predicted[:, row, None]], 1)
                found[row] += (path[:, 1:] - path[:, :-1])[:, rank] / (2 * pairs)
                at += steps
    return found, base
