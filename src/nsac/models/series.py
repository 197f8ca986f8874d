"""Encoder of irregularly sampled series."""

from typing import ClassVar

import torch
from torch import Tensor

from nsac._checks import check_dtype, check_sequence, check_shape
from nsac.layers.init import seeded_mlp
from nsac.layers.inputs import Inputs, local_statistics
from nsac.layers.times import CYCLES, TimeMode, first_valid, same_precision, time_features
from nsac.models.encoder import AbstractEncoder, Batch, Encoded

QUERY_RESOLUTIONS, WINDOW_RESOLUTION = (0.02, 0.1), 0.05
"""Widths, over `time_scale`, of the local statistics around the query and along the window."""
WINDOW_PLACES = (0.1, 0.3, 0.5, 0.7, 0.9)  # where along the window; fractions of its length


class SeriesEncoder(AbstractEncoder):
    """Observations at irregular times (`x`, `times`, `mask`) to one token each, and `query_times` to queries.

    Args:
        input_dim: features of an observation.
        time_scale: characteristic time scale, about the length of the observed window.
    """

    time: ClassVar[TimeMode] = "elapsed"
    per_query: ClassVar[bool] = True

    def __init__(self, input_dim: int, time_scale: float = 1.0, seed: int = 0):
        super().__init__()
        self.input_dim, self.time_scale = input_dim, time_scale
        time_dim = 1 + 2 * len(CYCLES)
        self.token = seeded_mlp(input_dim + time_dim, self.token_dim, self.token_dim, seed)
        self.query = seeded_mlp(time_dim, self.query_dim, self.query_dim, seed + 1)
        self.description_dim = 1 + (len(QUERY_RESOLUTIONS) + len(WINDOW_PLACES)) * (3 + 2 * input_dim)

    def describe(self, batch: Batch) -> Tensor:
        """Observations around the query time, at two resolutions, and around a few times of the observed window."""
        hidden = Inputs(batch["x"], mask=batch.get("mask")).hidden
        _, _, times, at = self._times(batch)
        x, times = batch["x"].masked_fill(hidden[..., None], 0), times.masked_fill(hidden, 0)
        places = times.new_tensor(WINDOW_PLACES) * times.amax(-1, keepdim=True)
        near = [local_statistics(x, times, hidden[:, None], at, width) for width in QUERY_RESOLUTIONS]
        window = local_statistics(x, times, hidden[:, None], places, WINDOW_RESOLUTION)
        window = window.flatten(1).unsqueeze(1).expand(-1, at.shape[1], -1)
        return torch.cat([at.unsqueeze(-1), *near, window], -1)

    def forward(self, batch: Batch) -> Encoded:  # noqa: D102
        x, mask = batch["x"], batch.get("mask")
        check_shape("x", x, "(batch, time, features)", (-1, -1, self.input_dim))
        for name in ("times", "query_times"):
            if name not in batch:
                raise ValueError(f"A batch of series must contain {name!r}. Got {sorted(batch)} instead.")
        sizes = {"input_dim": self.input_dim, "query_dim": self.input_dim, "time_scale": self.time_scale}
        check_sequence(x, batch["times"], mask, None, batch["query_times"], causal=False, **sizes)
        check_dtype("x", x, self.token[0].weight.dtype)  # pyright: ignore[reportArgumentType]
        times, at, tau, query_tau = self._times(batch)
        if mask is not None:  # masked values must not enter the token network either
            x, tau = x.masked_fill(mask[..., None], 0), tau.masked_fill(mask, 0)
        tokens = self.token(torch.cat([x, _time_input(tau)], -1))
        return Encoded(tokens, self.query(_time_input(query_tau)), times, at, mask)

    def _times(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Times of observations (B, T) and queries (B, Q) in one precision, and both since the first valid, scaled."""
        rows, dtype = len(batch["x"]), batch["x"].dtype
        times, at = same_precision(batch["times"].expand(rows, -1), batch["query_times"].expand(rows, -1))
        assert times is not None and at is not None
        first = first_valid(times, batch.get("mask"))  # subtracted before the precision is lowered
        return times, at, ((times - first) / self.time_scale).to(dtype), ((at - first) / self.time_scale).to(dtype)


def _time_input(tau: Tensor) -> Tensor:
    return torch.cat([tau[..., None], time_features(tau)], -1)
