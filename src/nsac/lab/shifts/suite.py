"""Shifts: data a trained model has not seen the like of, and how well its uncertainty says so."""

import warnings
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
from sklearn.covariance import LedoitWolf
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from torch import Tensor

from nsac.lab.shifts.scenes import CHOOSING as CHOOSING
from nsac.lab.shifts.scenes import CONFIRMING as CONFIRMING
from nsac.lab.shifts.scenes import REPORTED, Scene, Shift, generator_of, tensor
from nsac.lab.shifts.scenes import SCENES as SCENES
from nsac.lab.shifts.scenes import make_scene as make_scene
from nsac.lab.shifts.scenes import scenes as scenes
from nsac.methods import AbstractMethod
from nsac.models import Trunk
from nsac.models.encoder import Batch
from nsac.training import Data, batches
from nsac.uncertainty import (
    Prediction,
    ause,
    coverage,
    crps,
    error_correlation,
    nll,
    ood_aupr,
    ood_auroc,
    ood_fpr95,
    rmse,
)

LOG_STD_LIMIT = 10.0
"""Far from training a network's deviation may overflow, and then nothing can be scored: from here on it is the same."""


def evaluate(
    method: AbstractMethod, scene: Scene, kinds: Iterable[str] = REPORTED, num_samples: int = 20
) -> list[dict]:
    """One record per shift of these kinds: is it noticed, does the error rise with the doubt, what is left of coverage.

    A row's variance is the mean over its outputs; of series, each query time is a row. `_total` is for the total
    deviation; `ause` and `error_correlation` are over rows of both sides. `extreme` is the share of deviations out of
    the limits of `LOG_STD_LIMIT`, which are clamped.
    """
    near, y = _predict(method, scene.inside, num_samples)
    base = {
        "rmse_inside": rmse(near, y),
        "crps_inside": crps(near, y),
        "nll_inside": nll(near, y),
        "coverage_90_inside": coverage(near, y),
        "epistemic_inside": near.epistemic.mean().item(),
        "variance_inside": near.variance.mean().item(),
    }
    records = []
    for head, shift in _shifts(method.name, scene, kinds):
        far, far_y = _predict(method, shift.data, num_samples)
        both, both_y = _join(near, far), torch.cat([y.flatten(), far_y.flatten()])
        scores = detection(_per_row(near.epistemic), _per_row(far.epistemic))
        scores |= {f"{k}_total": v for k, v in detection(_per_row(near.variance), _per_row(far.variance)).items()}
        for by, end in (("epistemic", ""), ("std", "_total")):
            scores[f"ause{end}"] = ause(both, both_y, by)
            scores[f"error_correlation{end}"] = error_correlation(both, both_y, by)
        scores |= {"rmse": rmse(far, far_y), "nll": nll(far, far_y), "coverage_90": coverage(far, far_y)}
        scores |= {"epistemic": far.epistemic.mean().item(), "variance": far.variance.mean().item()}
        scores["extreme"] = (far.log_std_draws.abs() >= LOG_STD_LIMIT).double().mean().item()
        records.append({**head, **scores, **base})
    return records


def evaluate_detector(
    name: str, score: Callable[[Data], Tensor], scene: Scene, kinds: Iterable[str] = REPORTED
) -> list[dict]:
    """The part of the records of `evaluate` that needs no prediction, for any score per row."""
    near = score(scene.inside)
    return [{**head, **detection(near, score(shift.data))} for head, shift in _shifts(name, scene, kinds)]


def detection(near: Tensor, far: Tensor) -> dict[str, float]:
    """AUROC, AUPR and FPR95 of a score of rows inside and outside."""
    return {"auroc": ood_auroc(near, far), "aupr": ood_aupr(near, far), "fpr95": ood_fpr95(near, far)}


def _shifts(method: str, scene: Scene, kinds: Iterable[str]) -> Iterator[tuple[dict, Shift]]:
    wanted = set(kinds)
    for label, shift in scene.outside.items():
        if shift.kind in wanted:
            head = {"scene": scene.name, "seed": scene.seed, "shift": label, "kind": shift.kind, "method": method}
            yield head, shift


def _predict(method: AbstractMethod, data: Data, num_samples: int) -> tuple[Prediction, Tensor]:
    every = list(batches(data, 512))
    parts = [method.predict(batch, num_samples) for batch in every]
    mean, log_std = (torch.cat([getattr(p, name) for p in parts], 1) for name in ("mean_draws", "log_std_draws"))
    prediction = Prediction(mean, log_std.clamp(-LOG_STD_LIMIT, LOG_STD_LIMIT))
    return prediction, torch.cat([batch["y"] for batch in every])


def _per_row(variance: Tensor) -> Tensor:
    return variance.mean(-1).flatten().sqrt()


