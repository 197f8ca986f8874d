"""Fitted estimators as modules that can be traced: from inputs in their own unit to calibrated predictions."""

import copy
import math
import warnings

import torch
from torch import Tensor, nn

from nsac._torch import single_threaded
from nsac.core import matched_normal
from nsac.estimators.base import AbstractEstimator, join
from nsac.estimators.columns import standardise
from nsac.estimators.forecaster import NSACForecaster
from nsac.estimators.outages import stretch
from nsac.estimators.regressor import NSACRegressor
from nsac.estimators.steps import CYCLES
from nsac.methods import AbstractMethod
from nsac.methods.nsac import NSACMethod
from nsac.models.encoder import Batch
from nsac.models.windows import interpolate_missing
from nsac.training.windows import last_and_unit, steps_since_known
from nsac.uncertainty import Prediction, VarianceScale
from nsac.uncertainty.conformal import interval_around

TRACED_ROWS = 3  # rows of the inputs that a graph is traced with; 1 and 2 would be taken for constants


def make_graph(estimator: AbstractEstimator, coverage: float) -> tuple[nn.Module, dict[str, Tensor]]:
    """A module, and inputs to trace it with."""
    inputs: dict[str, Tensor] = {}
    if isinstance(estimator, NSACRegressor):
        graph: nn.Module = TableGraph(estimator, coverage)
        inputs["x"] = torch.zeros(TRACED_ROWS, len(estimator.columns_.centre), dtype=torch.float64)
        if estimator.columns_.categories:
            inputs["c"] = torch.ones(TRACED_ROWS, len(estimator.columns_.categories), dtype=torch.int64)
    else:
        assert isinstance(estimator, NSACForecaster)
        graph = WindowGraph(estimator, coverage)
        inputs["x"] = torch.zeros(TRACED_ROWS, estimator.lookback, estimator.problem_.input_dim, dtype=torch.float64)
        if estimator.cycles_:
            inputs["time"] = torch.zeros(TRACED_ROWS, dtype=torch.float64)
    noise = prediction_noise(estimator)
    if noise is not None:
        inputs["noise"] = noise
    return graph.eval(), inputs


def prediction_noise(estimator: AbstractEstimator) -> Tensor | None:
    """The noise with which this library predicts, (draws, queries, topk, heads), or None for other methods."""
    member = estimator.members_[0]
    if not isinstance(member, NSACMethod):
        return None
    shape = (estimator.num_samples, 1, member.network.config.topk, member.network.config.num_heads)
    with single_threaded():
        return matched_normal(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).float()


