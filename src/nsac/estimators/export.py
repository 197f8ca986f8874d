"""Fitted estimators as graphs that run without this library: `torch.export`, and ONNX.

A graph takes inputs in their own unit and the noise, and gives calibrated predictions in the unit of the target. All
that lies between is inside: scales, members, their mixture, calibration and conformal margins.
"""

import base64
import contextlib
import copy
import io
import json
import logging
import math
import os
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from nsac._io import write_atomic
from nsac._torch import single_threaded
from nsac.core import decompose, matched_normal
from nsac.estimators.base import DRAWS, AbstractEstimator
from nsac.estimators.calendar import CYCLES
from nsac.estimators.columns import STRAIGHT
from nsac.estimators.forecaster import NSACForecaster
from nsac.estimators.regressor import NSACRegressor
from nsac.methods import AbstractMethod
from nsac.methods.nsac import NSACMethod
from nsac.models.encoder import Batch
from nsac.models.windows import interpolate_missing
from nsac.training.windows import last_and_unit
from nsac.uncertainty.checks import check_probability

WITHOUT_NOISE = ("gmle", "de", "mean", "ridge")
"""Methods, besides "nsac", that can be exported: nothing in them is random."""

METADATA = "nsac"
"""Name under which an ONNX file keeps what `about` says."""


class ExportError(ValueError):
    """An estimator that cannot be exported. The message says what to do."""


def export_program(estimator: AbstractEstimator, coverage: float = 0.9) -> torch.export.ExportedProgram:
    """The estimator as a `torch.export` program; inputs and outputs are those that `export_onnx` describes."""
    with single_threaded(), torch.no_grad():
        graph, inputs = _graph(estimator, coverage)
        rows, draws = torch.export.Dim("rows"), torch.export.Dim("draws", min=3)
        dynamic = {name: {0: draws if name == "noise" else rows} for name in inputs}
        return torch.export.export(graph, (), inputs, dynamic_shapes=dynamic, strict=False)


def export_onnx(
    estimator: AbstractEstimator, path: str | os.PathLike, coverage: float = 0.9, targets: list[str] | None = None
) -> dict[str, Any]:
    """Write the estimator as one ONNX file that needs numpy and an ONNX runtime, and nothing else.

    Inputs, with any number of rows:

    - `x`, float64, in its own unit, NaN where a value is missing. Regressors: (rows, numeric columns). Forecasters:
      (rows, lookback, columns), regular steps, the target first; of irregular records also how far off its step each
      row was, in steps.
    - `c`, int64, (rows, categorical columns), codes from 1 on, 0 where missing or unknown; if there are categories.
    - `time`, float64, (rows,), seconds since 1970 by the local clock at the last step; if a forecaster uses a calendar.
    - `noise`, float32, (draws, queries, topk, heads), standard normal; if the method is stochastic.

    Outputs, float64, (rows, targets) or (rows, horizon): `mean`, `aleatoric`, `epistemic` (variances), and the ends of
    the conformal interval, for instance `lower_90` and `upper_90`. A row of a table with a value missing where none was
    missing in training gets NaN, and so does a window without any value of the target.

    Args:
        estimator: a fitted one.
        path: where to write.
        coverage: of the interval.
        targets: names of the outputs, to be written down.

    Returns:
        What the file says about itself, as JSON in its metadata under `"nsac"`: columns with their levels, outputs, and
        the noise with which this library predicts (base64, little-endian float32).
    """
    try:
        import onnx_ir
        import onnxscript  # noqa: F401
    except ImportError:
        raise ExportError("Export to ONNX needs onnx and onnxscript. Run `pip install 'nsac[export]'`.") from None
    program = export_program(estimator, coverage)
    facts = about(estimator, coverage, targets)
    names = ["mean", "aleatoric", "epistemic", *(f"{end}_{100 * coverage:g}" for end in ("lower", "upper"))]
    with single_threaded(), _quiet():
        written = torch.onnx.export(program, dynamo=True, verbose=False)
    assert written is not None
    graph = written.model.graph
    for i, value in enumerate(value for node in graph for value in node.outputs):
        value.name = f"v{i}"  # names of the trace may be those of outputs
    for value, name in zip(graph.outputs, names, strict=True):
        value.name = name
    written.model.metadata_props[METADATA] = json.dumps(facts)
    content = onnx_ir.to_proto(written.model).SerializeToString()
    write_atomic(path, content)
    return facts


