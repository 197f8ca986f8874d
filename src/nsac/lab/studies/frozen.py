r"""The closed form with gates frozen between updates, against the logit under gates that vary in time.

The paper's frozen-coefficient analysis (Table 3 and the figure of a step change) does not define its numbers. Ours are
these. The key of one query-key pair carries a signal $u(s)$, $s \in [0, 1]$, the whole range of a head's internal time;
the query stays at 0. So a layer's gates become functions of time, $\kappa(s), \phi(s), \psi(s)$, in each head.

- *Varying*: moments of $da = \kappa(s)(\phi(s) - a)\,ds + \psi(s)\,dW$ from $a(0) = 0$, on a grid fine enough to count
  as the truth.
- *Frozen*: [0, 1] is cut into updates of equal length. Within each, the gates stay what they were at its start, and
  the closed form carries mean and variance on to the next.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from rich.table import Table
from torch import Tensor

from nsac._checks import check_int
from nsac.core import Lipschitz, frozen_bounds, piecewise_moments
from nsac.lab.grid.table import paper_table
from nsac.lab.studies.figure import step_figure
from nsac.layers import NSAC, NSACLoss

CELLS = 50
"""Cells of the fine grid in one update. The truth is then off by 1e-5, a thousandth of the errors it measures."""

JUMPS, LEVELS = (0.22, 0.47, 0.71), (-0.8, 0.6, -0.3, 0.9)
"""The step signal: where it jumps, and its values. A jump at the start of an update would cost nothing; none of the
default 20 updates starts at one."""

THIN = 2
"""Cells per point of a picture."""

ROUNDING = 1e-12
"""Slack when an error is compared with its bound: where no gate moves, both are 0 up to rounding."""

PAPER = {regime: tuple(row.values()) for regime, row in paper_table("table_3").items()}
"""The paper's Table 3, in %: mean error, max error, variation of phi, kappa and psi."""


def slow(s: Tensor) -> Tensor:
    """Half a cycle."""
    return torch.sin(math.pi * s)


def fast(s: Tensor) -> Tensor:
    """Three cycles."""
    return torch.sin(6 * math.pi * s)


def step(s: Tensor) -> Tensor:
    """Four levels."""
    return s.new_tensor(LEVELS)[torch.bucketize(s, s.new_tensor(JUMPS), right=True)]


def oscillatory(s: Tensor) -> Tensor:
    """Two cycles that carry seven faster ones."""
    return (2 * torch.sin(4 * math.pi * s) + torch.sin(14 * math.pi * s)) / 3


REGIMES: dict[str, Callable[[Tensor], Tensor]] = {"slow": slow, "fast": fast, "step": step, "oscillatory": oscillatory}
"""Drive signals on [0, 1] with values in [-1, 1], by the paper's name."""


@dataclass(frozen=True)
class FrozenRecord:
    """Error of the frozen closed form in one regime; all numbers are in %."""

    regime: str
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
    """how far the gate moves within an update (largest minus smallest value), averaged over updates and heads, each
    head in units of the gate's mean magnitude over [0, 1]"""
    kappa_variation: float
    """likewise"""
    psi_variation: float
    """likewise"""
    bound_use: float
    """largest error as a share of its bound (`core.frozen_bounds`), over times, heads and both moments. Each update is
    looked at alone: there, both logits start at the varying mean with variance 0, as the theorem has it"""

    @property
    def bound_holds(self) -> bool:
        """No error of mean or variance exceeds its bound, in any update."""
        return self.bound_use <= 100


class _Gates(NamedTuple):
    phi: Tensor
    kappa: Tensor
    psi: Tensor


class _Drive(NamedTuple):
    """One regime on the fine grid. Times are ends of cells; gates and moments have heads as their last axis."""

    time: Tensor  # (cells,)
    signal: Tensor  # (cells,), at the middle of each cell
    varying: _Gates  # (cells, heads), at the middle of each cell
    frozen: _Gates  # (updates, heads), at the start of each update
    mean: Tensor  # (cells, heads): the truth
    var: Tensor
    frozen_mean: Tensor  # (cells, heads): the closed form
    frozen_var: Tensor


