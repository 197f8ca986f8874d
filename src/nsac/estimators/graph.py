"""Fitted estimators as modules that can be traced: from inputs in their own unit to calibrated predictions."""

import copy
import math
import warnings

import torch
from torch import Tensor, nn

from nsac._torch import single_threaded
from nsac.circuit.neurons import Synapses
from nsac.core import matched_normal
from nsac.estimators.base import AbstractEstimator
from nsac.estimators.columns import standardise
from nsac.estimators.combination import Combination, Read
from nsac.estimators.forecaster import NSACForecaster
from nsac.estimators.regressor import NSACRegressor
from nsac.estimators.stacked import member_draws
from nsac.estimators.steps import CYCLES
from nsac.methods import AbstractMethod
from nsac.methods.nsac import NSACMethod
from nsac.models.windows import interpolate_missing
from nsac.training.windows import last_and_unit, steps_since_known
from nsac.uncertainty.mondrian import class_margins

TRACED_ROWS = 3  # rows of the inputs that a graph is traced with; 1 and 2 would be taken for constants


Inputs = dict[str, Tensor]


def make_graph(estimator: AbstractEstimator, coverage: float) -> tuple["Graph", Inputs]:
    """A module, and inputs to trace it with."""
    inputs: Inputs = {}
    if isinstance(estimator, NSACRegressor):
        inputs["x"] = torch.zeros(TRACED_ROWS, len(estimator.columns_.centre), dtype=torch.float64)
        if estimator.columns_.categories:
            inputs["c"] = torch.ones(TRACED_ROWS, len(estimator.columns_.categories), dtype=torch.int64)
    else:
        assert isinstance(estimator, NSACForecaster)
        check_exportable(estimator)
        inputs["x"] = torch.zeros(TRACED_ROWS, estimator.lookback_, estimator.problem_.input_dim, dtype=torch.float64)
        if estimator.cycles_:
            inputs["time"] = torch.zeros(TRACED_ROWS, dtype=torch.float64)
    noise = prediction_noise(estimator)
    if noise is not None:
        inputs["noise"] = noise
    return Graph(estimator, coverage).eval(), inputs


def check_exportable(forecaster: NSACForecaster) -> None:
    """Only windows have inputs of a fixed size."""
    if forecaster.encoding_ == "events":
        raise ValueError("A model with encoding='events' cannot be exported. Fit one with encoding='grid'.")


def prediction_noise(estimator: AbstractEstimator) -> Tensor | None:
    """The noise with which this library predicts, (draws, queries, topk, heads), or None for other methods."""
    member = estimator.members_[0]
    if not isinstance(member, NSACMethod):
        return None
    draws = estimator.num_samples
    if isinstance(estimator, NSACRegressor) and estimator.components_ is not None:
        draws = member_draws(draws, len(estimator.members_))
    shape = (draws, 1, member.network.config.topk, member.network.config.num_heads)
    with single_threaded():
        return matched_normal(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).float()


