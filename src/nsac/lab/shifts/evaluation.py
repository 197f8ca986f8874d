"""Scores of a method on the shifts of a scene: shift detection, error correlation, coverage."""

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from nsac.lab.shifts.scenes.base import REPORTED, Scene, Shift
from nsac.methods import AbstractMethod
from nsac.training import Data, batches
from nsac.uncertainty import Prediction, ause, coverage, crps, error_correlation, nll, rmse
from nsac.uncertainty.ood import ood_aupr, ood_auroc, ood_fpr95

LOG_STD_LIMIT = 10.0
"""Limit of the absolute log standard deviation. Far from the training data a network's standard deviation may
overflow, and then no score would be finite."""


def evaluate(
    method: AbstractMethod, scene: Scene, kinds: Iterable[str] = REPORTED, num_samples: int = 20
) -> list[dict]:
    """One record per shift of these kinds.

    Detection scores (`auroc`, `aupr`, `fpr95`) compare the epistemic standard deviations of shifted and in-distribution
    rows; with `_total`, the total standard deviations. The variance of a row is the mean over its outputs; each query
    time of a series is a row. `ause` and `error_correlation` are over the rows of both sides. Scores with `_inside` are
    of in-distribution rows. `extreme` is the fraction of standard deviations clamped by `LOG_STD_LIMIT`.
    """
    near, near_y = _predict(method, scene.inside, num_samples)
    inside = {f"{name}_inside": score for name, score in _score(near, near_y).items()}
    inside["crps_inside"] = crps(near, near_y)
    records = []
    for head, shift in _shifts(method.name, scene, kinds):
        far, far_y = _predict(method, shift.data, num_samples)
        means = torch.cat([near.mean_draws.flatten(1), far.mean_draws.flatten(1)], 1)
        log_stds = torch.cat([near.log_std_draws.flatten(1), far.log_std_draws.flatten(1)], 1)
        both, both_y = Prediction(means, log_stds), torch.cat([near_y.flatten(), far_y.flatten()])
        record = head | _score(far, far_y) | inside
        record["extreme"] = (far.log_std_draws.abs() >= LOG_STD_LIMIT).double().mean().item()
        for variance, by, suffix in (("epistemic", "epistemic", ""), ("variance", "std", "_total")):
            scores = detection(_std_per_row(getattr(near, variance)), _std_per_row(getattr(far, variance)))
            scores |= {"ause": ause(both, both_y, by), "error_correlation": error_correlation(both, both_y, by)}
            record |= {f"{name}{suffix}": score for name, score in scores.items()}
        records.append(record)
    return records


def evaluate_detector(
    name: str, score: Callable[[Data], Tensor], scene: Scene, kinds: Iterable[str] = REPORTED
) -> list[dict]:
    """Detection scores of `evaluate` for any score per row; larger means more novel."""
    near = score(scene.inside)
    return [{**head, **detection(near, score(shift.data))} for head, shift in _shifts(name, scene, kinds)]


def detection(near: Tensor, far: Tensor) -> dict[str, float]:
    """AUROC, AUPR and FPR95 of a score of in-distribution and of shifted rows."""
    return {"auroc": ood_auroc(near, far), "aupr": ood_aupr(near, far), "fpr95": ood_fpr95(near, far)}


def _shifts(method: str, scene: Scene, kinds: Iterable[str]) -> Iterator[tuple[dict, Shift]]:
    wanted = set(kinds)
    for label, shift in scene.outside.items():
        if shift.kind in wanted:
            head = {"scene": scene.name, "seed": scene.seed, "shift": label, "kind": shift.kind, "method": method}
            yield head, shift


def _predict(method: AbstractMethod, data: Data, num_samples: int) -> tuple[Prediction, Tensor]:
    found = [(method.predict(batch, num_samples), batch["y"]) for batch in batches(data, 512)]
    log_std = torch.cat([p.log_std_draws for p, _ in found], 1).clamp(-LOG_STD_LIMIT, LOG_STD_LIMIT)
    return Prediction(torch.cat([p.mean_draws for p, _ in found], 1), log_std), torch.cat([y for _, y in found])


def _std_per_row(variance: Tensor) -> Tensor:
    return variance.mean(-1).flatten().sqrt()


def _score(p: Prediction, y: Tensor) -> dict[str, float]:
    variances = {"epistemic": p.epistemic.mean().item(), "variance": p.variance.mean().item()}
    return {"rmse": rmse(p, y), "nll": nll(p, y), "coverage_90": coverage(p, y), **variances}
