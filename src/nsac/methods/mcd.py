"""Monte Carlo dropout: features before the head are dropped at random, also in prediction."""

import torch
from torch import Tensor

from nsac.layers import Draws
from nsac.layers.loss import gaussian_nll
from nsac.methods.base import AbstractProblem, AbstractTrainable, method
from nsac.models import Features, Head, Trunk
from nsac.models.encoder import Batch


@method("mcd")
class MCDropout(AbstractTrainable):
    """Gaussian regression with dropout before the head; draws differ in their dropout mask."""

    has_epistemic = True

    def __init__(self, problem: AbstractProblem, seed: int = 0, rate: float = 0.1):
        super().__init__(problem)
        if not 0 < rate < 1:
            raise ValueError(f"`rate` must be strictly between 0 and 1. Got {rate} instead. A common value is 0.1.")
        self.rate = rate
        self.trunk = Trunk(problem.encoder(seed), problem.network, seed)
        self.head = Head(self.trunk, problem.output_dim, 2, seed + 2)

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """One draw per dropout mask; everything before the dropout layer is computed once."""
        return self._drop(self.trunk(batch), (num_samples, 1, 1), generator)

    def _drop(self, features: Features, shape: tuple[int, ...], generator: torch.Generator | None) -> Draws:
        hidden = features.hidden
        kept = torch.rand((*shape, hidden.shape[-1]), generator=generator, device=hidden.device) >= self.rate
        return self.head.normal(features._replace(hidden=hidden * kept / (1 - self.rate)))

    def loss(self, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Negative log-likelihood under one mask per row."""
        features = self.trunk(batch)
        nll = gaussian_nll(*self._drop(features, tuple(features.hidden.shape[:-1]), generator), self.target(batch))
        self.parts = {"nll": nll.detach()}
        return nll