class Graph(nn.Module):
    """Inputs in their own unit, members, which compute in single precision, and their combination."""

    def __init__(self, estimator: AbstractEstimator, coverage: float):
        super().__init__()
        if isinstance(estimator, NSACForecaster):
            self.reader: nn.Module = WindowReader(estimator)
        else:
            assert isinstance(estimator, NSACRegressor)
            self.reader = TableReader(estimator)
        self.members = nn.ModuleList(_plain_copy(member) for member in estimator.members_)
        self.combination = Combination(estimator, graph_margin(estimator, coverage))

    def forward(
        self, x: Tensor, c: Tensor | None = None, time: Tensor | None = None, noise: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """The outputs of `Combination`."""
        read = self.reader(x, c, time)
        draws = [_draws(member, read, noise) for member in self.members]
        mean_draws, log_std_draws = (torch.cat(each) for each in zip(*draws, strict=True))
        return self.combination(mean_draws, log_std_draws, read)


class MemberGraph(nn.Module):
    """What a graph computes for one member: the same for all of them but for the tensors of `member`."""

    def __init__(self, graph: Graph):
        super().__init__()
        self.reader, self.member = graph.reader, graph.members[0]

    def forward(
        self, x: Tensor, c: Tensor | None = None, time: Tensor | None = None, noise: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Draws of mean and log standard deviation, (1, N, rows, outputs)."""
        return _draws(self.member, self.reader(x, c, time), noise)


class OutputGraph(nn.Module):
    """What a graph computes from the draws of all members, (members, N, rows, outputs)."""

    def __init__(self, graph: Graph):
        super().__init__()
        self.reader, self.combination = graph.reader, graph.combination

    def forward(
        self, mean_draws: Tensor, log_std_draws: Tensor, x: Tensor, c: Tensor | None = None, time: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """The outputs of `Combination`."""
        return self.combination(mean_draws, log_std_draws, self.reader(x, c, time))


def _plain_copy(member: AbstractMethod) -> nn.Module:
    """In single precision, without gradients; all members have tensors of the same shapes."""
    plain = copy.deepcopy(member).float()
    for module in plain.modules():
        if isinstance(module, Synapses):
            module.densify()
    return plain.requires_grad_(False)


def _draws(member: nn.Module, read: Read, noise: Tensor | None) -> tuple[Tensor, ...]:
    assert isinstance(member, AbstractMethod)
    if isinstance(member, NSACMethod) and noise is not None:
        draws = member.draws(read.batch, 1, None, noise.permute(0, 2, 3, 1).unsqueeze(2))  # as `Network.noise` does
    else:
        draws = member.draws(read.batch, 1, None)
    return tuple(each.unsqueeze(0) for each in draws)


def graph_margin(estimator: AbstractEstimator, coverage: float) -> Tensor:
    """Half width of the interval in calibrated standard deviations, per column; or (classes + 1, columns)."""
    calibration = estimator.calibration_
    margin = calibration.margin(coverage)
    if calibration.classes is not None:
        margin = class_margins(calibration.scores, calibration.classes, coverage)
    if isinstance(estimator, NSACForecaster) and estimator.stream_.begun:
        adapted = torch.as_tensor(estimator.stream_.margin(coverage), dtype=torch.float64)
        margin = adapted / calibration.scale  # adapted margins refer to standard deviations before scaling
    if margin.isinf().any():
        warnings.warn(
            f"Too few rows of calibration for a conformal interval of coverage {coverage}: the exported one is "
            "that of a Gaussian. Fit more rows, or lower the coverage.",
            stacklevel=5,
        )
    gaussian = torch.special.ndtri(torch.tensor((1 + coverage) / 2, dtype=torch.float64))
    return torch.where(margin.isinf(), gaussian, margin.double())


class TableReader(nn.Module):
    """Inputs of a regressor."""

    x_centre: Tensor
    x_scale: Tensor
    y_centre: Tensor
    y_scale: Tensor
    x_learned: Tensor
    c_learned: Tensor
    sizes: Tensor

    def __init__(self, estimator: NSACRegressor):
        super().__init__()
        numbers = {"x_centre": estimator.columns_.centre, "x_scale": estimator.columns_.scale}
        numbers |= {"y_centre": estimator.centre_, "y_scale": estimator.scale_}
        for name, value in numbers.items():
            self.register_buffer(name, torch.as_tensor(value, dtype=torch.float64))
        self.register_buffer("sizes", torch.tensor(estimator.problem_.categories, dtype=torch.int64))
        for name, learned in estimator.imputer_.learned.items():
            self.register_buffer(f"{name}_learned", learned)

    def forward(self, x: Tensor, c: Tensor | None, time: None) -> Read:
        """Standardised rows; unknown is a row with a value missing where none was missing in training."""
        absent = torch.isnan(x)
        z = standardise(x, self.x_centre, self.x_scale, torch)
        batch = {"x": z.masked_fill(absent, torch.nan).float()}  # a runtime's clamp may lose a NaN
        refused = (absent & ~self.x_learned).any(-1, keepdim=True)
        if c is not None:
            c = c.masked_fill((c < 0) | (c > self.sizes), 0)
            batch["c"] = c
            refused = refused | ((c == 0) & ~self.c_learned).any(-1, keepdim=True)
        return Read(batch, self.y_scale, self.y_centre, refused)


class WindowReader(nn.Module):
    """Inputs of a forecaster: windows on a regular grid."""

    centre: Tensor
    unit: Tensor
    change: Tensor

    def __init__(self, estimator: NSACForecaster):
        super().__init__()
        self.missing, self.with_age = estimator.problem_.missing, estimator.preprocessor_.with_age
        self.cycle_seconds = [CYCLES[name] / 1e9 for name in estimator.cycles_]
        fitted = estimator.preprocessor_
        self.roughness, self.horizon = fitted.roughness, fitted.shape.horizon
        for name, value in {"centre": fitted.offset, "unit": fitted.scale, "change": fitted.change}.items():
            self.register_buffer(name, torch.as_tensor(value, dtype=torch.float64))

    def forward(self, x: Tensor, c: None, time: Tensor | None) -> Read:
        """Standardised windows; unknown is a window without a value of the target."""
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
        unknown = z[..., 0].isnan().all(1, keepdim=True)
        return Read(batch, self.unit[0] * scale[..., 0], offset, unknown, age[:, 0], scale[..., 0])
