"""Monte Carlo dropout."""

import torch
from torch import Tensor

from nsac.methods.base import AbstractProblem, method
from nsac.methods.gaussian import AbstractGaussian


@method("mcd")
class MCDropout(AbstractGaussian):
    """Monte Carlo dropout before the head, also in prediction; draws differ in their dropout mask."""

    def __init__(self, problem: AbstractProblem, seed: int = 0, rate: float = 0.1):
        if not 0 < rate < 1:
            raise ValueError(f"`rate` must be strictly between 0 and 1. Got {rate} instead. A common value is 0.1.")
        super().__init__(problem, seed)
        self.rate = rate

    def _perturb(self, hidden: Tensor, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        kept = torch.rand((*shape, hidden.shape[-1]), generator=generator, device=hidden.device) >= self.rate
        return hidden * kept / (1 - self.rate)
