"""NSAC: noise in the logits of attention."""

import torch
from torch import Tensor

from nsac.layers import Draws, NSACLoss
from nsac.methods.base import AbstractTrainable, Problem, method
from nsac.models import LinearReader, Network
from nsac.models.encoders import Batch


@method("nsac")
class NSACMethod(AbstractTrainable):
    """Stochastic attention; one pass through the gates, N draws of the logits."""

    has_epistemic = True

    def __init__(self, problem: Problem, seed: int = 0, reg_weight: float = 0.5):
        super().__init__(problem)
        self.network = Network(problem.encoder(seed), problem.network, "ou", seed)
        self.reader = LinearReader(self.network, problem.outputs, seed + 2)
        self.objective = NSACLoss(reg_weight)

    @property
    def parts(self) -> dict[str, Tensor]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Parts of the latest loss."""
        return self.objective.parts

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """One per draw of the logits' noise, which is the same for all rows."""
        return Draws(*self.reader(self.network, batch, num_samples, generator, shared=True))

    def loss(self, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Likelihood and separation of surrogates, in one pass."""
        others = {name: value for name, value in batch.items() if name not in ("x", "y")}

        def layer(x, num_samples, generator, **inputs):
            return Draws(*self.reader(self.network, {"x": x, **inputs}, num_samples, generator, shared=False))

        return self.objective(layer, batch["x"], self.target(batch), generator, **others)
