"""The mixture of ensemble members, and the search of a hyperparameter."""

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nsac.methods import AbstractMethod
from nsac.uncertainty import Prediction


def mixture(members: Sequence[AbstractMethod], batch: dict[str, Tensor], num_samples: int) -> Prediction:
    """Draws of all members for one batch, in double precision."""
    batch = {name: value.double() if value.is_floating_point() else value for name, value in batch.items()}
    return join([member.predict(batch, num_samples) for member in members], 0)


def join(predictions: Sequence[Prediction], axis: int) -> Prediction:
    """Several predictions as one: axis 0 joins draws, axis 1 joins rows."""
    mean_draws = torch.cat([p.mean_draws for p in predictions], axis)
    log_std_draws = torch.cat([p.log_std_draws for p in predictions], axis)
    return Prediction(mean_draws, log_std_draws)


def minimise_unimodal(score: Callable[[int], float], n: int) -> int:
    """Where `score` is least among 0 to n - 1 if it has one minimum: downhill from the middle, each point once."""
    score = functools.cache(score)
    best = (n - 1) // 2
    step = 1 if best + 1 < n and score(best + 1) < score(best) else -1
    while 0 <= best + step < n and score(best + step) < score(best):
        best += step
    return best
