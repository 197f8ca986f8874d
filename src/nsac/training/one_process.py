"""Training in one process on the CPU, without Fabric, whose import takes as long as fitting a small table."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from nsac.training.config import TrainConfig


class OneProcess:
    """The part of Fabric's interface that training uses, where there is nothing to move, convert or gather."""

    is_global_zero, world_size, global_rank = True, 1, 0
    device = torch.device("cpu")

    @staticmethod
    def suffices(config: TrainConfig) -> bool:
        """Whether a run is one process on the CPU, in the precision of its model."""
        cpu = config.accelerator == "cpu" or (config.accelerator == "auto" and not torch.accelerator.is_available())
        return cpu and config.devices == 1 and config.precision == "32-true"

    def setup(self, module: nn.Module, optimiser: torch.optim.Optimizer) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Both as they are."""
        return module, optimiser

    def to_device(self, batch: Any) -> Any:
        """The batch as it is."""
        return batch

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of the loss to the parameters."""
        loss.backward()

    def clip_gradients(self, module: nn.Module, optimiser: torch.optim.Optimizer, max_norm: float) -> None:
        """Scale the gradient down to this norm; an error if it is not finite."""
        parameters = [p for group in optimiser.param_groups for p in group["params"]]
        nn.utils.clip_grad_norm_(parameters, max_norm, error_if_nonfinite=True)

    def autocast(self) -> AbstractContextManager[None]:
        """No change of precision."""
        return nullcontext()

    def barrier(self) -> None:
        """Nobody to wait for."""
