"""Small problems with known answers, shared by tests."""

import math
from dataclasses import dataclass

import torch

from nsac.methods import AbstractProblem, EventsProblem, FrameProblem, SeriesProblem, TableProblem, WindowProblem
from nsac.training import TensorData


@dataclass(frozen=True)
class Split:
    problem: AbstractProblem
    train: TensorData
    validation: TensorData
    test: TensorData
    true_nll: float = math.nan
    """negative log-likelihood of the test split under the true density"""


def sine(n: int = 3000, generator: torch.Generator | None = None) -> Split:
    """Heteroscedastic: y = sin 2x + s(x) e, s = 0.1 + 0.3 sigmoid 2x, x uniform; one feature, one output."""
    x = 4 * torch.rand(n, 1, generator=generator) - 2
    std = 0.1 + 0.3 * torch.sigmoid(2 * x)
    y = torch.sin(2 * x) + std * torch.randn(n, 1, generator=generator)
    splits = [slice(0, n // 2), slice(n // 2, 2 * n // 3), slice(2 * n // 3, n)]
    test = splits[2]
    nll = -torch.distributions.Normal(torch.sin(2 * x[test]), std[test]).log_prob(y[test]).mean().item()
    return Split(TableProblem(1, 1), *(TensorData(x=x[rows], y=y[rows]) for rows in splits), true_nll=nll)


def walk(n: int = 400, length: int = 16, horizon: int = 4, generator: torch.Generator | None = None) -> Split:
    """Windows of two random walks; the target is the change of the first."""
    path = torch.randn(n + length + horizon, 2, generator=generator).cumsum(0) / 4
    x = path.unfold(0, length, 1)[:n].mT
    last = x[:, -1:, 0]
    y = torch.stack([path[length + h : length + h + n, 0] for h in range(horizon)], 1) - last
    season = x[:, :horizon, 0] - last
    table = {"x": x, "y": y, "persistence": torch.zeros_like(y), "seasonal": season}
    table["calendar"] = torch.randn(n, 2, generator=generator)
    splits = [slice(0, n // 2), slice(n // 2, 3 * n // 4), slice(3 * n // 4, n)]
    problem = WindowProblem(2, horizon, lookback=length, calendar_dim=2)
    return Split(problem, *(TensorData(**{name: column[rows] for name, column in table.items()}) for rows in splits))


def scattered(n: int = 120, generator: torch.Generator | None = None) -> Split:
    """Irregular series: noisy sines with random phase, at random query times."""
    times = torch.rand(n, 20, generator=generator).sort(-1).values
    query_times = torch.rand(n, 6, generator=generator)
    phase = 6 * torch.rand(n, 1, generator=generator)
    x = torch.sin(6 * times + phase)[..., None] + 0.1 * torch.randn(n, 20, 1, generator=generator)
    y = torch.sin(6 * query_times + phase)[..., None]
    table = {"x": x, "times": times, "query_times": query_times, "y": y}
    table["mask"] = torch.rand(n, 20, generator=generator) < 0.2
    splits = [slice(0, n // 2), slice(n // 2, 3 * n // 4), slice(3 * n // 4, n)]
    return Split(SeriesProblem(1, 1), *(TensorData(**{k: v[rows] for k, v in table.items()}) for rows in splits))


def pictures(n: int = 24, generator: torch.Generator | None = None) -> Split:
    """Four frames of noise; the targets are mean and standard deviation of the brightness."""
    x = torch.randn(n, 4, 1, 40, 40, generator=generator)
    x += torch.randn(n, 1, 1, 1, 1, generator=generator)
    y = torch.stack([x.mean((1, 2, 3, 4)), x.std((1, 2, 3, 4))], 1)
    splits = [slice(0, n // 2), slice(n // 2, 3 * n // 4), slice(3 * n // 4, n)]
    return Split(FrameProblem(1, 2, frames=4), *(TensorData(x=x[rows], y=y[rows]) for rows in splits))


def sporadic(n: int = 120, generator: torch.Generator | None = None) -> Split:
    """Two noisy sines of random phase at random times, and a third channel that is seldom observed."""
    times = -torch.rand(n, 20, generator=generator)
    channel = torch.randint(0, 3, (n, 20), generator=generator)
    query_times = torch.rand(n, 6, generator=generator)
    query_channel = torch.randint(0, 2, (n, 6), generator=generator)
    phase = 6 * torch.rand(n, 1, generator=generator)
    x = torch.sin(6 * times + phase + channel) + 0.1 * torch.randn(n, 20, generator=generator)
    y = torch.sin(6 * query_times + phase + query_channel)
    y = y + 0.1 * torch.randn(n, 6, generator=generator)
    query_mask = torch.rand(n, 6, generator=generator) < 0.2
    static = torch.randn(n, 2, generator=generator)
    static[::3, 0] = math.nan
    table = {
        "x": x, "channel": channel, "times": times, "query_channel": query_channel, "query_times": query_times,
        "static": static, "future": torch.cos(6 * query_times)[..., None], "y": y[..., None], "query_mask": query_mask,
        "mask": (torch.rand(n, 20, generator=generator) < 0.2) | ((channel == 2) & (times < -0.2)),
    }  # fmt: skip
    splits = [slice(0, n // 2), slice(n // 2, 3 * n // 4), slice(3 * n // 4, n)]
    problem = EventsProblem(channels=3, targets=(0, 1), static_dim=2, future_dim=1)
    return Split(problem, *(TensorData(**{k: v[rows] for k, v in table.items()}) for rows in splits))


PROBLEMS = {"table": sine, "windows": walk, "series": scattered, "frames": pictures, "events": sporadic}
