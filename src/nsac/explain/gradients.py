"""Integrated gradients of windows: attributions of observations by a path integral."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nsac._torch import plain_autograd, single_threaded
from nsac.explain.series import WindowSubject
from nsac.explain.subjects import QUANTITIES
from nsac.models.encoder import Batch

PATH_NODES = (32, 128, 512)  # nodes of the path integral: more if the attributions do not add up
MAX_RESIDUAL = 0.005  # largest residual of a path integral, relative to the sum of the sizes of its attributions


class PathIntegral(NamedTuple):
    """Attributions of one window."""

    values: np.ndarray  # (3, leads, *shape of the row), of each value; 0 where it is missing
    calendar: np.ndarray  # (3, leads), of the time of the forecast
    base: np.ndarray  # (3, leads), prediction of the baselines
    residual: float  # of the path integral before it was shared out, relative to the sum of all sizes


def integrated_gradients(subject: WindowSubject, row: int, leads: list[int], baselines: int) -> PathIntegral:
    r"""Attributions of one row to each observation, by path integrals (integrated gradients).

    $$A_i = (x_i - b_i) \int_0^1 \frac{\partial f}{\partial x_i}\big(b + s\,(x - b)\big)\,ds$$

    averaged over baselines b, other windows of the series that are familiar to the model; a value that is missing in
    x is missing along the whole path. The integral is a Gauss-Legendre sum. What it lacks to the difference of the
    predictions, usually less than a per cent, is the `residual`; it is shared out in proportion to $|A_i|$. Trees have
    no gradient: their contribution is a sampled Shapley value.
    """
    inputs = {name: each[row : row + 1] for name, each in subject.inputs.items()}
    ends = _quantities(subject, inputs, leads)
    found = [_along_path(subject, inputs, b, ends, leads) for b in range(min(baselines, len(subject.baselines["x"])))]
    values, calendar, base = (np.mean(column, 0) for column in list(zip(*found, strict=True))[:3])
    return PathIntegral(values, calendar, base, max(each.residual for each in found))


def _along_path(
    subject: WindowSubject, inputs: Batch, baseline: int, end: np.ndarray, leads: list[int]
) -> PathIntegral:
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
    return PathIntegral(values, calendar, base, float(np.abs(share).max()))


def _add_steps(
    subject: WindowSubject,
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
    subject: WindowSubject, inputs: Batch, start: Batch, leads: list[int], nodes: int
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


def _quantities(subject: WindowSubject, inputs: Batch, leads: list[int]) -> np.ndarray:
    with torch.no_grad():
        p = subject.moments(inputs)
    return np.stack([getattr(p, quantity)[0, leads].numpy() for quantity in QUANTITIES])