def frozen_analysis(
    layer: NSAC | None = None, updates: int = 20, seeds: Sequence[int] = range(5)
) -> list[FrozenRecord]:
    """Errors of freezing the gates between updates, one record per regime.

    Args:
        layer: whose gates, with `input_dim=1`. None: small ones, each trained for a few seconds to predict the regimes;
            errors and variations are averaged over them, and `bound_use` is the largest.
        updates: how many times in [0, 1] the gates are read.
        seeds: of the layers that are trained when none is given.
    """
    layers = [_check(layer, updates, seed) for seed in (seeds if layer is None else (0,))]
    return [
        _summarise([_record(name, _drive(each, signal, updates)) for each in layers])
        for name, signal in REGIMES.items()
    ]


def _summarise(records: list[FrozenRecord]) -> FrozenRecord:
    numbers = {
        field.name: statistics.mean(getattr(record, field.name) for record in records)
        for field in fields(FrozenRecord)
        if field.name != "regime"
    }
    return FrozenRecord(records[0].regime, **{**numbers, "bound_use": max(record.bound_use for record in records)})


def frozen_table(records: list[FrozenRecord]) -> Table:
    """The paper's Table 3 beside ours, a pair of columns per regime; the last rows are not in the paper."""
    table = Table(title="Freezing the gates between updates", caption=TABLE_NOTE, box=None, padding=(0, 1, 0, 0))
    table.add_column("\n%", no_wrap=True)
    for record in records:
        table.add_column(f"{record.regime}\npaper")
        table.add_column("\nours")
    for column in table.columns[1:]:
        column.justify, column.no_wrap = "right", True
    for place, (field, label) in enumerate(LABELS.items()):
        cells = []
        for record in records:
            paper = PAPER[record.regime]
            cells += [f"{paper[place]:.2f}" if place < len(paper) else "-", f"{getattr(record, field):.2f}"]
        table.add_row(label, *cells)
    return table


LABELS = {
    "mean_error": "mean: error",
    "max_error": "mean: largest error",
    "phi_variation": "movement of φ",
    "kappa_variation": "movement of κ",
    "psi_variation": "movement of ψ",
    "std_mean_error": "std: error",
    "std_max_error": "std: largest error",
    "bound_use": "use of the bound",
}
"""Rows of the table in the order of `PAPER`, then those that the paper does not have."""

TABLE_NOTE = (
    "Errors: of the logit's mean and standard deviation, in % of their range. Movement: of a gate within an update, in "
    "% of its mean size. Use: largest error in % of its bound, which holds up to 100. The paper does not define its "
    "numbers; do not expect ours."
)


def frozen_figure(layer: NSAC | None = None, updates: int = 20, seed: int = 0) -> Figure:
    """The step change in one head: drive, gates, logit under varying gates and in closed form, and the error.

    Args:
        layer, updates: as in `frozen_analysis`.
        seed: of the layer that is trained when none is given. The head whose target phi moves most is drawn.
    """
    return step_figure(step_series(_check(layer, updates, seed), updates))


def step_series(layer: NSAC, updates: int = 20) -> dict[str, list[float]]:
    """What `step_figure` draws, in one head, at every second cell; `held_*` are the gates of each update."""
    drive = _drive(layer, step, updates)
    phi = drive.varying.phi
    head = int((phi.amax(0) - phi.amin(0)).argmax())
    lines = {
        "time": drive.time,
        "signal": drive.signal,
        **{name: gate[:, head] for name, gate in drive.varying._asdict().items()},
        "mean": drive.mean[:, head],
        "std": drive.var[:, head].sqrt(),
        "frozen_mean": drive.frozen_mean[:, head],
        "frozen_std": drive.frozen_var[:, head].sqrt(),
        "mean_error": _relative_error(drive.frozen_mean, drive.mean)[:, head],
        "std_error": _relative_error(drive.frozen_var.sqrt(), drive.var.sqrt())[:, head],
    }
    held = {f"held_{name}": gate[:, head].tolist() for name, gate in drive.frozen._asdict().items()}
    return {name: line[THIN - 1 :: THIN].tolist() for name, line in lines.items()} | held


def _check(layer: NSAC | None, updates: int, seed: int) -> NSAC:
    check_int("updates", updates)
    if layer is None:
        return trained_layer(seed)
    inputs, topk = layer.attention.input_dim, layer.attention.topk
    if inputs != 1 or topk < 2:
        raise ValueError(
            "`layer` must have input_dim=1, for the drive is one signal, and topk at least 2, so that its key is always"
            f" looked at. Got input_dim={inputs} and topk={topk} instead. Build it with `NSAC(input_dim=1, ...)`."
        )
    return layer


