"""Hyperparameters of a training run, and the learning rate and the decay of the average at each step."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from nsac._checks import check_choice, check_int, check_positive

Schedule = Literal["cosine", "one-cycle"]
Precision = Literal["32-true", "64-true", "bf16-mixed"]
ONE_CYCLE_START, ONE_CYCLE_END = 1 / 25, 1e-4 / 25
"""Learning rate at both ends of `"one-cycle"` over its peak, as in `torch.optim.lr_scheduler.OneCycleLR`."""


@dataclass(frozen=True)
class TrainConfig:
    """Hyperparameters of a training run."""

    epochs: int = 100
    """passes over the training rows, if `max_steps` is None"""
    max_steps: int | None = None
    """optimiser steps; overrides `epochs`"""
    batch_size: int = 128
    """rows per step, over all processes. An incomplete last batch of an epoch is dropped"""
    learning_rate: float = 3e-3
    """peak learning rate, after the warm-up"""
    weight_decay: float = 1e-2
    """weight decay of matrices and synapses; biases have none"""
    schedule: Schedule = "cosine"
    """`"cosine"`: linear warm-up, then a cosine to 0; `"one-cycle"`: a cosine up from 1/25 of the peak, and one down"""
    warmup: float = 0.1
    """fraction of the steps in which the learning rate rises"""
    clip: float | None = 1.0
    """maximum norm of the gradient; None for no clipping"""
    ema: float | None = 0.998
    """decay of the exponential moving average of the weights, which is validated and kept; None for no averaging"""
    patience: int | None = None
    """validations without improvement after which the run stops; None for no early stopping"""
    validate_every: int = 100
    """steps between validations; the last step is always validated"""
    validation_batch_size: int = 512
    """rows per validation batch; it bounds memory, and changes the noise that a row is evaluated with"""
    explode: float = 1e4
    """training has diverged if |loss| exceeds this many times the median of the latest ones (at least 1)"""
    precision: Precision = "32-true"
    """`"32-true"` keeps the precision of model and data; `"64-true"` converts both to double"""
    accelerator: str = "auto"
    """`"cpu"`, `"cuda"`, ..., or `"auto"`, the best available"""
    devices: int = 1
    """number of processes, each with an equal slice of the batch"""
    checkpoint_every: float = 30.0
    """seconds between checkpoints; 0 writes one after every step"""

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type in (float, float | None) and isinstance(value, int):
                object.__setattr__(self, field.name, float(value))  # 1 and 1.0 must have the same key
            if field.type is int or (field.type == int | None and value is not None):
                check_int(field.name, value)
        for name in ("learning_rate", "explode"):
            check_positive(name, getattr(self, name))
        if self.clip is not None:
            check_positive("clip", self.clip)
        for name in ("weight_decay", "checkpoint_every"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise ValueError(f"`{name}` must be a finite number of at least 0. Got {value!r} instead.")
        for name in ("warmup", "ema"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise ValueError(f"`{name}` must be at least 0 and below 1. Got {value!r} instead.")
        check_choice("schedule", self.schedule, get_args(Schedule))
        check_choice("precision", self.precision, get_args(Precision))
        if self.batch_size % self.devices:
            raise ValueError(
                f"`batch_size` must be a multiple of `devices` ({self.devices}), so that every process gets an equal "
                f"slice. Got {self.batch_size} instead. Take {self.devices * -(-self.batch_size // self.devices)}."
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TrainConfig":
        """A config from a plain dict, as read from JSON or TOML."""
        known = [field.name for field in fields(cls)]
        unknown = ", ".join(map(repr, sorted(set(values) - set(known))))
        if unknown:
            raise ValueError(f"A training config has no field {unknown}. The fields are {', '.join(known)}.")
        return cls(**values)

    @property
    def key(self) -> str:
        """Hash of the fields: the same on every machine, and different for different configs."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def learning_rate_factor(step: int, steps: int, warmup: float, schedule: str) -> float:
    """Learning rate over its peak in step number `step` = 0, ..., `steps` - 1."""
    if schedule == "one-cycle":
        peak = warmup * steps - 1
        if step < peak:
            return _cosine(ONE_CYCLE_START, 1.0, step / peak)
        return _cosine(1.0, ONE_CYCLE_END, (step - peak) / (steps - 1 - peak))
    warmup_steps = warmup * steps
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    return _cosine(1.0, 0.0, (step - warmup_steps) / (steps - warmup_steps))


def ema_decay(decay: float, updates: int) -> float:
    """Decay of the averaged weights after `updates` updates: it grows, so that initial weights are forgotten."""
    return min(decay, (1 + updates) / (10 + updates)) if updates else 0.0


def _cosine(start: float, end: float, fraction: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * fraction))