def _join(a: Prediction, b: Prediction) -> Prediction:
    draws = ((a.mean_draws, b.mean_draws), (a.log_std_draws, b.log_std_draws))
    return Prediction(*(torch.cat([part.flatten(1) for part in pair], 1) for pair in draws))


# Detectors to compare with: they predict nothing, they only say how far a row is from training.

View = Callable[[Batch], Tensor]
"""Batch to vectors, (rows, size); a row per query time of a series."""

REFERENCE_ROWS, GP_ROWS, NEIGHBOURS = 2000, 500, 5
"""Training rows that are neighbours, training rows of the Gaussian process, and the neighbour whose distance counts."""


def flat_inputs(batch: Batch) -> Tensor:
    """Inputs as one vector; of series, observations, their times and the query time."""
    x = batch["x"]
    if "query_times" not in batch:
        return torch.cat([x.flatten(1), *([batch["calendar"]] if "calendar" in batch else [])], -1)
    keep = ~batch["mask"]
    seen = torch.cat([(x * keep[..., None]).flatten(1), batch["times"] * keep], -1)
    asked = batch["query_times"]
    return torch.cat([seen[:, None].expand(-1, asked.shape[1], -1), asked[..., None]], -1).flatten(0, 1)


def trunk_features(trunk: Trunk) -> View:
    """What the head of a trained deterministic network reads, for instance of `GaussianMLE(...).trunk`."""

    @torch.no_grad()
    def view(batch: Batch) -> Tensor:
        return trunk(batch).hidden.flatten(0, 2)

    return view


def references(scene: Scene, trunk: Trunk | None = None, seed: int = 0) -> dict[str, Callable[[Data], Tensor]]:
    """Scores per row, by name: distances among inputs, among the features of a network, a Gaussian process, chance."""
    random = generator_of("references", seed)
    found: dict[str, Callable[[Data], Tensor]] = {"noise": lambda data: tensor(random.random(_entries(data)))}
    views = {"inputs": flat_inputs} | ({"features": trunk_features(trunk)} if trunk is not None else {})
    for label, view in views.items():
        known = _seen(view, scene.train)
        found[f"mahalanobis/{label}"] = _mahalanobis(view, known)
        found[f"knn/{label}"] = _nearest(view, known[random.permutation(len(known))[:REFERENCE_ROWS]])
    if scene.problem.kind == "table":
        rows = torch.as_tensor(random.permutation(len(scene.train))[:GP_ROWS])
        found["gp"] = _gaussian_process(scene.train.batch(rows))
    return found


def described(scene: Scene, seed: int = 0) -> dict[str, Callable[[Data], Tensor]]:
    """Distances among the descriptions of inputs that `nsac` looks at (`describe` of the encoder)."""
    random, encoder = generator_of("described", seed), scene.problem.encoder(0)

    def view(batch: Batch) -> Tensor:
        return encoder.describe(batch).flatten(0, 1)

    known = _seen(view, scene.train)
    some = known[random.permutation(len(known))[:REFERENCE_ROWS]]
    return {"mahalanobis/described": _mahalanobis(view, known), "knn/described": _nearest(view, some)}


def _seen(view: View, data: Data) -> Tensor:
    return torch.cat([view(batch) for batch in batches(data, 512)])


def _entries(data: Data) -> int:
    y = data.batch(torch.arange(1))["y"]
    return len(data) * y[..., 0].numel()


def _mahalanobis(view: View, known: Tensor) -> Callable[[Data], Tensor]:
    fitted = LedoitWolf().fit(known.numpy())
    return lambda data: tensor(fitted.mahalanobis(_seen(view, data).numpy()))


def _nearest(view: View, known: Tensor) -> Callable[[Data], Tensor]:
    std, mean = torch.std_mean(known, 0)
    scaled = (known - mean) / std.clamp(min=1e-6)

    def score(data: Data) -> Tensor:
        rows = (_seen(view, data) - mean) / std.clamp(min=1e-6)
        return torch.cdist(rows, scaled).kthvalue(NEIGHBOURS, dim=1).values

    return score


def _gaussian_process(batch: Batch) -> Callable[[Data], Tensor]:
    wide = (1e-3, 1e4)
    lengths = np.full(batch["x"].shape[1], 2.0)
    kernel = ConstantKernel(1.0, wide) * RBF(lengths, wide)  # pyright: ignore[reportArgumentType]
    kernel += WhiteKernel(0.1, (1e-6, 1e2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a feature without effect gets the greatest length
        fitted = GaussianProcessRegressor(kernel).fit(batch["x"].numpy(), batch["y"][:, 0].numpy())

    def score(data: Data) -> Tensor:
        x = torch.cat([batch["x"] for batch in batches(data)])
        return tensor(np.asarray(fitted.predict(x.numpy(), return_std=True)[1]))

    return score
