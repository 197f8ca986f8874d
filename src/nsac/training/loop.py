"""The only training loop: AdamW, clipped gradients, averaged weights, the best on validation kept, resumable."""

import atexit
import logging
import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from nsac.training.checkpoint import CheckpointError, latest_checkpoint, read_checkpoint, sweep, write_checkpoint
from nsac.training.config import TrainConfig
from nsac.training.contract import Data, DivergedError, Interrupted, Progress, Trainable, TrainResult
from nsac.training.interrupt import HeldInterrupt
from nsac.training.state import RunState

REMEMBERED = 100
"""Latest losses whose median says what is normal."""
FEWEST = 10
"""Losses it takes to say so."""


def train(
    model: Trainable,
    train_data: Data,
    validation_data: Data,
    config: TrainConfig,
    *,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    report: Callable[[Progress], None] | None = None,
) -> TrainResult:
    """Train `model` in place and leave in it the weights that did best on validation, on the device of the training.

    The same model, data, config and seed give the same bits, whether or not the run was stopped and resumed on the way.
    No global random state is read or changed.

    Args:
        model: an `nn.Module` with `loss`, `validation` and `parts`.
        train_data: rows to learn from.
        validation_data: rows that choose the weights.
        config: numbers of the run.
        seed: fixes data order and noise; initial weights are the model's own affair.
        checkpoint: folder for checkpoints. If it holds one, the run goes on from there.
        report: called after each step, in the first process only.

    Raises:
        DivergedError: a loss, gradient or weight was not finite, or the loss exploded. The model holds the last good
            weights.
        Interrupted: Ctrl-C. The run can be resumed.
        CheckpointError: the folder holds something that cannot be resumed.
    """
    _check_model(model)
    if not len(train_data) or not len(validation_data):
        raise ValueError(
            "`train_data` and `validation_data` must have at least one row. "
            f"Got {len(train_data)} and {len(validation_data)} instead."
        )
    fabric = _launch(config)
    folder = None if checkpoint is None else Path(checkpoint)
    run = _Run(fabric, cast(Any, model), train_data, validation_data, config, seed)
    if folder is not None:
        run.resume(folder)
    with HeldInterrupt() as interrupt:
        try:
            run.go(folder, report, interrupt)
        except KeyboardInterrupt:
            raise Interrupted(run.leave(folder)) from None
        except DivergedError as err:
            raise DivergedError(f"{err} {run.retreat(folder)}") from None
        return run.finish()


