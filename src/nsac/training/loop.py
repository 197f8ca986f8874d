"""The training loop: AdamW, gradient clipping, averaged weights, selection on validation, checkpoints."""

import atexit
import logging
import math
import signal
import statistics
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from nsac._torch import plain_autograd
from nsac.training.checkpoint import (
    CheckpointError,
    hold_checkpoints,
    latest_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from nsac.training.config import TrainConfig
from nsac.training.data import Data, check_rows
from nsac.training.one_process import OneProcess
from nsac.training.progress import Progress, Report
from nsac.training.state import RunState

MIN_LOSSES_FOR_MEDIAN = 10  # number of losses from which on a loss is compared with their median


class Trainable(Protocol):
    """The interface of an `nn.Module` that can be trained.

    `generator`, on the device of the batch, must be the only source of randomness: a run with `nn.Dropout`, which uses
    torch's global random state, does not resume bit for bit.
    """

    @property
    def parts(self) -> dict[str, Tensor]:
        """Named parts of the latest loss, detached, for the log."""
        ...

    def loss(self, batch: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        """Scalar to minimise: a mean over the rows of the batch."""
        ...

    def validation(self, batch: dict[str, Tensor], generator: torch.Generator) -> tuple[Tensor, int]:
        """Sum of the negative log-likelihood over the entries of the batch, and the number of entries."""
        ...


@dataclass(frozen=True)
class TrainResult:
    """Result of a run; the weights are in the model."""

    steps: int  # steps done
    best_score: float  # validation score of the weights that were kept: negative log-likelihood per entry
    best_step: int  # step after which these weights were validated
    history: list[dict[str, Any]]  # one dict per validation: step, parts, validation, learning_rate, seconds
    stopped_early: bool  # whether patience ran out before the last step


class DivergedError(FloatingPointError):
    """A loss, gradient or weight is not finite, or the loss is far above its median."""


class Interrupted(KeyboardInterrupt):
    """Stopped by Ctrl-C. The message explains how to resume."""


@plain_autograd()
def train(
    model: Trainable,
    train_data: Data,
    validation_data: Data,
    config: TrainConfig,
    *,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    report: Report | None = None,
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
        CheckpointError: the folder contains a checkpoint that cannot be resumed, or another run is using it.
    """
    missing = [name for name in ("loss", "validation") if not callable(getattr(model, name, None))]
    if not isinstance(model, nn.Module) or missing:
        raise TypeError(
            "`model` must be an `nn.Module` with methods `loss(batch, generator)` and `validation(batch, generator)`. "
            f"Got {type(model).__name__} instead{', without ' + ' and '.join(missing) if missing else ''}."
        )
    check_rows(train_data, validation_data)
    fabric = _launch(config)
    folder = None if checkpoint is None else Path(checkpoint)
    with hold_checkpoints(folder if fabric.is_global_zero else None):
        state = RunState(fabric, model, train_data, validation_data, config, seed)
        _resume(state, folder)
        return _complete(state, folder, report)


def _complete(state: RunState, folder: Path | None, report: Report | None) -> TrainResult:
    with DeferredInterrupt() as interrupt:
        try:
            _run_steps(state, folder, report, interrupt)
        except KeyboardInterrupt:
            how = "There is no checkpoint; pass `checkpoint=` to be able to resume."
            if folder is not None:
                place = f"checkpoint={str(folder)!r}"
                how = f"To resume, call `train` again with the same arguments: {place} has the state."
            # An incomplete update cannot be saved, and processes that stop at different steps cannot save together.
            if state.rewind() and (state.fabric.world_size == 1 or state.stop_agreed):
                _save(state, folder)
            raise Interrupted(f"Stopped at step {state.step} of {state.steps}. {how}") from None
        except DivergedError as err:
            state.rewind()
            step = state.step
            if state.weights_are_finite():
                _save(state, folder)
            else:
                state.load_best()
                step = state.best_step
            raise DivergedError(f"{err} The model has the weights after step {step}.") from None
        if not math.isfinite(state.best_score):
            raise DivergedError(
                f"No validation score was finite in {state.step} steps. The model has its last weights. "
                "Check the validation data, or lower the learning rate."
            )
        state.load_best()
        return TrainResult(state.step, state.best_score, state.best_step, state.history, state.step < state.steps)


def _run_steps(state: RunState, folder: Path | None, report: Report | None, interrupt: "DeferredInterrupt") -> None:
    saved = time.monotonic()
    while True:
        if state.validation_due:  # before the step: a run can be stopped between a step and its validation
            state.validate()
        if report is not None and state.values and state.fabric.is_global_zero:
            validation = state.history[-1]["validation"] if state.history else None
            report(Progress(state.step, state.steps, state.values, validation, state.learning_rate))
        overdue = time.monotonic() - saved >= state.config.checkpoint_every
        state.stop_agreed, overdue = state.agree(interrupt.requested, overdue)
        if state.stop_agreed:
            raise KeyboardInterrupt
        if state.finished or (overdue and state.values):
            _save(state, folder)
            saved = time.monotonic()
        if state.finished:
            return
        values, gradient_is_finite = state.compute_gradient()
        _check(state, values, gradient_is_finite)  # before the update, so that a diverged step has no effect
        state.update(values)


def _check(state: RunState, values: dict[str, float], gradient_is_finite: bool) -> None:
    size, limit, diverged = abs(values["loss"]), state.config.explode, f"Training diverged at step {state.step + 1}:"
    if not (math.isfinite(size) and gradient_is_finite):
        raise DivergedError(
            f"{diverged} {state.first_not_finite(values)} is not finite. "
            "Lower the learning rate, or check the data of this step."
        )
    if size > limit and len(state.losses) >= MIN_LOSSES_FOR_MEDIAN:
        median = statistics.median(state.losses)
        if size > limit * max(1.0, median):
            raise DivergedError(
                f"{diverged} the loss is {values['loss']:.3g}, its median {median:.3g}. "
                "Lower the learning rate, standardise the data, or raise `explode`."
            )


def _save(state: RunState, folder: Path | None) -> None:
    if folder is None or not state.weights_are_finite():
        return  # if a weight is not finite, the next step raises an error; the checkpoints on disk remain valid
    snapshot = state.snapshot()
    if state.fabric.is_global_zero:
        write_checkpoint(folder, snapshot)
    state.fabric.barrier()  # no process continues before the checkpoint is on disk


def _resume(state: RunState, folder: Path | None) -> None:
    if folder is None:
        return
    path = latest_checkpoint(folder, sweep=state.fabric.is_global_zero)
    if path is not None:
        snapshot = read_checkpoint(path)
        try:
            state.restore(snapshot)
        except CheckpointError as err:
            raise CheckpointError(
                f"Checkpoint {path} {err}. Pass the arguments of that run, or another folder for a new run."
            ) from None
    state.fabric.barrier()  # no process may write before all have read


class DeferredInterrupt:
    """In this context the first Ctrl-C only sets `requested`; the second one interrupts immediately.

    Outside the main thread, where Python allows no signal handlers, it does nothing.
    """

    requested, _previous = False, None

    def __enter__(self) -> "DeferredInterrupt":
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.getsignal(signal.SIGINT)
        if self._previous is not None:  # None: not set from Python, so it could not be restored
            signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
        if self.requested and kind is None:
            raise KeyboardInterrupt  # it came after the last check inside the context

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


def _launch(config: TrainConfig) -> Any:
    """A launched Fabric, or what stands for it."""
    if OneProcess.suffices(config):
        return OneProcess()
    from lightning_fabric import Fabric  # imported here because it takes a second

    log = logging.getLogger("lightning_fabric")
    log_level = log.level
    log.setLevel(logging.WARNING)  # no messages about processes and devices
    try:
        strategy = "ddp" if config.devices > 1 else "auto"
        options = {"accelerator": config.accelerator, "devices": config.devices, "precision": config.precision}
        fabric = Fabric(strategy=strategy, **options)
        fabric.launch()
    finally:
        log.setLevel(log_level)
    if config.devices > 1:
        atexit.register(_disconnect)
    return fabric


def _disconnect() -> None:
    """Close the process group: Gloo's threads must end before the interpreter, or the process may abort at exit."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
