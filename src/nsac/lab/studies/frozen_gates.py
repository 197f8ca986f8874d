r"""Gates that are frozen between updates, compared with gates that vary in time.

The paper's frozen-coefficient analysis (Table 3 and the figure of a step change) does not define its numbers. This
module defines ours. The key of one query-key pair carries a drive signal $u(s)$, $s \in [0, 1]$, which is the whole
range of a head's internal time; the query is 0. The gates of a layer become functions of time, $\kappa(s), \phi(s),
\psi(s)$, in each head.

- *Varying*: moments of $da = \kappa(s)(\phi(s) - a)\,ds + \psi(s)\,dW$ from $a(0) = 0$, on a fine grid that serves as
  the reference.
- *Frozen*: [0, 1] is divided into updates of equal length. Within an update the gates keep the values of its start,
  and the closed form carries mean and variance to the next update.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from nsac.core import Lipschitz, frozen_bounds, piecewise_moments
from nsac.layers import NSAC, NSACLoss

CELLS_PER_UPDATE = 50
"""Cells of the fine grid. The error of the reference is then 1e-5, a thousandth of the errors it measures."""

JUMP_TIMES, STEP_VALUES = (0.22, 0.47, 0.71), (-0.8, 0.6, -0.3, 0.9)
"""The step signal. A jump at the start of an update would cause no error; none of the default 20 updates starts at
one."""

CELLS_PER_POINT = 2
"""Cells per point of a figure."""

ROUNDING_TOLERANCE = 1e-12
"""Added to a bound before an error is divided by it: where no gate moves, both are 0 up to rounding."""


def slow(s: Tensor) -> Tensor:
    """Half a cycle."""
    return torch.sin(math.pi * s)


def fast(s: Tensor) -> Tensor:
    """Three cycles."""
    return torch.sin(6 * math.pi * s)


def step(s: Tensor) -> Tensor:
    """Four constant pieces."""
    return s.new_tensor(STEP_VALUES)[torch.bucketize(s, s.new_tensor(JUMP_TIMES), right=True)]


def oscillatory(s: Tensor) -> Tensor:
    """Two cycles, with seven faster ones on top."""
    return (2 * torch.sin(4 * math.pi * s) + torch.sin(14 * math.pi * s)) / 3


REGIMES: dict[str, Callable[[Tensor], Tensor]] = {"slow": slow, "fast": fast, "step": step, "oscillatory": oscillatory}
"""Drive signals on [0, 1] with values in [-1, 1], by the paper's name."""


@dataclass(frozen=True)
class FrozenErrors:
    """Errors of the frozen closed form in one regime; all numbers are in %."""

    mean_error: float
    """of the logit's mean: |frozen - varying|, averaged over time and heads, each head in units of the range (largest
    minus smallest value over [0, 1]) of its varying mean"""
    max_error: float
    """the same, largest instead of average"""
    std_mean_error: float
    """of the logit's standard deviation, likewise, in units of its own range"""
    std_max_error: float
    """the same, largest"""
    phi_variation: float
    """variation of the gate within an update (largest minus smallest value), averaged over updates and heads, each
    head in units of the gate's mean magnitude over [0, 1]"""
    kappa_variation: float
    """likewise"""
    psi_variation: float
    """likewise"""
    bound_use: float
    """largest error divided by its bound (`core.frozen_bounds`), over times, heads and both moments. Each update is
    considered separately: both logits start at the varying mean with variance 0, as in the theorem"""


class _Gates(NamedTuple):
    phi: Tensor
    kappa: Tensor
    psi: Tensor


class _Response(NamedTuple):
    """Response to one drive signal on the fine grid. Times are ends of cells; heads are the last axis."""

    time: Tensor  # (cells,)
    signal: Tensor  # (cells,), at the middle of each cell
    varying: _Gates  # (cells, heads), at the middle of each cell
    frozen: _Gates  # (updates, heads), at the start of each update
    mean: Tensor  # (cells, heads): the reference
    var: Tensor
    frozen_mean: Tensor  # (cells, heads): the closed form
    frozen_var: Tensor


def frozen_errors(layer: NSAC, updates: int = 20) -> dict[str, FrozenErrors]:
    """Errors of freezing the gates between updates, by regime.

    Args:
        layer: has `input_dim=1`, for the drive is one signal, and `topk` of at least 2, so that its key is always
            selected.
        updates: number of times in [0, 1] at which the gates are read.
    """
    return {name: _errors(_respond(layer, signal, updates)) for name, signal in REGIMES.items()}


def step_series(layer: NSAC, updates: int = 20) -> dict[str, list[float]]:
    """Response to the step signal in the head whose target phi varies most, at every second cell.

    `held_*` are the frozen gates, one value per update.
    """
    response = _respond(layer, step, updates)
    phi = response.varying.phi
    head = int((phi.amax(0) - phi.amin(0)).argmax())
    lines = {
        "time": response.time,
        "signal": response.signal,
        **{name: gate[:, head] for name, gate in response.varying._asdict().items()},
        "mean": response.mean[:, head],
        "std": response.var[:, head].sqrt(),
        "frozen_mean": response.frozen_mean[:, head],
        "frozen_std": response.frozen_var[:, head].sqrt(),
        "mean_error": _relative_error(response.frozen_mean, response.mean)[:, head],
        "std_error": _relative_error(response.frozen_var.sqrt(), response.var.sqrt())[:, head],
    }
    held = {f"held_{name}": gate[:, head].tolist() for name, gate in response.frozen._asdict().items()}
    return {name: line[CELLS_PER_POINT - 1 :: CELLS_PER_POINT].tolist() for name, line in lines.items()} | held