class _Run:
    """What happens to the state, in which order."""

    def __init__(self, fabric, model, train_data: Data, validation_data: Data, config: TrainConfig, seed: int):
        self.config = config
        self.state = RunState(fabric, model, train_data, validation_data, config, seed)
        self.losses: deque[float] = deque(maxlen=REMEMBERED)
        self.history: list[dict[str, Any]] = []
        self.stale = 0  # validations since the best one
        self.started = time.monotonic()
        self.values: dict[str, float] = {}  # loss and its parts at the latest step
        self.agreed = False  # all processes know that the run is to stop here

    @property
    def finished(self) -> bool:
        return self.state.step >= self.state.steps or self.out_of_patience

    @property
    def out_of_patience(self) -> bool:
        return self.config.patience is not None and self.stale >= self.config.patience

    @property
    def validation_due(self) -> bool:
        step = self.state.step
        on_time = step > 0 and (step % self.config.validate_every == 0 or step == self.state.steps)
        return on_time and not (self.history and self.history[-1]["step"] == step)

    def go(self, folder: Path | None, report: Callable[[Progress], None] | None, interrupt: HeldInterrupt) -> None:
        saved = time.monotonic()
        while True:
            if self.validation_due:  # before the step, because a run can be stopped between a step and its validation
                self.validate()
            if report is not None and self.values and self.state.fabric.is_global_zero:
                report(self.progress())
            overdue = time.monotonic() - saved >= self.config.checkpoint_every
            stop, overdue = self.state.agree(interrupt.asked, overdue)
            if stop:
                self.agreed = True
                raise KeyboardInterrupt
            if folder is not None and (self.finished or (overdue and self.values)):
                self.save(folder)
                saved = time.monotonic()
            if self.finished:
                return
            self.values = self.state.advance(self.check)
            self.losses.append(abs(self.values["loss"]))

    def check(self, values: dict[str, float], gradient_is_finite: bool) -> None:
        """Called between the gradient and the update, so that a bad step is never taken."""
        size, limit, step = abs(values["loss"]), self.config.explode, self.state.step + 1
        if not (math.isfinite(size) and gradient_is_finite):
            raise DivergedError(
                f"Training diverged at step {step}: {self.state.first_bad(values)} is not finite. "
                "Lower the learning rate, or look at the data of this step."
            )
        if size > limit and len(self.losses) >= FEWEST:
            usual = statistics.median(self.losses)
            if size > limit * max(1.0, usual):
                raise DivergedError(
                    f"Training diverged at step {step}: the loss is {values['loss']:.3g}, and {usual:.3g} is usual. "
                    "Lower the learning rate, standardise the data, or raise `explode`."
                )

    def validate(self) -> None:
        score = self.state.validate()
        self.state.torn = True
        self.history.append(
            {
                "step": self.state.step,
                "parts": self.values,
                "validation": score,
                "learning_rate": self.state.learning_rate,
                "seconds": time.monotonic() - self.started,
            }
        )
        if score < self.state.best_score:  # never true of NaN
            self.state.keep(score)
            self.stale = 0
        else:
            self.stale += 1
        self.state.torn = False

    def progress(self) -> Progress:
        validation = self.history[-1]["validation"] if self.history else None
        return Progress(self.state.step, self.state.steps, self.values, validation, self.state.learning_rate)

    def save(self, folder: Path) -> None:
        if not self.state.weights_are_finite():
            return  # the next step will say so; what is on the disk stays good
        own = {
            "history": self.history,
            "stale": self.stale,
            "losses": list(self.losses),
            "values": self.values,
            "seconds": time.monotonic() - self.started,
        }
        snapshot = self.state.snapshot(own)
        if self.state.fabric.is_global_zero:
            write_checkpoint(folder, snapshot)
        self.state.fabric.barrier()  # for every process, saved means on the disk

    def resume(self, folder: Path) -> None:
        fabric = self.state.fabric
        if fabric.is_global_zero:
            sweep(folder)
        path = latest_checkpoint(folder)
        if path is not None:
            snapshot = read_checkpoint(path)
            try:
                self.state.restore(snapshot)
            except CheckpointError as err:
                raise CheckpointError(
                    f"Checkpoint {path} {err}. Pass what the run was begun with, or name another folder to begin anew."
                ) from None
            facts = snapshot.facts
            self.history, self.stale, self.values = facts["history"], facts["stale"], facts["values"]
            self.losses.extend(facts["losses"])
            self.started = time.monotonic() - facts["seconds"]
            if not self.validation_due:
                self.values = {}  # this step was reported before
        fabric.barrier()  # no process may write before all have read

    def leave(self, folder: Path | None) -> str:
        """After Ctrl-C: save what can be saved, and say how to go on."""
        where = f"Stopped at step {self.state.step} of {self.state.steps}."
        if folder is None:
            return f"{where} Nothing was saved; pass `checkpoint=` to be able to resume."
        # Half an update cannot be saved, and processes that do not stop together cannot save together.
        if self.state.rewind() and (self.state.fabric.world_size == 1 or self.agreed):
            self.save(folder)
        return (
            f"{where} To go on, call `train` again with the same arguments: checkpoint={str(folder)!r} has the state."
        )

    def retreat(self, folder: Path | None) -> str:
        """After a divergence: bring back the last good state, and say which it is."""
        self.state.rewind()
        if self.state.weights_are_finite():
            if folder is not None:
                self.save(folder)
            return f"The model holds the weights after step {self.state.step}."
        self.state.load_best()
        return f"The model holds the weights after step {self.state.best_step}."

    def finish(self) -> TrainResult:
        state = self.state
        if not math.isfinite(state.best_score):
            raise DivergedError(
                f"No validation score was finite in {state.step} steps. The model holds its last weights. "
                "Look at the validation data, or lower the learning rate."
            )
        state.load_best()
        return TrainResult(state.step, state.best_score, state.best_step, self.history, state.step < state.steps)


def _check_model(model: object) -> None:
    missing = [name for name in ("loss", "validation") if not callable(getattr(model, name, None))]
    if not isinstance(model, nn.Module) or missing:
        raise TypeError(
            "`model` must be an `nn.Module` with methods `loss(batch, generator)` and `validation(batch, generator)`. "
            f"Got {type(model).__name__} instead{', without ' + ' and '.join(missing) if missing else ''}."
        )


def _launch(config: TrainConfig):
    from lightning_fabric import Fabric  # here, because it takes a second to import

    log = logging.getLogger("lightning_fabric")
    level = log.level
    log.setLevel(logging.WARNING)  # it announces processes; that is not news to who asked for them
    try:
        strategy = "ddp" if config.devices > 1 else "auto"
        fabric = Fabric(
            accelerator=config.accelerator, strategy=strategy, devices=config.devices, precision=config.precision
        )
        fabric.launch()
    finally:
        log.setLevel(level)
    if config.devices > 1:
        atexit.unregister(_disconnect)  # once is enough
        atexit.register(_disconnect)
    return fabric


def _disconnect() -> None:
    """Gloo's threads must end before the interpreter does, or the process may abort at its very end."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
