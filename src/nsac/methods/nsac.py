"""NSAC: attention with stochastic logits."""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

import torch
from torch import Tensor

from nsac._checks import check_choice, warn_single_key
from nsac.layers import Draws, Novelty, NSACLoss
from nsac.layers.loss import gaussian_nll
from nsac.layers.novelty import MAX_TRAINING_INPUTS, Epistemic
from nsac.layers.reader import LinearReader
from nsac.layers.tails import scale_offsets, spread_scales, tailed_nll
from nsac.methods.base import AbstractTrainable, method
from nsac.methods.baselines import Persistence
from nsac.methods.event_stack import BATCH_ROWS, EventStack
from nsac.methods.problem import AbstractProblem, EventsProblem
from nsac.models import Network
from nsac.models.encoder import Batch, Encoded
from nsac.training import Data, Subset, batches

Objective = Literal["novelty", "paper"]
FLOAT_COLUMNS = ("x", "y", "calendar", "static", "future")
"""Columns of a batch that are converted to the precision of the weights; others keep theirs."""
TRAINING_DRAWS = 5  # draws per row in training
MAX_EVENT_ROWS, MAX_DESCRIBED = 2000, 8192
"""Rows of events, each with many queries, that the novelty is fitted to, and queries of a batch that are described."""
MAX_LIKELIHOOD_LOSS, MIN_LOG_AMPLITUDE, MAX_LIMIT_ROWS = 0.003, -20.0, 512
"""Nats per observed target that V may cost validation rows of events, the least amplitude, and rows that judge it."""
MIN_UNIT = 0.1  # smallest unit of epistemic standard deviations of events, for a standardised target


