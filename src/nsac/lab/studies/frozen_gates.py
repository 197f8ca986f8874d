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
from typing import Any

import torch
from torch import Tensor

from nsac.core import Lipschitz, frozen_bounds, piecewise_moments
from nsac.layers import NSAC, NSACLoss

GATES = ("phi", "kappa", "psi")

CELLS_PER_UPDATE = 50
"""Cells of the fine grid. The error of the reference is then 1e-5, a thousandth of the errors it measures."""

JUMP_TIMES, STEP_VALUES = (0.22, 0.47, 0.71), (-0.8, 0.6, -0.3, 0.9)
"""The step signal. A jump at the start of an update would cause no error; none of the default 20 updates starts at
one."""

ROUNDING_TOLERANCE = 1e-12
"""Added to a bound before an error is divided by it: where no gate moves, both are 0 up to rounding."""


def step(s: Tensor) -> Tensor:
    """Four constant pieces."""
    return s.new_tensor(STEP_VALUES)[torch.bucketize(s, s.new_tensor(JUMP_TIMES), right=True)]


REGIMES: dict[str, Callable[[Tensor], Tensor]] = {
    "slow": lambda s: torch.sin(math.pi * s),
    "fast": lambda s: torch.sin(6 * math.pi * s),
    "step": step,
    "oscillatory": lambda s: (2 * torch.sin(4 * math.pi * s) + torch.sin(14 * math.pi * s)) / 3,
}
"""Drive signals on [0, 1] with values in [-1, 1], by the paper's name."""


def frozen_errors(layer: NSAC, updates: int = 20) -> dict[str, dict[str, float]]:
    """Errors of freezing the gates between updates, by regime; all numbers are in %.

    - `mean_error`: of the logit's mean, |frozen - varying|, averaged over time and heads, each head in units of the
      range (largest minus smallest value over [0, 1]) of its varying mean. `max_error`: the largest.
    - `std_mean_error`, `std_max_error`: of the logit's standard deviation, likewise, in units of its own range.
    - `phi_variation`, `kappa_variation`, `psi_variation`: of the gate within an update (largest minus smallest value),
      averaged over updates and heads, each head in units of the gate's mean magnitude over [0, 1].
    - `bound_use`: largest error divided by its bound (`core.frozen_bounds`), over times, heads and both moments. Each
      update is considered separately: both logits start at the varying mean with variance 0, as in the theorem.

    Args:
        layer: has `input_dim=1`, for the drive is one signal, and `topk` of at least 2, so that its key is always
            selected.
        updates: number of times in [0, 1] at which the gates are read.
    """
    regimes = {}
    for name, signal in REGIMES.items():
        response = _respond(layer, signal, updates)
        errors = {f"{gate}_variation": _variation(response[gate]) for gate in GATES}
        for prefix, error in (("", response["mean_error"]), ("std_", response["std_error"])):
            errors |= {f"{prefix}mean_error": error.mean().item(), f"{prefix}max_error": error.max().item()}
        regimes[name] = {**errors, "bound_use": _bound_use(response)}
    return regimes


def step_series(layer: NSAC, updates: int = 20) -> dict[str, list[float]]:
    """Response to the step signal in the head whose target phi varies most, at every second cell.

    `held_*` are the frozen gates, one value per update.
    """
    response = _respond(layer, step, updates)
    head = int((response["phi"].amax(0) - response["phi"].amin(0)).argmax())
    series = {}
    for name, values in response.items():
        line = values if values.ndim == 1 else values[:, head]
        series[name] = (line if name.startswith("held_") else line[1::2]).tolist()
    return series


def trained_layer(seed: int, steps: int = 400) -> NSAC:
    """A small layer of the paper after `steps` of AdamW on predicting the next value of the regimes, mixed."""
    layer = NSAC(1, 1, d_model=16, num_heads=4, circuit_units=16, head="paper", seed=seed)
    generator = torch.Generator().manual_seed(seed)
    grid = torch.linspace(0, 1, 128)
    windows = torch.cat([signal(grid).unfold(0, 17, 1) for signal in REGIMES.values()])[..., None]
    optimiser, loss = torch.optim.AdamW(layer.parameters(), lr=3e-3), NSACLoss()
    for _ in range(steps):
        rows = windows[torch.randint(len(windows), (64,), generator=generator)]
        optimiser.zero_grad()
        loss(layer, rows[:, :-1], rows[:, -1], generator).backward()
        optimiser.step()
    return layer


