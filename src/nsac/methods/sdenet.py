"""SDE-Net: features move along a stochastic differential equation whose diffusion tells known from unknown."""

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from nsac.layers import Draws
from nsac.layers.init import seeded_mlp
from nsac.layers.loss import gaussian_nll
from nsac.methods.base import AbstractProblem, AbstractTrainable, method
from nsac.models import Features, Head, Trunk
from nsac.models.encoder import Batch
from nsac.uncertainty import GaussianNoise


@method("sdenet")
class SDENet(AbstractTrainable):
    r"""$dh = f(h, t)\,dt + g(h_0)\,dW$ from the features $h_0$, by Euler-Maruyama; the head reads $h_1$.

    The drift f learns from the likelihood alone. The diffusion g learns to be small on data and large on perturbed
    data, and its gradient goes no further.
    """

    has_epistemic = True

    def __init__(
        self, problem: AbstractProblem, seed: int = 0, steps: int = 4, sigma: float = 0.5, ood_std: float = 5.0
    ):
        super().__init__(problem)
        self.steps, self.sigma = steps, sigma
        self.trunk = Trunk(problem.encoder(seed), problem.network, seed)
        width = problem.network.hidden
        self.drift = seeded_mlp(width + 1, width, width, seed + 4)
        self.diffusion = seeded_mlp(width, width, 1, seed + 5)
        self.head = Head(self.trunk, problem.output_dim, 2, seed + 2)
        self.surrogate = GaussianNoise(0.0, ood_std)
        self.parts = {}

    def _flow(self, features: Features, shape: tuple[int, ...], generator: torch.Generator | None) -> Draws:
        h = features.hidden
        scale = self.sigma * torch.sigmoid(self.diffusion(h.detach())).detach()
        size = (self.steps, *shape, h.shape[-1])
        noise = torch.randn(size, generator=generator, dtype=h.dtype, device=h.device)
        dt = 1 / self.steps
        for n in range(self.steps):
            t = torch.full_like(h[..., :1], n * dt)
            h = h + self.drift(torch.cat([h, t], -1)) * dt + scale * dt**0.5 * noise[n]
        return self.head.normal(features._replace(hidden=h))

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """One per path; all rows meet the same Brownian motion."""
        return self._flow(self.trunk(batch), (num_samples, 1, 1), generator)

    def loss(self, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Likelihood of one path, and the diffusion as a classifier of data against perturbed data."""
        features = self.trunk(batch)
        nll = gaussian_nll(*self._flow(features, tuple(features.hidden.shape[:-1]), generator), self.target(batch))
        with torch.no_grad():
            strange = self.trunk({**batch, "x": self.surrogate(batch["x"], lambda x: x, generator)}).hidden
        known, unknown = (self.diffusion(h) for h in (features.hidden.detach(), strange))
        reg = sum(
            binary_cross_entropy_with_logits(logit, torch.full_like(logit, label))
            for logit, label in ((known, 0.0), (unknown, 1.0))
        )
        self.parts = {"nll": nll.detach(), "reg": torch.as_tensor(reg).detach()}
        return nll + reg