@method("nsac")
class NSACMethod(AbstractTrainable):
    r"""Stochastic attention; the gates are computed once for N draws of the logits.

    With the objective `"novelty"` the loss is the likelihood alone, and the epistemic variance of a prediction comes
    from the novelty of its input: draws are scaled about their mean to the variance V(x) (`layers.novelty`). Means do
    not depend on it. The amplitude of V is calibrated on validation rows, so that the two variances add up to the
    squared error there, or to less if that suffices for most rows: epistemic is the part of the error that the learned
    standard deviations do not account for. For events V is in units of the squared error of the last value, at the
    channel and lead time of a query, and costs validation rows hardly any likelihood.

    Args:
        problem: description of the data.
        seed: fixes wiring, initial weights and random features.
        objective: `"novelty"`, or `"paper"`: the paper's two-term objective.
        reg_weight: weight of the paper's second term, 0.5 by default; not used by the other objective.
    """

    def __init__(
        self, problem: AbstractProblem, seed: int = 0, objective: Objective = "novelty", reg_weight: float | None = None
    ):
        super().__init__(problem)
        check_choice("objective", objective, get_args(Objective))
        if objective == "novelty" and reg_weight is not None:
            raise ValueError(
                f"`reg_weight` must be None with objective='novelty'. Got {reg_weight} instead. "
                "Pass objective='paper' for the paper's two terms."
            )
        encoder, network = problem.encoder(seed), problem.network
        self.network = Network(encoder, network, "ou", seed)
        self.reader = LinearReader(
            encoder.query_dim, network.d_model, network.num_heads, network.hidden,
            problem.output_dim // encoder.queries_per_row, encoder.skip_dim, True, not encoder.per_query, seed + 2,
            encoder.skip_weight, problem.heavy_tails and objective == "novelty",
        )  # fmt: skip
        self.novelty = self.objective = self.persistence = self.stack = None
        if objective == "novelty":
            self.novelty = Novelty(encoder.description_dim, problem.output_dim, seed + 3)
        else:
            self.objective = NSACLoss(0.5 if reg_weight is None else reg_weight)
        if isinstance(problem, EventsProblem):
            self.persistence = Persistence(problem)
            self.stack = EventStack(problem, seed + 4) if problem.trees else None

    def prepare(self, train: Data) -> None:
        """Fit the novelty to the training inputs, or to a random subset if there are many."""
        if self.novelty is None:
            return
        self.novelty.log_amplitude.fill_(-math.inf)  # calibrated after training
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
        described = []
        limit = MAX_EVENT_ROWS if self.problem.kind == "events" else MAX_TRAINING_INPUTS
        for rows in order[:limit].sort().values.split(512):
            batch = train.batch(rows)
            if not described:
                self.network.encoder(batch)  # raises an error if the data does not match the problem
            chosen = _asked(batch, self.network.encoder.describe(batch))
            described.append(chosen[:: -(-len(chosen) // MAX_DESCRIBED)] if len(chosen) else chosen)
        self.novelty.fit(torch.cat(described))
        if self.persistence is not None:
            self.persistence.solve(train, train)

    @torch.no_grad()
    def finish(self, train: Data, validation: Data) -> None:
        """Fit the trees, if there are any, then calibrate the amplitude of the novelty on validation rows."""
        if self.stack is not None:
            self.stack.fit(train, validation, lambda batch: self.network_draws(self._converted(batch)))
        if self.novelty is None:
            return
        rows = []
        for batch in batches(validation, 512):
            batch = self._converted(batch)
            p = self.predict(batch)
            novelty, prior = self.novelty(self.network.encoder.describe(batch))
            if p.mean.ndim == 3:
                novelty, prior = novelty.unsqueeze(-1), prior.unsqueeze(-1)
            error, aleatoric = (p.mean - self.target(batch)).square(), p.aleatoric
            if self.persistence is not None:
                unit = torch.exp(2 * self._log_unit(self.persistence, batch))
                error, aleatoric = error / unit, aleatoric / unit
            columns = error, aleatoric.masked_fill(error.isnan(), math.nan), novelty, prior
            rows.append([_asked(batch, column) for column in columns])
        columns = [torch.cat(column) for column in zip(*rows, strict=True)]
        self.novelty.calibrate(*columns, train_rows=len(train))
        if self.persistence is not None:
            self._limit_amplitude(self.novelty, validation)

    def _limit_amplitude(self, novelty: Novelty, validation: Data) -> None:
        """Lower the amplitude of V for events until it costs validation rows hardly any likelihood.

        Squared errors of events have heavy tails, which the learned likelihood accounts for and their mean does not.
        """
        rows = torch.linspace(0, len(validation) - 1, min(len(validation), MAX_LIMIT_ROWS)).round().long()
        found = [self._converted(batch) for batch in batches(Subset(validation, rows.numpy()), BATCH_ROWS)]
        known = torch.cat([(~batch["y"].isnan()).sum((1, 2)) for batch in found])

        def nll(log_amplitude: float) -> Tensor:  # of each row
            novelty.log_amplitude.fill_(log_amplitude)
            return torch.cat([-self.predict(batch).log_prob(batch["y"]).nansum((1, 2)) for batch in found])

        def is_costly(log_amplitude: float) -> bool:
            excess = nll(log_amplitude) - without - MAX_LIKELIHOOD_LOSS * known
            return bool(excess.sum() > (excess - excess.mean()).norm())  # by more than a standard error

        log_amplitude, without = novelty.log_amplitude.item(), nll(-math.inf)
        while is_costly(log_amplitude) and log_amplitude > MIN_LOG_AMPLITUDE:
            log_amplitude -= 1

    def draws(
        self, batch: Batch, num_samples: int, generator: torch.Generator | None, noise: Tensor | None = None
    ) -> Draws:
        """One per draw of the noise of the logits, which all rows share and which may be given."""
        encoded = self.network.encoder(batch)
        draws = self._network_draws(batch, encoded, num_samples, generator, noise)
        if self.stack is not None and self.stack.is_fitted:
            draws = self.stack.move(draws, batch, self.anchor(encoded))
        return draws

    @torch.no_grad()
    def network_draws(self, batch: Batch, num_samples: int = 20) -> Draws:
        """Draws of the network alone, without trees; the noise is that of `predict`."""
        generator = torch.Generator(batch["x"].device).manual_seed(0)
        return self._network_draws(batch, self.network.encoder(batch), num_samples, generator)

    def _network_draws(
        self,
        batch: Batch,
        encoded: Encoded,
        num_samples: int,
        generator: torch.Generator | None,
        noise: Tensor | None = None,
    ) -> Draws:
        novelty, epistemic = self.novelty, None
        if novelty is not None and (torch.compiler.is_compiling() or novelty.calibrated):  # a graph cannot check values
            epistemic = partial(self._epistemic, novelty, batch)
        if noise is None:
            noise = self.network.noise(encoded, num_samples, generator, shared=True)
        mean, log_std, *tail = self._read(encoded, noise, epistemic)
        if not tail:
            return Draws(mean, log_std)
        mean, log_std = spread_scales(mean, log_std, tail[0], num_samples)
        return Draws(mean if epistemic is None else scale_offsets(mean, log_std), log_std)

    def anchor(self, encoded: Encoded) -> Tensor:
        """What the network of a problem of events adds its changes to, (B, Q, 1)."""
        assert self.reader.skip is not None and encoded.skip is not None
        return self.reader.skip(encoded.skip)

    def loss(self, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Negative log-likelihood; with the paper's objective also the separation of surrogates, in one pass."""
        y = self.target(batch)
        if self.objective is None:
            mean, log_std, *tail = self._training_draws(batch, TRAINING_DRAWS, generator)
            nll = tailed_nll(mean, log_std, tail[0], y) if tail else gaussian_nll(mean, log_std, y, self.problem.beta)
            self.parts = {"nll": nll.detach()}
            return nll

        def layer(x: Tensor, num_samples: int, generator: torch.Generator | None, **inputs: Tensor) -> Draws:
            return Draws(*self._training_draws({"x": x, **inputs}, num_samples, generator))

        others = {name: value for name, value in batch.items() if name not in ("x", "y")}
        loss = self.objective(layer, batch["x"], y, generator, **others)
        self.parts = self.objective.parts
        return loss

    def _training_draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> tuple[Tensor, ...]:
        """As `_read`, with noise of its own for every row."""
        encoded = self.network.encoder(batch)
        return self._read(encoded, self.network.noise(encoded, num_samples, generator, shared=False), None)

    def _read(self, encoded: Encoded, noise: Tensor, epistemic: Callable[[], Epistemic] | None) -> tuple[Tensor, ...]:
        """Mean and log standard deviation of each draw, and with heavy tails the width of its tail."""
        warn_single_key(encoded.tokens.shape[1], self.problem.network.topk, None)
        attend = partial(self.network.attend, encoded)
        query = encoded.query.expand(encoded.tokens.shape[0], -1, -1)
        return self.reader(attend, query, noise, encoded.skip, epistemic)

    def _epistemic(self, novelty: Novelty, batch: Batch) -> Epistemic:
        found = novelty.epistemic(self.network.encoder.describe(batch))
        if self.persistence is None:
            return found
        log_unit = self._log_unit(self.persistence, batch)
        return Epistemic(found.variance * torch.exp(2 * log_unit.squeeze(-1)), found.min_log_std + log_unit)

    @staticmethod
    def _log_unit(persistence: Persistence, batch: Batch) -> Tensor:
        """Logarithm of the unit of epistemic standard deviations of events, (B, Q, 1)."""
        return persistence.log_error(batch).clamp(min=math.log(MIN_UNIT))

    def _converted(self, batch: Batch) -> Batch:
        """In the precision and on the device of the weights."""
        like = self.reader.direct.weight
        return {n: v.to(like) if n in FLOAT_COLUMNS else v.to(like.device) for n, v in batch.items()}


def _asked(batch: Batch, values: Tensor) -> Tensor:
    """Values of the queries that are not padding, (n, 1, ...); all of them if no query is, (B, Q, ...)."""
    return values[~batch["query_mask"]].unsqueeze(1) if "query_mask" in batch else values
