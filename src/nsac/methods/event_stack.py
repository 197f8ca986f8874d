"""Boosted trees beside a network of events."""

import math
from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor, nn

from nsac.layers import Draws
from nsac.methods.event_trees import EventTrees
from nsac.methods.problem import EventsProblem
from nsac.models.encoder import Batch
from nsac.training import Data, batches
from nsac.uncertainty import Prediction, crps

BATCH_ROWS = 64  # rows of events that a network predicts at once
MAX_ENTRIES = 10_000  # observed targets that choose the share of the trees, at most
SHARES, DISCOUNTS = (0.0, 0.25, 0.5, 0.75, 1.0), (0.0, 0.1, 0.3, 1.0, 3.0)  # that are compared
NETWORK_ALONE = (0.0, 0.0, 1.0)  # share of the trees, discount, factor


class EventStack(nn.Module):
    r"""A linear pool: of the draws of a network, the share p is moved to the mean of the trees.

    With mean m of the network, mean t of the trees and their mean squared error $e^2$ at the channel and lead time, a
    draw of variance $\sigma_n^2$ is moved by $(t - m)\,\sigma_n^2 / (\sigma_n^2 + d e^2)$. Narrow draws hardly move:
    they are the density of a value that is likely to be repeated exactly. The share p and the discount d are those of
    least CRPS on validation rows. Where network and trees disagree, draws differ, so their disagreement is epistemic
    variance.

    Afterwards `shrink` may scale what the mean adds to the anchor of the network by a factor.
    """

    choice: Tensor

    def __init__(self, problem: EventsProblem, seed: int = 0):
        super().__init__()
        self.trees = EventTrees(problem, seed)
        self.register_buffer("choice", torch.tensor(NETWORK_ALONE))

    @property
    def is_fitted(self) -> bool:
        """Whether anything but the network counts."""
        return not torch.equal(self.choice, self.choice.new_tensor(NETWORK_ALONE))

    def fit(self, train: Data, validation: Data, network: Callable[[Batch], Draws]) -> None:
        """Grow trees on training rows, and choose their share on validation rows; `network` gives its draws."""
        self.trees.solve(train, validation)
        found = []
        for batch in batches(validation, BATCH_ROWS):
            known, draws = ~batch["y"].isnan(), network(batch)
            columns = draws.mean[:, known], draws.log_std[:, known], *(each[known] for each in self._trees(batch))
            found.append([*columns, batch["y"][known]])
        mean, log_std, trees, error, y = (torch.cat(column, -1) for column in zip(*found, strict=True))
        if not len(y):
            return
        some = torch.linspace(0, len(y) - 1, min(len(y), MAX_ENTRIES)).round().long()
        draws, others = Draws(mean[:, some], log_std[:, some]), (trees[some], error[some])

        def score(choice: tuple[float, float]) -> float:
            return crps(Prediction(pool(draws, *others, *choice), draws.log_std), y[some])

        share, discount = min(product(SHARES, DISCOUNTS), key=score)
        self.choice[0], self.choice[1] = share, discount

    def shrink(self, factor: float) -> None:
        """Scale what the mean adds to the anchor by a factor in [0, 1]."""
        self.choice[2] *= factor

    def move(self, draws: Draws, batch: Batch, anchor: Tensor) -> Draws:
        """Draws of the network, (N, B, Q, 1), pooled with the trees; `anchor` is (B, Q, 1)."""
        share, discount, factor = self.choice.tolist()
        mean = draws.mean
        if share:
            trees, error = self._trees(batch)
            mean = pool(draws, trees.to(mean), error.to(mean), share, discount)
        return Draws(mean + (factor - 1) * (mean.mean(0) - anchor), draws.log_std)

    def _trees(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Mean of the trees, and their error, (B, Q, 1) both."""
        mean = self.trees.predict(batch).mean
        return mean, self.trees.log_error(batch).exp().expand_as(mean)


def pool(draws: Draws, trees: Tensor, error: Tensor, share: float, discount: float) -> Tensor:
    """Means of the draws, (N, ...), of which a share is moved to the mean of the trees, (...); see `EventStack`."""
    number = torch.arange(len(draws.mean) + 1, dtype=torch.float64) * share
    moved = number.floor().diff()  # evenly spaced, since neighbouring draws have similar standard deviations
    moved = (moved + share - moved.mean()).to(draws.mean)  # the mean of few draws is exact as well
    variance = torch.exp(2 * draws.log_std)
    shift = (trees - draws.mean.mean(0)) * variance / (variance + discount * error.square()).clamp(min=math.ulp(0.0))
    return draws.mean + moved.view(-1, *(1,) * (draws.mean.ndim - 1)) * shift
