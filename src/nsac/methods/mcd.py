"""Monte-Carlo dropout: the last features are dropped at random, in prediction too."""

import torch
from torch import Tensor

from nsac.layers import Draws
from nsac.layers.loss import gaussian_nll
from nsac.methods.base import AbstractTrainable, Problem, method
from nsac.models import Head, Network
from nsac.models.encoders import Batch


@method("mcd")
class MCDropout(AbstractTrainable):
    """Gaussian regression with dropout before the head; draws differ in what was dropped."""

    has_epistemic = True

    def __init__(self, problem: Problem, seed: int = 0, rate: float = 0.1):
        super().__init__(problem)
        self.rate = rate
        self.network = Network(problem.encoder(seed), problem.network, "ode", seed)
        self.head = Head(self.network, problem.outputs, 2, seed + 2)
        self.parts = {}

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """One per mask; everything before the dropped layer is computed once."""
        hidden = self.network(batch)
        shape = (num_samples, *hidden.features.shape[1:])
        kept = torch.rand(shape, generator=generator, device=hidden.features.device) >= self.rate
        return Draws(*self.head(hidden._replace(features=hidden.features * kept / (1 - self.rate))))

    def loss(self, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Negative log-likelihood under one mask per row."""
        nll = gaussian_nll(*self.draws(batch, 1, generator), batch["y"])
        self.parts = {"nll": nll.detach()}
        return nll
