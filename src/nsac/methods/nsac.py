"""NSAC: noise in the logits of attention."""

import math
from typing import Literal

import torch
from torch import Tensor

from nsac._checks import check_choice
from nsac.layers import Draws, NSACLoss
from nsac.methods.base import AbstractTrainable, Problem, Rows, method, sweep
from nsac.models import LinearReader, Network, Novelty
from nsac.models.encoders import Batch

LEAST_SHARE, MOST = 0.05, 0.5
"""Mean epistemic variance of known inputs: at least this share of the squared error, at most this."""


@method("nsac")
class NSACMethod(AbstractTrainable):
    r"""Stochastic attention; one pass through the gates, N draws of the logits.

    With the objective `"novelty"` the loss is the likelihood alone, and in prediction the noise is as loud as an input
    is new: draws are scaled about their mean so that it varies by V(x) (`models.novelty`). No mean depends on it. The
    amplitude of V is set on validation, so that there the two variances add up to the squared error: epistemic is what
    the head, which learnt its deviations where it learnt its means, does not account for.

    Args:
        problem: what the data looks like.
        seed: fixes wiring, initial weights and random features.
        objective: `"novelty"`, or `"paper"`: the paper's two terms.
        reg_weight: of the paper's second term, 0.5 by default; the other objective has none.
    """

    has_epistemic = True

    def __init__(
        self,
        problem: Problem,
        seed: int = 0,
        objective: Literal["novelty", "paper"] = "novelty",
        reg_weight: float | None = None,
    ):
        super().__init__(problem)
        check_choice("objective", objective, ("novelty", "paper"))
        if objective == "novelty" and reg_weight is not None:
            raise ValueError(
                f"`reg_weight` must be None with objective='novelty'. Got {reg_weight} instead. "
                "Pass objective='paper' for the paper's two terms."
            )
        encoder = problem.encoder(seed)
        self.network = Network(encoder, problem.network, "ou", seed)
        self.reader = LinearReader(self.network, problem.outputs, seed + 2)
        self.novelty = Novelty(encoder.described, seed + 3) if objective == "novelty" else None
        weight = 0.5 if reg_weight is None else reg_weight
        self.objective = NSACLoss(weight if objective == "paper" else 0.0)

    @property
    def parts(self) -> dict[str, Tensor]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Parts of the latest loss."""
        return self.objective.parts

    def prepare(self, train: Rows) -> None:
        """Learn what is known: the inputs of training."""
        if self.novelty is not None:
            self.novelty.fit(torch.cat([self.network.encoder.describe(batch) for batch in sweep(train)]))

    def finish(self, train: Rows, validation: Rows) -> None:
        """Set the amplitude: what the aleatoric variance leaves of the squared error of validation."""
        if self.novelty is None:
            return
        self.novelty.log_amplitude.fill_(-math.inf)
        error, aleatoric, new, prior = [], [], [], []
        for batch in sweep(validation, 512):
            p = self.predict(batch)
            error.append((p.mean - self.target(batch)).square().flatten())
            aleatoric.append(p.aleatoric.flatten())
            for part, values in zip((new, prior), self._news(batch), strict=True):
                part.append(values)
        error, aleatoric = (torch.cat(values).mean() for values in (error, aleatoric))
        left = torch.maximum(error - aleatoric, LEAST_SHARE * error).clamp(max=MOST)
        self.novelty.log_amplitude.copy_(self.novelty.amplitude_for(torch.cat(new), torch.cat(prior), left))

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """One per draw of the logits' noise, which is the same for all rows."""
        doubt = None
        if self.novelty is not None and torch.isfinite(self.novelty.log_amplitude):  # not before it is set
            doubt = self.novelty.variance(*self._news(batch))
        return Draws(*self.reader(self.network, batch, num_samples, generator, True, doubt))

    def loss(self, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Likelihood; with the paper's objective also separation of surrogates, in one pass."""
        others = {name: value for name, value in batch.items() if name not in ("x", "y")}

        def layer(x, num_samples, generator, **inputs):
            return Draws(*self.reader(self.network, {"x": x, **inputs}, num_samples, generator, shared=False))

        return self.objective(layer, batch["x"], self.target(batch), generator, **others)

    @torch.no_grad()
    def _news(self, batch: Batch) -> tuple[Tensor, Tensor]:
        assert self.novelty is not None
        return self.novelty(self.network.encoder.describe(batch))