def _drive(layer: NSAC, signal: Callable[[Tensor], Tensor], updates: int) -> _Drive:
    cells = updates * CELLS
    edges = torch.arange(cells + 1, dtype=torch.float64) / cells
    middles = (edges[1:] + edges[:-1]) / 2
    varying = _read_gates(layer, signal(middles))
    frozen = _read_gates(layer, signal(edges[:-1:CELLS].contiguous()))
    # The closed form chained over updates is the moments under step functions; here it is wanted at every cell's end.
    held = _Gates(*(gate.repeat_interleave(CELLS, 0) for gate in frozen))
    moments = (piecewise_moments(*gates, dt=1 / cells) for gates in (varying, held))
    return _Drive(edges[1:], signal(middles), varying, frozen, *(m for pair in moments for m in pair))


def _read_gates(layer: NSAC, signal: Tensor) -> _Gates:
    """The gates of the pair (query 0, key u) for each value u: (n,) -> (n, heads), in double precision."""
    like = next(layer.parameters())
    key = signal.to(like)
    cells = layer.trace(torch.stack([key, torch.zeros_like(key)], 1)[..., None])  # two tokens: key, then query
    first = cells["index"][:, :, -1].eq(0)  # (n, heads, keys): the entry about token 0, wherever selection put it
    return _Gates(*(cells[name][:, :, -1][first].view(len(key), -1).double().cpu() for name in _Gates._fields))


def _record(regime: str, drive: _Drive) -> FrozenRecord:
    mean_error = _relative_error(drive.frozen_mean, drive.mean)
    std_error = _relative_error(drive.frozen_var.sqrt(), drive.var.sqrt())
    variations = (_variation(gate) for gate in drive.varying)
    errors = (e for error in (mean_error, std_error) for e in (error.mean().item(), error.max().item()))
    return FrozenRecord(regime, *errors, *variations, bound_use=_bound_use(drive))


def _relative_error(frozen: Tensor, varying: Tensor) -> Tensor:
    """In % of each head's range; both start at 0, which the grid of cell ends leaves out."""
    spread = varying.amax(0).clamp(min=0) - varying.amin(0).clamp(max=0)
    return 100 * (frozen - varying).abs() / spread


def _variation(gate: Tensor) -> float:
    within = gate.unflatten(0, (-1, CELLS))  # updates, cells, heads
    moved = within.amax(1) - within.amin(1)
    return (100 * moved / gate.abs().mean(0)).mean().item()


def _bound_use(drive: _Drive) -> float:
    dt = 1 / len(drive.time)
    since = drive.time[:CELLS]
    # Columns are pairs of an update and a head; rows are the cells of an update.
    varying = _Gates(*(gate.unflatten(0, (-1, CELLS)).movedim(1, 0).flatten(1) for gate in drive.varying))
    frozen = _Gates(*(gate.flatten() for gate in drive.frozen))
    start = torch.cat([torch.zeros_like(drive.mean[:1]), drive.mean[CELLS - 1 : -1 : CELLS]]).flatten()
    held = _Gates(*(gate.expand(CELLS, -1) for gate in frozen))
    true, closed = (piecewise_moments(*gates, dt=dt, a0=start) for gates in (varying, held))
    # The derivation uses only |c(s) - c(0)| <= L s. On a cell, where c is constant, the left end asks most of L. In the
    # first cell that is 0, and its middle serves: over [0, h] the constant L h/2 has the same integral as L s.
    left = (since - dt).clamp(min=dt / 2)[:, None]
    slopes = [((c - c0).abs() / left).amax(0) for c, c0 in zip(varying, frozen, strict=True)]
    columns = torch.stack([frozen.kappa, frozen.psi, (start - frozen.phi).abs(), *slopes], 1).tolist()
    bounds = [
        frozen_bounds(since, kappa0, psi0, c_mu, Lipschitz(kappa=l_kappa, phi=l_phi, psi=l_psi))
        for kappa0, psi0, c_mu, l_phi, l_kappa, l_psi in columns
    ]
    uses = (
        (t - c).abs() / (torch.stack(bound, 1) + ROUNDING)
        for t, c, bound in zip(true, closed, zip(*bounds, strict=True), strict=True)
    )
    return 100 * max(use.max().item() for use in uses)


@cache  # the table and the figure look at the same layer
def trained_layer(seed: int, steps: int = 400, window: int = 16, batch: int = 64) -> NSAC:
    """A small layer after `steps` of AdamW on predicting the next value of the regimes, mixed."""
    layer = NSAC(input_dim=1, output_dim=1, d_model=16, num_heads=4, circuit_units=16, seed=seed)
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
