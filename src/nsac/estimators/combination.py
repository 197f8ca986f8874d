"""How a graph combines the draws of the members: as a calibrated mixture, or stacked with the other models."""

from dataclasses import fields
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nsac.estimators.base import AbstractEstimator
from nsac.estimators.boosting import Trees
from nsac.estimators.components import Components, Moments, flatten, join_parts
from nsac.estimators.forecaster import NSACForecaster
from nsac.estimators.kernel import Kernel
from nsac.estimators.outages import stretch
from nsac.estimators.ranges import Ranges
from nsac.estimators.regressor import NSACRegressor
from nsac.estimators.stack import Stack
from nsac.estimators.targets import max_epistemic
from nsac.estimators.window_models import WindowModels
from nsac.models.encoder import Batch
from nsac.uncertainty import Link, Prediction, TransformedPrediction, VarianceScale
from nsac.uncertainty.conformal import interval_around


class Read(NamedTuple):
    """Inputs as the members read them; the target is `unit * y + centre`, before the link."""

    batch: Batch
    unit: Tensor
    centre: Tensor
    unknown: Tensor  # (rows, 1), whether the outputs are NaN
    age: Tensor | None = None  # (rows,), steps since the target was observed, of a window
    change: Tensor | None = None  # (rows, outputs), `unit` in standard deviations of the target, of a window


class Combination(nn.Module):
    """Draws of the members to calibrated outputs, in the unit of the target."""

    scale: Tensor
    margin: Tensor  # (outputs,), or (classes + 1, outputs) if there are patterns of missing values
    outage_scale: Tensor  # of a forecaster

    def __init__(self, estimator: AbstractEstimator, margin: Tensor):
        super().__init__()
        self.register_buffer("scale", estimator.calibration_.scale.double())
        self.register_buffer("margin", margin)
        self.link, self.others, self.patterns = Link("identity"), None, None
        if isinstance(estimator, NSACForecaster):
            self.register_buffer("outage_scale", estimator.outage_scale_)
            if estimator.components_ is not None:
                self.others = WindowModelsGraph(estimator.components_)
        if isinstance(estimator, NSACRegressor):
            self.link = estimator.link_
            if estimator.patterns_ is not None:
                self.patterns = _Tensors(estimator.patterns_)
            if estimator.components_ is not None:
                self.others = ComponentsGraph(estimator, estimator.components_)

    def forward(self, mean_draws: Tensor, log_std_draws: Tensor, read: Read) -> tuple[Tensor, ...]:
        """Mean, aleatoric and epistemic variance and both interval ends; draws are (members, N, rows, outputs)."""
        draws = Prediction(mean_draws.double().flatten(0, 1), log_std_draws.double().flatten(0, 1))
        if isinstance(self.others, WindowModelsGraph):
            draws = self.others(draws, read.batch, read.change)
        elif self.others is not None:
            draws = self.others(Moments.of(draws, mean_draws.shape[0]), read.batch)
        if read.age is not None:
            draws = stretch(draws, self.outage_scale, read.age)
        scaled = VarianceScale(self.scale)(draws).affine(read.unit, read.centre)
        p = TransformedPrediction(scaled, self.link)
        margin = self.margin if self.patterns is None else self.margin[self.patterns.model().classify(read.batch)]
        ends = [self.link.inverse(end) for end in interval_around(scaled, margin)]
        outputs = p.mean, p.aleatoric, p.epistemic, *ends
        return tuple(output.masked_fill(read.unknown, torch.nan) for output in outputs)


class ComponentsGraph(nn.Module):
    """The models of a stacked regressor besides its ensemble, and the stack."""

    inverse_prior: Tensor
    inverse_posterior: Tensor
    normal: Tensor
    noise_scale: Tensor
    max_epistemic: Tensor | None

    def __init__(self, estimator: NSACRegressor, components: Components):
        super().__init__()
        self.problem, self.depth = estimator.problem_, int(components.trees.depth)
        self.kernel, self.trees = _Tensors(components.kernel), _Tensors(components.trees)
        self.ranges, self.stack = _Tensors(components.ranges), _Tensors(components.stack)
        for name, factor in zip(("inverse_prior", "inverse_posterior"), components.kernel.factors(), strict=True):
            eye = torch.eye(len(factor)).double()
            self.register_buffer(name, torch.linalg.solve_triangular(factor, eye, upper=False))
        normal, scale = components.stack.nodes(estimator.num_samples)
        self.register_buffer("normal", normal)
        self.register_buffer("noise_scale", scale)
        self.register_buffer("max_epistemic", max_epistemic(estimator.link_, estimator.scale_))

    def forward(self, ensemble: Moments, batch: Batch) -> Prediction:
        """As `Components.predict`; triangular systems are solved by the inverses, which every runtime can multiply."""
        design = flatten(self.problem, batch)
        kernel: Kernel = self.kernel.model()
        trees: Trees = self.trees.model()
        ranges: Ranges = self.ranges.model()
        stack: Stack = self.stack.model()
        mean, variance = kernel.moments(
            design, lambda right: self.inverse_prior @ right, lambda right: self.inverse_posterior @ right
        )
        parts = join_parts(ensemble, mean, variance, trees.mean(design, self.depth))
        extra = ranges.variance(batch["x"])
        return stack.mixture(parts, self.normal, self.noise_scale, extra, self.max_epistemic)


class WindowModelsGraph(nn.Module):
    """The models of a forecaster besides its ensemble."""

    linear: Tensor
    weights: Tensor

    def __init__(self, models: WindowModels):
        super().__init__()
        self.features, self.problem, self.depth = models.features, models.problem, int(models.trees.depth)
        self.trees, self.settings = _Tensors(models.trees), (models.draw_share, models.roughness)
        self.register_buffer("linear", models.linear.clone())
        self.register_buffer("weights", models.weights.clone())

    def forward(self, draws: Prediction, batch: Batch, unit: Tensor) -> Prediction:
        """As `WindowModels.move`."""
        trees: Trees = self.trees.model()
        models = WindowModels(self.linear, trees, self.weights, self.features, self.problem, *self.settings)
        return models.move(draws, batch, unit, lambda rows: trees.mean(rows, self.depth))


class _Tensors(nn.Module):
    """A model, its tensors as buffers."""

    def __init__(self, model: Any):
        super().__init__()
        self.kind = type(model)
        for field in fields(model):
            self.register_buffer(field.name, getattr(model, field.name).clone())  # a file holds no views

    def model(self) -> Any:
        """The model with these tensors."""
        return self.kind(**{field.name: getattr(self, field.name) for field in fields(self.kind)})