class EnsembleGraph(nn.Module):
    """The calibrated mixture of all members, which compute in single precision."""

    scale: Tensor
    margin: Tensor
    outage_scale: Tensor  # of a forecaster

    def __init__(self, estimator: AbstractEstimator, coverage: float):
        super().__init__()
        copies = [copy.deepcopy(member).float() for member in estimator.members_]
        self.members = nn.ModuleList(copies).requires_grad_(False)
        self.register_buffer("scale", estimator.calibration_.scale.double())
        self.register_buffer("margin", graph_margin(estimator, coverage))
        if isinstance(estimator, NSACForecaster):
            self.register_buffer("outage_scale", estimator.outage_scale_)

    def forward(
        self, batch: Batch, noise: Tensor | None, unit: Tensor, centre: Tensor, age: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Mean, aleatoric and epistemic variance and both interval ends of `unit * y + centre`."""
        mixture = join([_draws(member, batch, noise) for member in self.members], 0)
        if age is not None:
            mixture = stretch(mixture, self.outage_scale, age)
        p = VarianceScale(self.scale)(mixture).affine(unit, centre)
        return p.mean, p.aleatoric, p.epistemic, *interval_around(p, self.margin)


def _draws(member: nn.Module, batch: Batch, noise: Tensor | None) -> Prediction:
    assert isinstance(member, AbstractMethod)
    if isinstance(member, NSACMethod) and noise is not None:
        draws = member.draws(batch, 1, None, noise.permute(0, 2, 3, 1).unsqueeze(2))  # as `Network.noise` does
    else:
        draws = member.draws(batch, 1, None)
    return Prediction(draws[0].double(), draws[1].double())


def graph_margin(estimator: AbstractEstimator, coverage: float) -> Tensor:
    """Half width of the interval in calibrated standard deviations, per column."""
    margin = estimator.calibration_.margin(coverage)
    if isinstance(estimator, NSACForecaster) and estimator.stream_.begun:
        adapted = torch.as_tensor(estimator.stream_.margin(coverage), dtype=torch.float64)
        margin = adapted / estimator.calibration_.scale  # adapted margins refer to standard deviations before scaling
    if margin.isinf().any():
        warnings.warn(
            f"Too few rows of calibration for a conformal interval of coverage {coverage}: the exported one is "
            "that of a Gaussian. Fit more rows, or lower the coverage.",
            stacklevel=6,
        )
    gaussian = torch.special.ndtri(torch.tensor((1 + coverage) / 2, dtype=torch.float64))
    return torch.where(margin.isinf(), gaussian, margin.double())


class TableGraph(nn.Module):
    """A regressor."""

    x_centre: Tensor
    x_scale: Tensor
    y_centre: Tensor
    y_scale: Tensor
    x_learned: Tensor
    c_learned: Tensor
    sizes: Tensor

    def __init__(self, estimator: NSACRegressor, coverage: float):
        super().__init__()
        self.ensemble = EnsembleGraph(estimator, coverage)
        numbers = {"x_centre": estimator.columns_.centre, "x_scale": estimator.columns_.scale}
        numbers |= {"y_centre": estimator.centre_, "y_scale": estimator.scale_}
        for name, value in numbers.items():
            self.register_buffer(name, torch.as_tensor(value, dtype=torch.float64))
        self.register_buffer("sizes", torch.tensor(estimator.problem_.categories, dtype=torch.int64))
        for name, learned in estimator.imputer_.learned.items():
            self.register_buffer(f"{name}_learned", learned)

    def forward(self, x: Tensor, c: Tensor | None = None, noise: Tensor | None = None) -> tuple[Tensor, ...]:
        """The outputs of `EnsembleGraph`; NaN for a value missing where none was missing in training."""
        absent = torch.isnan(x)
        z = standardise(x, self.x_centre, self.x_scale, torch)
        batch = {"x": z.masked_fill(absent, torch.nan).float()}  # a runtime's clamp may lose a NaN
        refused = (absent & ~self.x_learned).any(-1, keepdim=True)
        if c is not None:
            c = c.masked_fill((c < 0) | (c > self.sizes), 0)
            batch["c"] = c
            refused = refused | ((c == 0) & ~self.c_learned).any(-1, keepdim=True)
        outputs = self.ensemble(batch, noise, self.y_scale, self.y_centre)
        return tuple(output.masked_fill(refused, torch.nan) for output in outputs)


class WindowGraph(nn.Module):
    """A forecaster, from windows on a regular grid."""

    centre: Tensor
    unit: Tensor
    change: Tensor

    def __init__(self, estimator: NSACForecaster, coverage: float):
        super().__init__()
        self.ensemble = EnsembleGraph(estimator, coverage)
        self.missing, self.with_age = estimator.problem_.missing, estimator.preprocessor_.with_age
        self.cycle_seconds = [CYCLES[name] / 1e9 for name in estimator.cycles_]
        fitted = estimator.preprocessor_
        self.roughness, self.horizon = fitted.roughness, fitted.shape.horizon
        for name, value in {"centre": fitted.offset, "unit": fitted.scale, "change": fitted.change}.items():
            self.register_buffer(name, torch.as_tensor(value, dtype=torch.float64))

    def forward(self, x: Tensor, time: Tensor | None = None, noise: Tensor | None = None) -> tuple[Tensor, ...]:
        """The outputs of `EnsembleGraph`; NaN for a window without a value of the target."""
        z = (x - self.centre) / self.unit
        batch = {"x": (z if self.missing else interpolate_missing(z)).float()}
        if time is not None:
            turns = torch.stack([time / seconds for seconds in self.cycle_seconds], -1)
            angle = (2 * math.pi * (turns - turns.floor())).float()
            batch["calendar"] = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
        age = steps_since_known(z[..., :1])
        if self.with_age:
            known = [batch["calendar"]] if time is not None else []
            batch["calendar"] = torch.cat([*known, age.log1p().float()], 1)
        last, scale = last_and_unit(z[..., :1], self.change.unsqueeze(-1), self.horizon, self.roughness)
        offset = self.centre[0] + self.unit[0] * last[..., 0]
        outputs = self.ensemble(batch, noise, self.unit[0] * scale[..., 0], offset, age[:, 0])
        unknown = z[..., 0].isnan().all(1, keepdim=True)
        return tuple(output.masked_fill(unknown, torch.nan) for output in outputs)
