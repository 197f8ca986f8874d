"""SDE-Net: features follow a stochastic differential equation whose diffusion is trained to be large on OOD data."""

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from nsac.layers import Draws
from nsac.layers.init import seeded_mlp
from nsac.methods.base import AbstractProblem, AbstractTrainable, method
from nsac.models import Features, Head, Trunk
from nsac.models.encoder import Batch
from nsac.uncertainty import GaussianNoise


@method("sdenet")
class SDENet(AbstractTrainable):
    r"""$dh = f(h, t)\,dt + g(h_0)\,dW$ from the features $h_0$, by Euler-Maruyama; the head reads $h_1$.

    The drift f is trained by the likelihood alone. The diffusion g is trained to be small on data and large on
    perturbed data; its gradient does not reach other weights.
    """

    def __init__(
        self, problem: AbstractProblem, seed: int = 0, steps: int = 4, sigma: float = 0.5, ood_std: float = 5.0
    ):
        super().__init__(problem)
        self.steps, self.sigma = steps, sigma
        self.trunk = Trunk(problem.encoder(seed), problem.network, seed)
        width = problem.network.hidden
        self.drift = seeded_mlp(width + 1, width, width, seed + 4)
        self.diffusion = seeded_mlp(width, width, 1, seed + 5)
        self.head = Head(self.trunk, problem.output_dim, 3 if problem.heavy_tails else 2, seed + 2)
        self.surrogate = GaussianNoise(0.0, ood_std)

    def _flow(self, features: Features, shape: tuple[int, ...], generator: torch.Generator | None) -> Features:
        h = features.hidden
        scale = self.sigma * torch.sigmoid(self.diffusion(h.detach())).detach()
        size = (self.steps, *shape, h.shape[-1])
        noise = torch.randn(size, generator=generator, dtype=h.dtype, device=h.device)
        dt = 1 / self.steps
        for n in range(self.steps):
            t = torch.full_like(h[..., :1], n * dt)
            h = h + self.drift(torch.cat([h, t], -1)) * dt + scale * dt**0.5 * noise[n]
        return features._replace(hidden=h)

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """One draw per path; all rows share the Brownian motion."""
        return self.head.normal(self._flow(self.trunk(batch), (num_samples, 1, 1), generator), num_samples)

    def loss(self, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Negative log-likelihood of one path, and the diffusion as a classifier of perturbed data."""
        features = self.trunk(batch)
        flow = self._flow(features, tuple(features.hidden.shape[:-1]), generator)
        nll = self.head.nll(flow, self.target(batch), self.problem.beta)
        with torch.no_grad():
            perturbed = self.trunk({**batch, "x": self.surrogate(batch["x"], lambda x: x, generator)}).hidden
        id_logit = self.diffusion(features.hidden.detach())
        ood_logit = self.diffusion(perturbed)
        reg = binary_cross_entropy_with_logits(id_logit, torch.zeros_like(id_logit))
        reg = reg + binary_cross_entropy_with_logits(ood_logit, torch.ones_like(ood_logit))
        self.parts = {"nll": nll.detach(), "reg": reg.detach()}
        return nll + reg
