"""Attributions that add up to a prediction: sampled Shapley values for tables, a path integral for series."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nsac._torch import plain_autograd, single_threaded
from nsac.explain.series import AbstractSeriesSubject
from nsac.explain.subjects import QUANTITIES, TableSubject
from nsac.models.encoder import Batch

EVALUATED_ROWS = 24_000  # predicted rows that the attributions of a table may take, if at least one pair of orders fits
MAX_PAIRS = 20  # pairs of orders of the features per row; each pair has its own baseline row
MAX_PATHS = 60  # path integrals, over all rows, up to which every row has several baselines
PATH_NODES = (32, 128)  # nodes of the path integral: more if the attributions do not add up
MAX_RESIDUAL = 0.005  # largest residual of a path integral, relative to the sum of the sizes of its attributions
MAX_LEADS = 3  # lead times of a series that have attributions of their own

Evaluate = Callable[[Batch], np.ndarray]  # inputs -> (3, n, outputs)


def table_attributions(
    subject: TableSubject, predicted: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    r"""Shapley values of the features of each row, (3, n, features, outputs), and the baseline, (3, outputs).

    The value of a feature is its mean effect when the values of a baseline row, a training row that the model keeps,
    are replaced by those of the row, one feature at a time in a random order. Every order is used in both directions.
    The effects of an order add up to the difference between the predictions of the row and of the baseline row, so
    attributions and baseline add up to the prediction, whatever the model and however few orders there are.

    Args:
        subject: rows and model.
        predicted: (3, n, outputs), their predictions.
        generator: draws the orders.
    """
    n, features = len(subject), len(subject.features)
    pairs = int(np.clip(EVALUATED_ROWS // max(1, 2 * n * (features - 1)), 1, MAX_PAIRS))
    baselines = subject.baselines
    at_baseline = subject.predict(baselines).quantities  # (3, donors, outputs)
    chosen = _representative(at_baseline[0], pairs)
    total = np.zeros((3, n, features, predicted.shape[2]))
    orders = [generator.permuted(np.tile(np.arange(features), (n, 1)), axis=1) for _ in chosen]
    for donor, order in zip(chosen, orders, strict=True):
        baseline = {name: each[donor] for name, each in baselines.items()}
        for each in (order, order[:, ::-1]):
            total += _effects(subject, each, baseline, predicted, at_baseline[:, donor])
    return total / (2 * len(chosen)), at_baseline[:, chosen].mean(1)


def _effects(
    subject: TableSubject, order: np.ndarray, baseline: Batch, predicted: np.ndarray, at_baseline: np.ndarray
) -> np.ndarray:
    """Change of the prediction by each feature when they are replaced in this order, (n, features), row by row."""
    n, features = order.shape
    rank = np.argsort(order, axis=1)  # n features: when a feature is replaced
    steps = [np.broadcast_to(at_baseline[:, None], predicted.shape)]
    if features > 1:
        count = torch.arange(1, features)[:, None, None]  # features replaced so far
        inputs = {}
        for name, column in subject.inputs.items():
            when = torch.from_numpy(rank[:, subject.players[name]])  # n columns
            inputs[name] = torch.where(when < count, column, baseline[name]).flatten(0, 1)
        between = subject.predict(inputs).quantities
        steps += list(between.reshape(3, features - 1, n, -1).transpose(1, 0, 2, 3))
    change = np.diff(np.stack([*steps, predicted]), axis=0)  # features 3 n outputs, in the order of the replacement
    return np.take_along_axis(change.transpose(1, 2, 0, 3), rank[None, :, :, None], 2)


def _representative(means: np.ndarray, count: int) -> list[int]:
    """Baseline rows, (rows, outputs), whose mean prediction is close to that of all, chosen one after the other."""
    centre, unit = means.mean(0), means.std(0) + 1e-12
    chosen: list[int] = []
    while len(chosen) < min(count, len(means)):
        others = [i for i in range(len(means)) if i not in chosen]
        distance = [np.abs((means[[*chosen, i]].mean(0) - centre) / unit).sum() for i in others]
        chosen.append(others[int(np.argmin(distance))])
    return chosen


class SeriesAttributions(NamedTuple):
    """Attributions of one row of a series."""

    values: np.ndarray  # (3, leads, *shape of the row), of each value; 0 where it is missing
    calendar: np.ndarray  # (3, leads), of the time of the forecast
    base: np.ndarray  # (3, leads), prediction of the baselines
    residual: float  # of the path integral before it was shared out, relative to the sum of all sizes


def series_attributions(
    subject: AbstractSeriesSubject, row: int, leads: list[int], baselines: int
) -> SeriesAttributions:
    r"""Attributions of one row to each observation, by path integrals (integrated gradients).

    $$A_i = (x_i - b_i) \int_0^1 \frac{\partial f}{\partial x_i}\big(b + s\,(x - b)\big)\,ds$$

    averaged over baselines b, other windows of the series that are familiar to the model; a value that is missing in
    x is missing along the whole path. The integral is a Gauss-Legendre sum. What it lacks to the difference of the
    predictions, less than a per cent, is shared out in proportion to $|A_i|$.
    """
    inputs = {name: each[row : row + 1] for name, each in subject.inputs.items()}
    ends = _quantities(subject, inputs, leads)
    found = [_along_path(subject, inputs, b, ends, leads) for b in range(min(baselines, len(subject.baselines["x"])))]
    values, calendar, base = (np.mean(column, 0) for column in list(zip(*found, strict=True))[:3])
    return SeriesAttributions(values, calendar, base, max(each.residual for each in found))


def _along_path(
    subject: AbstractSeriesSubject, inputs: Batch, baseline: int, end: np.ndarray, leads: list[int]
) -> SeriesAttributions:
    start = {name: each[baseline : baseline + 1] for name, each in subject.baselines.items()}
    start["x"] = start["x"].masked_fill(inputs["x"].isnan(), torch.nan)
    base = _quantities(subject, start, leads)
    for nodes in PATH_NODES:
        values, calendar = _path_integral(subject, inputs, start, leads, nodes)
        axes = tuple(range(2, values.ndim))
        lacks, size = end - base - values.sum(axes) - calendar, np.abs(values).sum(axes) + np.abs(calendar)
        share = lacks / np.maximum(size, 1e-300)
        if np.abs(share).max() < MAX_RESIDUAL:
            break
    spread = share.reshape(*share.shape, *(1 for _ in axes))
    values, calendar = values + np.abs(values) * spread, calendar + np.abs(calendar) * share
    steps = subject.steps(start)
    if steps is not None:
        _add_steps(subject, inputs, start, leads, values, calendar, np.random.default_rng(baseline))
        base[0] += steps[0, leads]
    return SeriesAttributions(values, calendar, base, float(np.abs(share).max()))


def _add_steps(
    subject: AbstractSeriesSubject,
    inputs: Batch,
    start: Batch,
    leads: list[int],
    values: np.ndarray,
    calendar: np.ndarray,
    generator: np.random.Generator,
) -> None:
    """Add the attributions of what has no gradient, as sampled Shapley values: observations are replaced one by one."""
    places = torch.nonzero(~inputs["x"][0].isnan()).numpy()  # then the calendar
    count = len(places) + 1
    order = generator.permutation(count)
    for each in (order, order[::-1]):
        rank = np.argsort(each)
        taken = torch.from_numpy(rank < np.arange(count + 1)[:, None])  # replaced so far
        mask = torch.zeros(count + 1, *inputs["x"].shape[1:], dtype=torch.bool)
        mask[:, places[:, 0], places[:, 1]] = taken[:, :-1]
        path = {"x": torch.where(mask, inputs["x"], start["x"])}
        path["calendar"] = torch.where(taken[:, -1:], inputs["calendar"], start["calendar"])
        steps = subject.steps(path)
        assert steps is not None
        change = np.diff(steps[:, leads], axis=0)[rank] / 2  # by place, half of each direction
        values[0][:, places[:, 0], places[:, 1]] += change[:-1].T
        calendar[0] += change[-1]


def _path_integral(
    subject: AbstractSeriesSubject, inputs: Batch, start: Batch, leads: list[int], nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    points, weights = np.polynomial.legendre.leggauss(nodes)
    place, weight = torch.from_numpy((points + 1) / 2), torch.from_numpy(weights / 2)
    with single_threaded(), plain_autograd():
        path = {}
        for name, end in inputs.items():
            shape = (-1, *(1,) * (end.ndim - 1))
            along = start[name] + place.view(shape) * (end - start[name])
            path[name] = along.detach().requires_grad_()
        p = subject.moments(path)
        values, calendar = [], []
        for quantity in QUANTITIES:
            column: Tensor = getattr(p, quantity)
            for lead in leads:
                gradients = torch.autograd.grad(
                    (weight * column[:, lead]).sum(), list(path.values()), retain_graph=True, allow_unused=True
                )
                found = {}
                for name, gradient in zip(path, gradients, strict=True):
                    difference = (inputs[name] - start[name])[0]
                    slope = torch.zeros_like(difference) if gradient is None else gradient.nan_to_num().sum(0)
                    found[name] = (slope * difference).nan_to_num()
                values.append(found["x"].numpy())
                calendar.append(float(found["calendar"].sum()))
    shape = (len(QUANTITIES), len(leads))
    return np.stack(values).reshape(*shape, *values[0].shape), np.array(calendar).reshape(shape)


def _quantities(subject: AbstractSeriesSubject, inputs: Batch, leads: list[int]) -> np.ndarray:
    with torch.no_grad():
        p = subject.moments(inputs)
    return np.stack([getattr(p, quantity)[0, leads].numpy() for quantity in QUANTITIES])


def spread_leads(horizon: int) -> list[int]:
    """Lead times that have attributions: the first, the middle and the last."""
    return sorted({0, (horizon - 1) // 2, horizon - 1})[:MAX_LEADS]
