"""NSAC: noise in the logits of attention."""

import math
from typing import Literal

import torch
from torch import Tensor

from nsac._checks import check_choice
from nsac.layers import Draws, NSACLoss
from nsac.methods.base import AbstractProblem, AbstractTrainable, method
from nsac.models import LinearReader, Network, Novelty
from nsac.models.encoder import Batch
from nsac.models.novelty import ROWS
from nsac.training import Data, batches

LEAST_SHARE, LARGEST_LEAST, MOST = 2.0, 0.1, 0.5
"""Epistemic variance of known inputs, on average: at least 2 / sqrt(training rows) of the squared error, a tenth where
rows are few, and never more than one half."""

CHI_MEDIAN = 0.455
"""Median of the square of a standard normal number."""


@method("nsac")
class NSACMethod(AbstractTrainable):
    r"""Stochastic attention; one pass through the gates, N draws of the logits.

    With the objective `"novelty"` the loss is the likelihood alone, and in prediction the noise is as loud as an input
    is new: draws are scaled about their mean so that it varies by V(x) (`models.novelty`). No mean depends on it. The
    amplitude of V is set on validation, so that there the two variances add up to the squared error, or less if that is
    enough for most rows: epistemic is what the head, which learnt its deviations with its means, does not account for.

    Args:
        problem: what the data looks like.
        seed: fixes wiring, initial weights and random features.
        objective: `"novelty"`, or `"paper"`: the paper's two terms.
        reg_weight: of the paper's second term, 0.5 by default; the other objective has none.
    """

    has_epistemic = True

    def __init__(
        self,
        problem: AbstractProblem,
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
        self.reader = LinearReader(self.network, problem.output_dim, seed + 2)
        self.novelty = Novelty(encoder.described, problem.output_dim, seed + 3) if objective == "novelty" else None
        weight = 0.5 if reg_weight is None else reg_weight
        self.objective = NSACLoss(weight if objective == "paper" else 0.0)

    @property
    def parts(self) -> dict[str, Tensor]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Parts of the latest loss."""
        return self.objective.parts

    def prepare(self, train: Data) -> None:
        """Learn what is known: the inputs of training, or some of them if there are many."""
        if self.novelty is None:
            return
        self.novelty.log_amplitude.fill_(-math.inf)  # not set, until training is over
        chosen = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[:ROWS].sort().values
        described = []
        for rows in chosen.split(512):
            batch = train.batch(rows)
            if not described:
                self.network.encoder(batch)  # says what is wrong with the data, if anything is
            described.append(self.network.encoder.describe(batch))
        self.novelty.fit(torch.cat(described))

    def finish(self, train: Data, validation: Data) -> None:
        """Set the amplitude: what the aleatoric variance leaves of the squared error of validation.

        On average, but no more than brings the median of error over variance to that of a Gaussian: a few rows with
        large errors must not make all the others unsure.
        """
        if self.novelty is None:
            return
        like, parts = self.reader.direct.weight, []
        for batch in batches(validation, 512):
            batch = {
                name: v.to(like) if name in ("x", "y", "calendar") else v.to(like.device) for name, v in batch.items()
            }
            p, news = self.predict(batch), self._news(batch)
            per_query = [v.unsqueeze(-1) if p.mean.ndim == 3 else v for v in news]
            error = (p.mean - self.target(batch)).square()
            parts.append((error, p.aleatoric.masked_fill(error.isnan(), math.nan), *per_query))
        error, aleatoric, new, prior = (torch.cat(part) for part in zip(*parts, strict=True))
        least = min(LEAST_SHARE / len(train) ** 0.5, LARGEST_LEAST)
        share = (error.nanmean() - aleatoric.nanmean()).clamp(min=least * error.nanmean().item(), max=MOST)
        ratio = min((1 - least) * (error / aleatoric).nanmedian().item(), CHI_MEDIAN)
        usual = aleatoric.flatten(0, -2).nanmean(0)
        usual = self.novelty.usual = usual.nan_to_num(nan=usual.nanmean().item())  # an output may be unknown throughout

        def enough(v: Tensor) -> bool:
            total = torch.maximum(aleatoric, usual * v / prior) + v
            return bool(v.mean() > share) or (error / total).nanmedian().item() < ratio

        self.novelty.set_amplitude(new, prior, enough)

    def draws(
        self, batch: Batch, num_samples: int, generator: torch.Generator | None, noise: Tensor | None = None
    ) -> Draws:
        """One per draw of the logits' noise, which is the same for all rows, and may be given."""
        novelty = self.novelty
        traced = torch.compiler.is_compiling()  # then it must be set: a graph cannot look
        known = novelty is not None and (traced or bool(torch.isfinite(novelty.log_amplitude)))  # not before it is set
        describe = self.network.encoder.describe
        doubt = (lambda: novelty.doubt(describe(batch))) if novelty is not None and known else None
        return Draws(*self.reader(self.network, batch, num_samples, generator, True, doubt, noise))

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
