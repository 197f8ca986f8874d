"""NSAC: attention with Ornstein-Uhlenbeck logits, and draws of mean and log standard deviation."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from nsac._checks import check_choice, check_int, check_shape, check_tensor, warn_single_key
from nsac.layers.attention import AbstractLayer, Attention, Readout, Selection
from nsac.layers.init import seeded_linear
from nsac.layers.inputs import Inputs, describe_queries, description_dim, take_rows
from nsac.layers.novelty import MAX_TRAINING_INPUTS, Novelty
from nsac.layers.reader import LinearReader
from nsac.layers.times import TimeMode
from nsac.uncertainty import Prediction

NOVELTY_BATCH = 512  # rows described or predicted at a time by `fit_novelty`


class Draws(NamedTuple):
    """Gaussian predictions, one per draw of the noise."""

    mean: Tensor  # (N, batch, ..., output)
    log_std: Tensor  # logarithm of the standard deviation


class NSAC(AbstractLayer):
    r"""Neuronal Stochastic Attention Circuit.

    Every logit follows $da = \kappa(\phi - a)\,dt + \psi\,dW$ from 0, with gates computed by a sparse circuit from the
    query-key pair, so it is Gaussian in closed form. N draws of the logits share one computation of the gates.

    The default head reads attended values linearly, with weights that depend on the query; it is the model behind all
    reported numbers. After training, `fit_novelty` sets its epistemic variance from the novelty of an input. With
    `head="paper"` the layer is the paper's: two linear streams, and an epistemic variance that `NSACLoss` trains.

    Args:
        input_dim: features of a token.
        output_dim: numbers to predict.
        d_model: sensory neurons of each kind (query, key, value), over all heads.
        num_heads: heads; must divide `d_model`.
        topk: keys each query attends to.
        sparsity: fraction of absent synapses, 0.1 to 0.9.
        readout: the queries: the `"last"` valid token, `"all"` tokens, or a number of learned queries.
        head: `"linear"` or `"paper"`.
        hidden: neurons of the linear head's hidden layers.
        time: `"elapsed"`: the clock reads the time between query and key, so shifting all times changes nothing;
            `"absolute"`: the query's own time; `"none"`: tokens are a set, without times or order.
        time_scale: characteristic time scale, about the length of a window.
        circuit_units: neurons of the circuit that gates the logits.
        unfolds: recurrent steps of its command neurons.
        selection: `"exact"`, `"sqrt"`, or `"auto"`: exact while that is cheaper.
        seed: fixes wiring and initial weights.

    Example:
        >>> layer = NSAC(input_dim=3, output_dim=2)
        >>> draws = layer(torch.randn(8, 50, 3), num_samples=5)
        >>> draws.mean.shape
        torch.Size([5, 8, 2])
    """

    novelty: Novelty | None

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        d_model: int = 64,
        num_heads: int = 16,
        topk: int = 8,
        sparsity: float = 0.5,
        readout: Readout = "last",
        *,
        head: Literal["linear", "paper"] = "linear",
        hidden: int = 64,
        time: TimeMode = "elapsed",
        time_scale: float = 1.0,
        circuit_units: int = 32,
        unfolds: int = 1,
        selection: Selection = "auto",
        seed: int = 0,
    ):
        super().__init__()
        check_int("output_dim", output_dim)
        check_int("hidden", hidden)
        check_choice("head", head, ("linear", "paper"))
        self.output_dim, self.head, self.seed = output_dim, head, seed
        self.attention = Attention(
            input_dim, d_model, num_heads, topk, sparsity, readout,
            dynamics="ou", time=time, time_scale=time_scale,
            circuit_units=circuit_units, unfolds=unfolds, selection=selection, seed=seed,
        )  # fmt: skip
        if head == "linear":
            few_outputs = 2 * output_dim < d_model // num_heads
            self.reader = LinearReader(d_model, d_model, num_heads, hidden, output_dim, 0, few_outputs, seed=seed)
        else:
            self.streams = seeded_linear(d_model, 2 * d_model, seed)
            self.mean = seeded_linear(d_model, output_dim, seed + 1)
            self.log_std = seeded_linear(d_model, output_dim, seed + 2)
        self.novelty = None

    def forward(
        self,
        x: Tensor,
        times: Tensor | None = None,
        mask: Tensor | None = None,
        query: Tensor | None = None,
        query_times: Tensor | None = None,
        causal: bool = False,
        num_samples: int = 5,
        generator: torch.Generator | None = None,
        noise: Tensor | None = None,
    ) -> Draws:
        """Draws of the prediction.

        In training mode they are those of the network alone; in evaluation mode, after `fit_novelty`, their variance
        follows the novelty of the input.

        Args:
            x: tokens, (B, T, input_dim).
            times: observation times, (B, T) or (T,). None: regular steps. Large ones, such as seconds since 1970, are
                float64 or integers: the first one is subtracted before they are converted to the layer's precision.
            mask: (B, T), True = ignore, as in `torch.nn.MultiheadAttention`.
            query: query tokens, (B, Q, input_dim), instead of the read-out.
            query_times: times to predict at, (B, Q) or (Q,), inside or beyond the window.
            causal: no query attends to a later token.
            num_samples: draws N; 0 for the noise-free pass, which counts as one draw.
            generator: source of the noise.
            noise: standard normal numbers of shape (N, topk, B, num_heads, Q) in place of `num_samples` and
                `generator`, for exported graphs and for repeated noise.

        Returns:
            mean, log_std: (N, B, output_dim) for `"last"`, otherwise (N, B, Q, output_dim).
        """
        inputs = self._checked(Inputs(x, times, mask, query, query_times, causal), num_samples)
        shape = self.attention.noise_shape(inputs)
        if noise is not None:
            check_tensor("noise", noise)
            check_shape("noise", noise, "(draws, topk, batch, heads, queries)", (-1, *shape))
        elif num_samples:
            noise = torch.randn((num_samples, *shape), generator=generator, dtype=x.dtype, device=x.device)
        return self._draws(inputs, noise, None if self.training else self.novelty)

    @torch.no_grad()
    def predict(
        self,
        x: Tensor,
        times: Tensor | None = None,
        mask: Tensor | None = None,
        query: Tensor | None = None,
        query_times: Tensor | None = None,
        causal: bool = False,
        num_samples: int = 20,
        generator: torch.Generator | None = None,
    ) -> Prediction:
        """The mixture of the draws as a distribution; the arguments are those of `forward`.

        All rows share the noise, so that a row's prediction does not depend on the other rows. Without a generator
        the noise is the same every time. No gradient is kept.
        """
        inputs = self._checked(Inputs(x, times, mask, query, query_times, causal), num_samples)
        noise = None
        if num_samples:
            topk, _, heads, queries = self.attention.noise_shape(inputs)
            generator = generator or torch.Generator(x.device).manual_seed(0)
            shape = (num_samples, topk, 1, heads, queries)
            noise = torch.randn(shape, generator=generator, dtype=x.dtype, device=x.device)
            # These numbers stand in for draws that do not differ (`scale_draws`), and must not move their mean.
            noise[:, 0, :, 0] -= noise[:, 0, :, 0].mean(0)
        return Prediction(*self._draws(inputs, noise, self.novelty))

    @torch.no_grad()
    def fit_novelty(self, train: Mapping[str, Any], validation: Mapping[str, Any]) -> "NSAC":
        """Set the epistemic variance from the novelty of inputs, after training; no weight changes.

        The variance is small near the training inputs and approaches that of a standardised target far from them. Its
        amplitude is calibrated on validation rows: aleatoric and epistemic variance add up to the squared error.

        Args:
            train: arguments of `forward` by name (`x`, `times`, `mask`, ...), of the training rows.
            validation: the same for rows that were not trained on, and their targets `y`, shaped as one draw of the
                mean; NaN where no target was observed. Targets should be standardised.
        """
        if self.head != "linear":
            raise ValueError(
                f"`head` must be 'linear' to have an epistemic variance from novelty. Got {self.head!r} instead. "
                "Build the layer with head='linear', or train the paper's epistemic variance with NSACLoss."
            )
        if "y" not in validation:
            raise ValueError(f"`validation` must contain the targets 'y'. Got {sorted(validation)} instead.")
        for name, value in (*train.items(), *validation.items()):
            if name != "causal":
                check_tensor(name, value)
        self.novelty = None
        rows = len(train["x"])
        order = torch.randperm(rows, generator=torch.Generator().manual_seed(0))[:MAX_TRAINING_INPUTS].sort().values
        described = [self._describe(Inputs(**take_rows(train, some))) for some in order.split(NOVELTY_BATCH)]
        novelty = self._new_novelty()
        novelty.fit(torch.cat(described))
        found = []
        for some in torch.arange(len(validation["x"])).split(NOVELTY_BATCH):
            batch = take_rows(validation, some)
            y = batch.pop("y")
            p = self.predict(**batch)
            check_shape("y", y, "as one draw of the mean", tuple(p.mean.shape))
            score, prior = novelty(self._describe(Inputs(**batch)))
            if p.mean.ndim == 3:
                score, prior = score.unsqueeze(-1), prior.unsqueeze(-1)
            found.append(((p.mean - y).square(), p.aleatoric.masked_fill(y.isnan(), torch.nan), score, prior))
        novelty.calibrate(*map(torch.cat, zip(*found, strict=True)), train_rows=rows)
        self.novelty = novelty
        return self

    def _checked(self, inputs: Inputs, num_samples: int) -> Inputs:
        self.attention.checked(inputs)
        warn_single_key(inputs.x.shape[1], self.attention.topk, inputs.mask)
        check_int("num_samples", num_samples, minimum=0)
        return inputs

    def _draws(self, inputs: Inputs, noise: Tensor | None, novelty: Novelty | None) -> Draws:
        selected = self.attention.select(inputs)
        if self.head == "paper":
            mean, log_std = self.streams(self.attention.attend(selected, noise)).chunk(2, -1)
            mean, log_std = self.mean(mean), self.log_std(log_std)
        else:
            attend = partial(self.attention.attend, selected)
            epistemic = None if novelty is None else lambda: novelty.epistemic(self._describe(inputs))
            mean, log_std = self.reader(attend, selected.queries, noise, epistemic=epistemic)
        return Draws(self._one_per_row(mean, inputs), self._one_per_row(log_std, inputs))

    def _describe(self, inputs: Inputs) -> Tensor:
        time_scale = None if self.attention.time == "none" else self.attention.time_scale
        return describe_queries(inputs, self.attention.readout, time_scale)

    def _new_novelty(self) -> Novelty:
        dim = description_dim(self.attention.input_dim)
        return Novelty(dim, self.output_dim, self.seed).to(self.reader.direct.weight)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Create the novelty if the weights were saved after `fit_novelty`."""
        if f"{prefix}novelty.centre" in state_dict and self.novelty is None and self.head == "linear":
            self.novelty = self._new_novelty()
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:  # noqa: D102
        return f"output_dim={self.output_dim}, head={self.head!r}"