def _respond(layer: NSAC, signal: Callable[[Tensor], Tensor], updates: int) -> dict[str, Tensor]:
    """Response to one drive signal on the fine grid.

    `time` (ends of cells) and `signal` (at their middles) are (cells,), frozen gates `held_*` (at the starts of
    updates) are (updates, heads), all others (cells, heads). Errors are in % of each head's range.
    """
    cells = updates * CELLS_PER_UPDATE
    edges = torch.arange(cells + 1, dtype=torch.float64) / cells
    drive = signal((edges[1:] + edges[:-1]) / 2)
    varying = _read_gates(layer, drive)
    frozen = _read_gates(layer, signal(edges[:-1:CELLS_PER_UPDATE].contiguous()))
    response = {"time": edges[1:], "signal": drive, **varying, **{f"held_{name}": frozen[name] for name in GATES}}
    # The closed form, chained over updates, gives the moments under step functions. Both are read at every cell's end.
    held = {name: gate.repeat_interleave(CELLS_PER_UPDATE, 0) for name, gate in frozen.items()}
    for prefix, gates in (("", varying), ("frozen_", held)):
        mean, var = piecewise_moments(**gates, dt=1 / cells)
        response |= {f"{prefix}mean": mean, f"{prefix}std": var.sqrt()}
    for moment in ("mean", "std"):
        exact = response[moment]  # it starts at 0, which the grid of cell ends does not contain
        extent = exact.amax(0).clamp(min=0) - exact.amin(0).clamp(max=0)
        response[f"{moment}_error"] = 100 * (response[f"frozen_{moment}"] - exact).abs() / extent
    return response


def _read_gates(layer: NSAC, signal: Tensor) -> dict[str, Tensor]:
    """The gates of the pair (query 0, key u) for each value u: (n,) -> (n, heads), in double precision."""
    key = signal.to(next(layer.parameters()))
    cells = layer.trace(torch.stack([key, torch.zeros_like(key)], 1)[..., None])  # two tokens: key, then query
    first = cells["index"][:, :, -1].eq(0)  # (n, heads, keys): the entry of token 0, wherever selection put it
    return {name: cells[name][:, :, -1][first].view(len(key), -1).double().cpu() for name in GATES}


def _variation(gate: Tensor) -> float:
    within = gate.unflatten(0, (-1, CELLS_PER_UPDATE))  # updates, cells, heads
    moved = within.amax(1) - within.amin(1)
    return (100 * moved / gate.abs().mean(0)).mean().item()


def _bound_use(response: dict[str, Tensor]) -> float:
    reference = response["mean"]
    dt, since = 1 / len(reference), response["time"][:CELLS_PER_UPDATE]
    # Columns are pairs of an update and a head; rows are the cells of an update.
    varying = {name: response[name].unflatten(0, (-1, CELLS_PER_UPDATE)).movedim(1, 0).flatten(1) for name in GATES}
    frozen = {name: response[f"held_{name}"].flatten() for name in GATES}
    held = {name: gate.expand(CELLS_PER_UPDATE, -1) for name, gate in frozen.items()}
    start = torch.cat([torch.zeros_like(reference[:1]), reference[CELLS_PER_UPDATE - 1 : -1 : CELLS_PER_UPDATE]])
    start = start.flatten()
    mean, var = piecewise_moments(**varying, dt=dt, a0=start)
    frozen_mean, frozen_var = piecewise_moments(**held, dt=dt, a0=start)
    # The derivation uses only |c(s) - c(0)| <= L s. Where c is constant on a cell, its left end requires the largest L.
    # The left end of the first cell is 0, so its middle is used: over [0, h] the constant L h/2 has the same integral
    # as L s.
    left = (since - dt).clamp(min=dt / 2)[:, None]
    slopes: Any = {name: ((varying[name] - frozen[name]).abs() / left).amax(0) for name in GATES}
    values: Any = {"kappa0": frozen["kappa"], "psi0": frozen["psi"], "c_mu": (start - frozen["phi"]).abs()}
    mean_bound, var_bound = frozen_bounds(since[:, None], **values, slope=Lipschitz(**slopes))
    mean_use = (mean - frozen_mean).abs() / (mean_bound + ROUNDING_TOLERANCE)
    var_use = (var - frozen_var).abs() / (var_bound + ROUNDING_TOLERANCE)
    return 100 * max(mean_use.max().item(), var_use.max().item())