def about(estimator: AbstractEstimator, coverage: float = 0.9, targets: list[str] | None = None) -> dict[str, Any]:
    """What a program needs to know to feed the graph."""
    facts: dict[str, Any] = {"class": type(estimator).__name__, "method": estimator.method, "coverage": coverage}
    if isinstance(estimator, NSACRegressor):
        facts |= {
            "columns": _columns(estimator),
            "targets": targets or [f"y{i}" for i in range(len(estimator.centre_))],
        }
    if isinstance(estimator, NSACForecaster):
        columns = estimator.columns_
        inputs = [*columns.inputs, *(["offset"] if estimator.irregular_ else [])]
        dated = isinstance(estimator.step_, int)
        facts |= {"columns": [{"name": name, "input": "x", "place": i} for i, name in enumerate(inputs)]}
        facts |= {"targets": [columns.target], "lookback": estimator.lookback, "horizon": estimator.horizon}
        facts |= {"step": estimator.step_ / 1e9 if dated else estimator.step_, "cycles": list(estimator.cycles_)}
    noise = _noise(estimator)
    if noise is not None:
        content = noise.numpy().astype("<f4").tobytes()
        facts["noise"] = {"shape": list(noise.shape), "data": base64.b64encode(content).decode()}
    return facts


def program_bytes(program: torch.export.ExportedProgram) -> bytes:
    """A `.pt2` file, for `torch.export.load`."""
    content = io.BytesIO()
    with _quiet():
        torch.export.save(program, content)
    return content.getvalue()


