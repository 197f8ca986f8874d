"""The training loop: AdamW, gradient clipping, averaged weights, selection on validation, checkpoints."""

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
from nsac.training.interrupt import DeferredInterrupt
from nsac.training.state import RunState

MEDIAN_WINDOW = 100
"""Number of latest losses whose median a loss is compared with."""
MIN_LOSSES_FOR_MEDIAN = 10
"""Number of losses from which on they are compared."""


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
    """Train `model` in place; it ends with the weights of the best validation score, on the training device.

    The same model, data, config and seed give the same bits, whether or not the run was interrupted and resumed. The
    global random state is neither read nor changed.

    Args:
        model: an `nn.Module` with `loss`, `validation` and `parts`.
        train_data: training rows.
        validation_data: rows for the choice of the best weights.
        config: hyperparameters of the run.
        seed: fixes data order and noise, but not the initial weights of the model.
        checkpoint: folder for checkpoints. If it contains one, the run resumes from there.
        report: called after each step, in the first process only.

    Raises:
        DivergedError: a loss, gradient or weight was not finite, or the loss was far above its median. The model has
            the last good weights.
        Interrupted: Ctrl-C. The run can be resumed.
        CheckpointError: the folder contains a checkpoint that cannot be resumed.
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
    with DeferredInterrupt() as interrupt:
        try:
            run.run_steps(folder, report, interrupt)
        except KeyboardInterrupt:
            raise Interrupted(run.save_and_describe_resume(folder)) from None
        except DivergedError as err:
            raise DivergedError(f"{err} {run.restore_last_good(folder)}") from None
        return run.finish()


class _Run:
    """The sequence of steps, validations and checkpoints of one run."""

    def __init__(
        self, fabric: Any, model: Any, train_data: Data, validation_data: Data, config: TrainConfig, seed: int
    ):
        self.config = config
        self.state = RunState(fabric, model, train_data, validation_data, config, seed)
        self.losses: deque[float] = deque(maxlen=MEDIAN_WINDOW)
        self.history: list[dict[str, Any]] = []
        self.without_improvement = 0  # validations since the best one
        self.started = time.monotonic()
        self.values: dict[str, float] = {}  # loss and its parts at the latest step
        self.stop_agreed = False  # all processes stop after this step

    @property
    def finished(self) -> bool:
        return self.state.step >= self.state.steps or self.out_of_patience

    @property
    def out_of_patience(self) -> bool:
        return self.config.patience is not None and self.without_improvement >= self.config.patience

    @property
    def validation_due(self) -> bool:
        step = self.state.step
        on_time = step > 0 and (step % self.config.validate_every == 0 or step == self.state.steps)
        return on_time and not (self.history and self.history[-1]["step"] == step)

    def run_steps(
        self, folder: Path | None, report: Callable[[Progress], None] | None, interrupt: DeferredInterrupt
    ) -> None:
        saved = time.monotonic()
        while True:
            if self.validation_due:  # before the step: a run can be stopped between a step and its validation
                self.validate()
            if report is not None and self.values and self.state.fabric.is_global_zero:
                report(self.progress())
            overdue = time.monotonic() - saved >= self.config.checkpoint_every
            stop, overdue = self.state.agree(interrupt.requested, overdue)
            if stop:
                self.stop_agreed = True
                raise KeyboardInterrupt
            if folder is not None and (self.finished or (overdue and self.values)):
                self.save(folder)
                saved = time.monotonic()
            if self.finished:
                return
            self.values = self.state.advance(self.check)
            self.losses.append(abs(self.values["loss"]))

    def check(self, values: dict[str, float], gradient_is_finite: bool) -> None:
        """Raise `DivergedError` after the gradient and before the update, so that a diverged step has no effect."""
        size, limit, step = abs(values["loss"]), self.config.explode, self.state.step + 1
        if not (math.isfinite(size) and gradient_is_finite):
            raise DivergedError(
                f"Training diverged at step {step}: {self.state.first_not_finite(values)} is not finite. "
                "Lower the learning rate, or check the data of this step."
            )
        if size > limit and len(self.losses) >= MIN_LOSSES_FOR_MEDIAN:
            median = statistics.median(self.losses)
            if size > limit * max(1.0, median):
                raise DivergedError(
                    f"Training diverged at step {step}: the loss is {values['loss']:.3g}, its median {median:.3g}. "
                    "Lower the learning rate, standardise the data, or raise `explode`."
                )

    def validate(self) -> None:
        score = self.state.validate()
        self.state.update_in_progress = True
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
            self.without_improvement = 0
        else:
            self.without_improvement += 1
        self.state.update_in_progress = False

    def progress(self) -> Progress:
        validation = self.history[-1]["validation"] if self.history else None
        return Progress(self.state.step, self.state.steps, self.values, validation, self.state.learning_rate)

    def save(self, folder: Path) -> None:
        if not self.state.weights_are_finite():
            return  # the next step raises an error; the checkpoints on disk remain valid
        facts = {
            "history": self.history,
            "stale": self.without_improvement,
            "losses": list(self.losses),
            "values": self.values,
            "seconds": time.monotonic() - self.started,
        }
        snapshot = self.state.snapshot(facts)
        if self.state.fabric.is_global_zero:
            write_checkpoint(folder, snapshot)
        self.state.fabric.barrier()  # no process continues before the checkpoint is on disk

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
                    f"Checkpoint {path} {err}. Pass the arguments of that run, or another folder for a new run."
                ) from None
            facts = snapshot.facts
            self.history, self.without_improvement, self.values = facts["history"], facts["stale"], facts["values"]
            self.losses.extend(facts["losses"])
            self.started = time.monotonic() - facts["seconds"]
            if not self.validation_due:
                self.values = {}  # this step has been reported already
        fabric.barrier()  # no process may write before all have read

    def save_and_describe_resume(self, folder: Path | None) -> str:
        """After Ctrl-C: save a checkpoint if possible; returns a message that explains how to resume."""
        stopped = f"Stopped at step {self.state.step} of {self.state.steps}."
        if folder is None:
            return f"{stopped} There is no checkpoint; pass `checkpoint=` to be able to resume."
        # An incomplete update cannot be saved, and processes that stop at different steps cannot save together.
        if self.state.rewind() and (self.state.fabric.world_size == 1 or self.stop_agreed):
            self.save(folder)
        resume = f"To resume, call `train` again with the same arguments: checkpoint={str(folder)!r} has the state."
        return f"{stopped} {resume}"

    def restore_last_good(self, folder: Path | None) -> str:
        """After a divergence: restore the last good weights; returns a message with their step."""
        self.state.rewind()
        if self.state.weights_are_finite():
            if folder is not None:
                self.save(folder)
            return f"The model has the weights after step {self.state.step}."
        self.state.load_best()
        return f"The model has the weights after step {self.state.best_step}."

    def finish(self) -> TrainResult:
        state = self.state
        if not math.isfinite(state.best_score):
            raise DivergedError(
                f"No validation score was finite in {state.step} steps. The model has its last weights. "
                "Check the validation data, or lower the learning rate."
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


def _launch(config: TrainConfig) -> Any:
    from lightning_fabric import Fabric  # imported here because it takes a second

    log = logging.getLogger("lightning_fabric")
    log_level = log.level
    log.setLevel(logging.WARNING)  # no messages about processes and devices
    try:
        strategy = "ddp" if config.devices > 1 else "auto"
        fabric = Fabric(
            accelerator=config.accelerator, strategy=strategy, devices=config.devices, precision=config.precision
        )
        fabric.launch()
    finally:
        log.setLevel(log_level)
    if config.devices > 1:
        atexit.unregister(_disconnect)  # register it only once
        atexit.register(_disconnect)
    return fabric


def _disconnect() -> None:
    """Close the process group: Gloo's threads must end before the interpreter, or the process may abort at exit."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
