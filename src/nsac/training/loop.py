"""The training loop: AdamW, warm-up and cosine, clipped gradients, averaged weights, the best on validation kept."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel


@dataclass(frozen=True)
class TrainConfig:
    """Every number of a training run."""

    steps: int = 1500
    """optimiser steps"""
    learning_rate: float = 3e-3
    """peak, after the warm-up"""
    weight_decay: float = 1e-2
    """of matrices and synapses; biases do not decay"""
    warmup: float = 0.1
    """share of the steps in which the rate rises; then it falls along a cosine"""
    clip: float = 1.0
    """largest norm of the gradient"""
    ema: float = 0.995
    """decay of the averaged weights, which are the ones evaluated and kept"""
    validate_every: int = 100
    """steps between validations"""


@dataclass(frozen=True)
class Progress:
    """Where a run stands, after a step."""

    step: int
    steps: int
    parts: dict[str, float]
    """the parts of the loss at this step"""
    validation: float | None
    """the latest validation score; lower is better"""


def train(
    model: nn.Module,
    loss: Callable[[nn.Module], Tensor],
    validate: Callable[[nn.Module], float],
    config: TrainConfig,
    report: Callable[[Progress], None] = lambda progress: None,
) -> nn.Module:
    """Train `model` and return the averaged weights that did best on validation, as a model of the same kind.

    Args:
        model: what to train, in place.
        loss: draws a batch and gives the loss of the model on it; may have `parts`, a dict of numbers to report.
        validate: score of a model, lower is better.
        config: numbers of the run.
        report: called after each step.
    """
    decay = [p for name, p in model.named_parameters() if not name.endswith("bias")]
    others = [p for name, p in model.named_parameters() if name.endswith("bias")]
    groups = [{"params": decay, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, config.learning_rate, total_steps=config.steps, pct_start=config.warmup, cycle_momentum=False
    )

    def blend(mean: Tensor, new: Tensor, count: Tensor | int) -> Tensor:
        # Early on, a fixed decay would still remember the initial weights; so it grows with the number of steps.
        return mean.lerp(new, 1 - min(config.ema, (1 + int(count)) / (10 + int(count))))

    average = AveragedModel(model, avg_fn=blend)
    best, best_score, score = model, float("inf"), None
    for step in range(1, config.steps + 1):
        optimiser.zero_grad()
        value = loss(model)
        if not torch.isfinite(value):
            raise FloatingPointError(f"The loss is {value.item()} at step {step}. Lower the learning rate.")
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimiser.step()
        schedule.step()
        average.update_parameters(model)
        if step % config.validate_every == 0 or step == config.steps:
            score = validate(average.module)
            if score < best_score:
                best, best_score = copy.deepcopy(average.module), score
        parts = {name: float(part) for name, part in getattr(loss, "parts", {}).items()}
        report(Progress(step, config.steps, parts, score))
    return best