def trained_layer(seed: int, steps: int = 400, window: int = 16, batch: int = 64) -> NSAC:
    """A small layer of the paper after `steps` of AdamW on predicting the next value of the regimes, mixed."""
    layer = NSAC(1, 1, d_model=16, num_heads=4, circuit_units=16, head="paper", seed=seed)
    generator = torch.Generator().manual_seed(seed)
    grid = torch.linspace(0, 1, 128)
    windows = torch.cat([signal(grid).unfold(0, window + 1, 1) for signal in REGIMES.values()])[..., None]
    optimiser, loss = torch.optim.AdamW(layer.parameters(), lr=3e-3), NSACLoss()
    for _ in range(steps):
        rows = windows[torch.randint(len(windows), (batch,), generator=generator)]
        optimiser.zero_grad()
        loss(layer, rows[:, :-1], rows[:, -1], generator).backward()
        optimiser.step()
    return layer


def _respond(layer: NSAC, signal: Callable[[Tensor], Tensor], updates: int) -> _Response:
    cells = updates * CELLS_PER_UPDATE
    edges = torch.arange(cells + 1, dtype=torch.float64) / cells
    middles = (edges[1:] + edges[:-1]) / 2
    varying = _read_gates(layer, signal(middles))
    frozen = _read_gates(layer, signal(edges[:-1:CELLS_PER_UPDATE].contiguous()))
    # The closed form, chained over updates, gives the moments under step functions. Both are read at every cell's end.
    held = _Gates(*(gate.repeat_interleave(CELLS_PER_UPDATE, 0) for gate in frozen))
    mean, var = piecewise_moments(*varying, dt=1 / cells)
    frozen_mean, frozen_var = piecewise_moments(*held, dt=1 / cells)
    return _Response(edges[1:], signal(middles), varying, frozen, mean, var, frozen_mean, frozen_var)


def _read_gates(layer: NSAC, signal: Tensor) -> _Gates:
    """The gates of the pair (query 0, key u) for each value u: (n,) -> (n, heads), in double precision."""
    like = next(layer.parameters())
    key = signal.to(like)
    cells = layer.trace(torch.stack([key, torch.zeros_like(key)], 1)[..., None])  # two tokens: key, then query
    first = cells["index"][:, :, -1].eq(0)  # (n, heads, keys): the entry of token 0, wherever selection put it
    return _Gates(*(cells[name][:, :, -1][first].view(len(key), -1).double().cpu() for name in _Gates._fields))


def _errors(response: _Response) -> FrozenErrors:
    mean_error = _relative_error(response.frozen_mean, response.mean)
    std_error = _relative_error(response.frozen_var.sqrt(), response.var.sqrt())
    return FrozenErrors(
        mean_error=mean_error.mean().item(),
        max_error=mean_error.max().item(),
        std_mean_error=std_error.mean().item(),
        std_max_error=std_error.max().item(),
        phi_variation=_variation(response.varying.phi),
        kappa_variation=_variation(response.varying.kappa),
        psi_variation=_variation(response.varying.psi),
        bound_use=_bound_use(response),
    )


def _relative_error(frozen: Tensor, varying: Tensor) -> Tensor:
    """In % of each head's range; both start at 0, which the grid of cell ends does not contain."""
    extent = varying.amax(0).clamp(min=0) - varying.amin(0).clamp(max=0)
    return 100 * (frozen - varying).abs() / extent


def _variation(gate: Tensor) -> float:
    within = gate.unflatten(0, (-1, CELLS_PER_UPDATE))  # updates, cells, heads
    moved = within.amax(1) - within.amin(1)
    return (100 * moved / gate.abs().mean(0)).mean().item()


def _bound_use(response: _Response) -> float:
    dt = 1 / len(response.time)
    since = response.time[:CELLS_PER_UPDATE]
    # Columns are pairs of an update and a head; rows are the cells of an update.
    varying = _Gates(*(gate.unflatten(0, (-1, CELLS_PER_UPDATE)).movedim(1, 0).flatten(1) for gate in response.varying))
    frozen = _Gates(*(gate.flatten() for gate in response.frozen))
    ends = response.mean[CELLS_PER_UPDATE - 1 : -1 : CELLS_PER_UPDATE]
    start = torch.cat([torch.zeros_like(response.mean[:1]), ends]).flatten()
    held = _Gates(*(gate.expand(CELLS_PER_UPDATE, -1) for gate in frozen))
    mean, var = piecewise_moments(*varying, dt=dt, a0=start)
    frozen_mean, frozen_var = piecewise_moments(*held, dt=dt, a0=start)
    # The derivation uses only |c(s) - c(0)| <= L s. Where c is constant on a cell, its left end requires the largest L.
    # The left end of the first cell is 0, so its middle is used: over [0, h] the constant L h/2 has the same integral
    # as L s.
    left = (since - dt).clamp(min=dt / 2)[:, None]
    slopes = [((c - c0).abs() / left).amax(0) for c, c0 in zip(varying, frozen, strict=True)]
    columns = torch.stack([frozen.kappa, frozen.psi, (start - frozen.phi).abs(), *slopes], 1).tolist()
    bounds = [
        frozen_bounds(since, kappa0, psi0, c_mu, Lipschitz(kappa=l_kappa, phi=l_phi, psi=l_psi))
        for kappa0, psi0, c_mu, l_phi, l_kappa, l_psi in columns
    ]
    mean_bound = torch.stack([bound[0] for bound in bounds], 1)
    var_bound = torch.stack([bound[1] for bound in bounds], 1)
    mean_use = (mean - frozen_mean).abs() / (mean_bound + ROUNDING_TOLERANCE)
    var_use = (var - frozen_var).abs() / (var_bound + ROUNDING_TOLERANCE)
    return 100 * max(mean_use.max().item(), var_use.max().item())
