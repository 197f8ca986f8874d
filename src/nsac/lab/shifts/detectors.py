"""Reference detectors: scores per row that measure the distance from the training data and predict nothing."""

import warnings
from collections.abc import Callable

import numpy as np
import torch
from sklearn.covariance import LedoitWolf
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from torch import Tensor

from nsac.lab.shifts.scenes.base import Scene, generator_of, tensor
from nsac.models import Trunk
from nsac.models.encoder import Batch
from nsac.training import Data, batches

View = Callable[[Batch], Tensor]
"""From a batch to vectors, (rows, size); each query time of a series is a row."""

Detector = Callable[[Data], Tensor]
"""From data to one score per row; larger means more novel."""

NEIGHBOUR_ROWS, GP_ROWS = 2000, 500
"""Maximum numbers of training rows among which neighbours are searched, and of the Gaussian process."""

NEIGHBOUR = 5
"""Rank of the neighbour whose distance is the score."""


def flat_inputs(batch: Batch) -> Tensor:
    """Inputs as one vector; of series, the observations, their times and the query time."""
    x = batch["x"]
    if "query_times" not in batch:
        return torch.cat([x.flatten(1), batch["calendar"]], -1) if "calendar" in batch else x.flatten(1)
    keep = ~batch["mask"]
    observed = torch.cat([(x * keep[..., None]).flatten(1), batch["times"] * keep], -1)
    queries = batch["query_times"]
    return torch.cat([observed[:, None].expand(-1, queries.shape[1], -1), queries[..., None]], -1).flatten(0, 1)


def references(scene: Scene, trunk: Trunk | None = None, seed: int = 0) -> dict[str, Detector]:
    """Detectors by name: random noise, distances between inputs and between features, and a Gaussian process.

    Args:
        scene: whose training set the distances are measured from.
        trunk: trained deterministic network, whose features before the head are compared; None leaves them out.
        seed: of the noise and of the choice of training rows.
    """
    random = generator_of("references", seed)

    def noise(data: Data) -> Tensor:
        return tensor(random.random(len(data) * data.batch(torch.arange(1))["y"][..., 0].numel()))

    found: dict[str, Detector] = {"noise": noise}
    found |= _distances("inputs", flat_inputs, scene, random)
    if trunk is not None:
        features = torch.no_grad()(lambda batch: trunk(batch).hidden.flatten(0, 2))
        found |= _distances("features", features, scene, random)
    if scene.problem.kind == "table":
        rows = torch.as_tensor(random.permutation(len(scene.train))[:GP_ROWS])
        found["gp"] = _gaussian_process(scene.train.batch(rows))
    return found


def described(scene: Scene, seed: int = 0) -> dict[str, Detector]:
    """Distances between the descriptions of inputs from which `nsac` computes novelty (`describe` of the encoder)."""
    encoder, random = scene.problem.encoder(0), generator_of("described", seed)
    return _distances("described", lambda batch: encoder.describe(batch).flatten(0, 1), scene, random)


def _vectors(view: View, data: Data) -> Tensor:
    return torch.cat([view(batch) for batch in batches(data, 512)])


def _distances(label: str, view: View, scene: Scene, random: np.random.Generator) -> dict[str, Detector]:
    known = _vectors(view, scene.train)
    fitted = LedoitWolf().fit(known.numpy())
    some = known[random.permutation(len(known))[:NEIGHBOUR_ROWS]]
    std, mean = torch.std_mean(some, 0)
    scaled = (some - mean) / std.clamp(min=1e-6)

    def mahalanobis(data: Data) -> Tensor:
        return tensor(fitted.mahalanobis(_vectors(view, data).numpy()))

    def nearest(data: Data) -> Tensor:
        rows = (_vectors(view, data) - mean) / std.clamp(min=1e-6)
        return torch.cdist(rows, scaled).kthvalue(NEIGHBOUR, dim=1).values

    return {f"mahalanobis/{label}": mahalanobis, f"knn/{label}": nearest}


def _gaussian_process(batch: Batch) -> Detector:
    wide, lengths = (1e-3, 1e4), np.full(batch["x"].shape[1], 2.0)
    kernel = ConstantKernel(1.0, wide) * RBF(lengths, wide)  # pyright: ignore[reportArgumentType]
    kernel += WhiteKernel(0.1, (1e-6, 1e2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a feature without effect gets the largest length scale
        fitted = GaussianProcessRegressor(kernel).fit(batch["x"].numpy(), batch["y"][:, 0].numpy())

    def score(data: Data) -> Tensor:
        x = torch.cat([batch["x"] for batch in batches(data)])
        return tensor(np.asarray(fitted.predict(x.numpy(), return_std=True)[1]))

    return score