class _Members(nn.Module):
    """Draws of all members under given noise, in single precision."""

    def __init__(self, members: list[AbstractMethod]):
        super().__init__()
        self.members = nn.ModuleList(copy.deepcopy(member).float() for member in members).requires_grad_(False)

    def forward(self, batch: Batch, noise: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, aleatoric and epistemic variance of their mixture."""
        each = [_draws(member, batch, noise) for member in self.members]
        mean, log_std = (torch.cat(kind).double() for kind in zip(*each, strict=True))
        return decompose(mean, log_std)


def _draws(member: nn.Module, batch: Batch, noise: Tensor | None) -> tuple[Tensor, Tensor]:
    if isinstance(member, NSACMethod) and noise is not None:
        return member.draws(batch, 1, None, noise.permute(0, 2, 3, 1).unsqueeze(2))  # as `Network.noise` does it
    assert isinstance(member, AbstractMethod)
    return member.draws(batch, 1, None)


class _Calibrated(nn.Module):
    """Stretched about the mean, with a margin of so many deviations."""

    scale: Tensor
    margin: Tensor

    def __init__(self, estimator: AbstractEstimator, coverage: float):
        super().__init__()
        margin, enough = estimator.calibration_.margin(coverage)
        if isinstance(estimator, NSACForecaster) and estimator.stream_.begun:  # its margins are of deviations as drawn
            adapted = torch.as_tensor(estimator.stream_.margin(coverage), dtype=torch.float64)
            margin, enough = adapted / estimator.calibration_.scale, torch.ones_like(enough)
        if not bool(enough.all()):
            warnings.warn(
                f"Too few rows of calibration for a conformal interval of coverage {coverage}: the exported one is "
                "that of a Gaussian. Fit more rows, or ask for less.",
                stacklevel=5,
            )
        gaussian = torch.special.ndtri(torch.tensor((1 + coverage) / 2, dtype=torch.float64))
        self.register_buffer("scale", estimator.calibration_.scale.double())
        self.register_buffer("margin", torch.where(enough, margin.double(), gaussian))

    def forward(self, parts: tuple[Tensor, Tensor, Tensor], centre: Tensor, unit: Tensor) -> tuple[Tensor, ...]:
        """Mean, two variances and two ends, in the unit of the target."""
        mean, scale = parts[0] * unit + centre, self.scale * unit
        aleatoric, epistemic = (variance * scale.square() for variance in parts[1:])
        half = self.margin * (aleatoric + epistemic).sqrt()
        return mean, aleatoric, epistemic, mean - half, mean + half


class _Table(nn.Module):
    """A regressor."""

    x_centre: Tensor
    x_scale: Tensor
    y_centre: Tensor
    y_scale: Tensor
    x_holes: Tensor
    c_holes: Tensor
    sizes: Tensor

    def __init__(self, estimator: NSACRegressor, coverage: float):
        super().__init__()
        self.members, self.calibrated = _Members(estimator.members_), _Calibrated(estimator, coverage)
        columns = estimator.columns_
        numbers = {"x_centre": columns.centre, "x_scale": columns.scale}
        numbers |= {"y_centre": estimator.centre_, "y_scale": estimator.scale_}
        for name, value in numbers.items():
            self.register_buffer(name, torch.as_tensor(value, dtype=torch.float64))
        self.register_buffer("sizes", torch.tensor(estimator.problem_.categories, dtype=torch.int64))
        for name, holes in estimator.holes_.items():
            self.register_buffer(f"{name}_holes", holes)

    def forward(self, x: Tensor, c: Tensor | None = None, noise: Tensor | None = None) -> tuple[Tensor, ...]:
        z = x / self.x_scale - self.x_centre / self.x_scale
        squashed = z.sign() * (z.abs().clamp(max=STRAIGHT) + (z.abs() - STRAIGHT).clamp(min=0).log1p())  # as `squash`
        batch = {"x": squashed.masked_fill(torch.isnan(x), torch.nan).float()}  # a runtime's clamp may lose a NaN
        strange = (torch.isnan(x) & ~self.x_holes).any(-1, keepdim=True)
        if c is not None:
            c = c.masked_fill((c < 0) | (c > self.sizes), 0)
            batch["c"] = c
            strange = strange | ((c == 0) & ~self.c_holes).any(-1, keepdim=True)
        results = self.calibrated(self.members(batch, noise), self.y_centre, self.y_scale)
        return tuple(result.masked_fill(strange, torch.nan) for result in results)


class _Series(nn.Module):
    """A forecaster, from windows on a regular grid."""

    centre: Tensor
    unit: Tensor
    change: Tensor

    def __init__(self, estimator: NSACForecaster, coverage: float):
        super().__init__()
        self.members, self.calibrated = _Members(estimator.members_), _Calibrated(estimator, coverage)
        self.holes, self.cycles = estimator.problem_.missing, [CYCLES[name] / 1e9 for name in estimator.cycles_]
        scaling = estimator.preprocessor_.scaling
        self.roughness = scaling.roughness
        for name, value in {"centre": scaling.offset, "unit": scaling.scale, "change": scaling.change}.items():
            self.register_buffer(name, torch.as_tensor(value, dtype=torch.float64))

    def forward(self, x: Tensor, time: Tensor | None = None, noise: Tensor | None = None) -> tuple[Tensor, ...]:
        z = (x - self.centre) / self.unit
        batch = {"x": (z if self.holes else interpolate_missing(z)).float()}
        if time is not None:
            turns = torch.stack([time / length for length in self.cycles], -1)
            angle = (2 * math.pi * (turns - turns.floor())).float()
            batch["calendar"] = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
        last, scale = last_and_unit(z[..., :1], self.change.unsqueeze(-1), self.roughness)
        results = self.calibrated(
            self.members(batch, noise), self.centre[0] + self.unit[0] * last[..., 0], self.unit[0] * scale[..., 0]
        )
        unknown = z[..., 0].isnan().all(1, keepdim=True)
        return tuple(result.masked_fill(unknown, torch.nan) for result in results)


def _graph(estimator: AbstractEstimator, coverage: float) -> tuple[nn.Module, dict[str, Tensor]]:
    """A module, and inputs to trace it with."""
    _check(estimator, coverage)
    noise = _noise(estimator)
    given = {} if noise is None else {"noise": noise}
    if isinstance(estimator, NSACRegressor):
        rows = {"x": torch.zeros(3, len(estimator.columns_.centre), dtype=torch.float64)}
        if estimator.columns_.levels:
            rows["c"] = torch.ones(3, len(estimator.columns_.levels), dtype=torch.int64)
        return _Table(estimator, coverage).eval(), rows | given
    assert isinstance(estimator, NSACForecaster)
    rows = {"x": torch.zeros(3, estimator.lookback, estimator.problem_.input_dim, dtype=torch.float64)}
    if estimator.cycles_:
        rows["time"] = torch.zeros(3, dtype=torch.float64)
    return _Series(estimator, coverage).eval(), rows | given


def _check(estimator: AbstractEstimator, coverage: float) -> None:
    check_probability("coverage", coverage)
    check_is_fitted(estimator)
    if estimator.method != "nsac" and estimator.method not in WITHOUT_NOISE:
        raise ExportError(
            f"`method` must be one of nsac, {', '.join(WITHOUT_NOISE)} to be exported. Got {estimator.method!r} "
            "instead. Fit with one of those."
        )
    for member in estimator.members_:
        novelty = getattr(member, "novelty", None)
        if novelty is not None and not bool(torch.isfinite(novelty.log_amplitude)):
            raise ExportError("The method's training is not finished: it does not know yet what is new. Fit it again.")


def _noise(estimator: AbstractEstimator) -> Tensor | None:
    """What members meet when this library predicts, (draws, queries, topk, heads), or None."""
    member = estimator.members_[0]
    if not isinstance(member, NSACMethod):
        return None
    config = member.network.config
    with single_threaded():
        noise = matched_normal(
            DRAWS, 1, config.topk, config.num_heads, generator=torch.Generator().manual_seed(0), dtype=torch.float64
        )
    return noise.float()


def _columns(estimator: NSACRegressor) -> list[dict[str, Any]]:
    """In the order of the training table: name, input and place there, levels by code, whether one may be missing."""
    columns, described, place = estimator.columns_, [], {"x": 0, "c": 0}
    for i, name in enumerate(columns.names):
        kind = "c" if i in columns.levels else "x"
        may = bool(estimator.holes_[kind][place[kind]])
        column: dict[str, Any] = {"name": name, "input": kind, "place": place[kind], "missing": may}
        described.append(column | ({"levels": list(columns.levels[i])} if kind == "c" else {}))
        place[kind] += 1
    return described


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch's exporter says about itself."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
