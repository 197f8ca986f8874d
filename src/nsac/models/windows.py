"""Encoder of windows of regular steps."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nsac._checks import check_dtype, check_known, check_shape
from nsac.layers.init import seeded, seeded_linear, seeded_mlp
from nsac.layers.inputs import ROUGHNESS_FLOOR
from nsac.models.encoder import AbstractEncoder, Batch, Encoded

MIN_RELATIVE_AMPLITUDE = 0.3  # minimum over the typical one: noise in a constant window must not be amplified


def interpolate_missing(x: Tensor) -> Tensor:
    """Windows, (B, L, V), interpolated linearly in time, constant at the ends, and 0 for a variable without values."""
    absent, last = x.isnan(), x.shape[1] - 1
    if not torch.compiler.is_compiling():
        rows = absent.any(2).any(1)
        if not rows.all():  # only the others need it
            return x.index_put((rows,), interpolate_missing(x[rows])) if rows.any() else x
    steps = torch.arange(x.shape[1], device=x.device)[:, None]
    before = _running_max(torch.where(absent, -1, steps))
    after = last - _running_max(torch.where(absent, -1, last - steps).flip(1)).flip(1)
    left = torch.where(before < 0, after, before)  # before the first observed value that one is used
    right = torch.where(after > last, before, after)  # and after the last one, the last
    known = x.nan_to_num()
    a, b = known.gather(1, left.clamp(0, last)), known.gather(1, right.clamp(0, last))
    return a + (b - a) * (steps - left).clamp(min=0) / (right - left).clamp(min=1)


def _running_max(place: Tensor) -> Tensor:  # b l v
    """Largest number up to each step, at least -1. ONNX has no such operation: a graph compares all pairs."""
    if not torch.compiler.is_compiling():
        return place.cummax(1).values
    later = torch.ones(place.shape[1], place.shape[1], dtype=torch.bool, device=place.device).triu(1)
    return place.unsqueeze(1).masked_fill(later.unsqueeze(-1), -1).amax(2)


def level_of(x: Tensor, max_level: float | None) -> Tensor:
    """Last values of windows, (B, L, V) -> (B, V), cut at `max_level` above and below 0; values must not be NaN."""
    last = x[:, -1]
    return last if max_level is None else last.clamp(-max_level, max_level)


def amplitude(x: Tensor, typical: Tensor) -> Tensor:
    """Root mean square difference to the last value, (B, L, V) -> (B, 1, V), with a minimum; values must not be NaN."""
    return ((x - x[:, -1:]).square().mean(1, keepdim=True) + (MIN_RELATIVE_AMPLITUDE * typical) ** 2).sqrt()


class WindowEncoder(AbstractEncoder):
    """Regular windows (`x`, (B, L, V), NaN = missing) to one token per variable.

    A token encodes the differences of a variable to its last value, that value, and the identity of the variable.
    `calendar`, (B, G), known in advance, is one more token; a single variable without calendar gets a constant second
    token. Missing values are interpolated linearly and flagged; a variable without values in the window is masked.
    The query is a linear map of the concatenated tokens. With several targets each target has its own query, which is
    its token, and all share weights.

    Args:
        lookback, input_dim: steps of a window, L, and number of variables, V.
        calendar_dim: numbers that describe the time of the forecast, G; 0 for none.
        missing: whether values may be missing.
        skip: whether the window has a direct linear path to the mean.
        amplitudes: typical amplitude of each variable in a window. If given, differences are divided by the
            amplitude of the variable in this window, whose logarithm is one more input.
        targets: positions of the variables that are predicted, if there are several.
        max_level: largest size of a last value in a token; larger ones are cut. None for no limit.
    """

    def __init__(
        self,
        lookback: int,
        input_dim: int,
        calendar_dim: int = 0,
        missing: bool = False,
        skip: bool = False,
        amplitudes: Sequence[float] = (),
        targets: Sequence[int] = (),
        max_level: float | None = None,
        seed: int = 0,
    ):
        super().__init__()
        self.max_level = max_level
        self.targets, self.queries_per_row = list(targets), max(1, len(targets))
        self.lookback, self.input_dim, self.missing, width = lookback, input_dim, missing, self.token_dim
        self.amplitudes = nn.Buffer(torch.tensor(list(amplitudes))) if amplitudes else None
        self.skip_dim = lookback * (1 if targets else input_dim) if skip else 0
        self.token = seeded_mlp(lookback * (2 if missing else 1) + (2 if amplitudes else 1), width, width, seed)
        self.identity = seeded(lambda: nn.Embedding(input_dim, width), seed + 1)
        self.calendar = seeded_mlp(calendar_dim, width, width, seed + 2) if calendar_dim else None
        # With a single key the epistemic variance is 0: a single token gets a constant one (a key of saved weights).
        single = input_dim == 1 and not calendar_dim
        self.company = seeded(lambda: nn.Embedding(1, width), seed + 2) if single else None
        n_tokens = input_dim + (1 if calendar_dim or single else 0)
        self.query = None if targets else seeded_linear(n_tokens * width, width, seed + 3)
        self.description_dim = (6 if missing else 5) * input_dim

    def describe(self, batch: Batch) -> Tensor:
        """Per variable: last, smallest and largest value, log RMS change over a step and a quarter of the window."""
        x = interpolate_missing(batch["x"]) if self.missing else batch["x"]
        x = x.transpose(0, 1).contiguous()  # l b v: sums over the first axis are the fastest
        statistics = [x[-1], x.amin(0), x.amax(0)]
        for lag in (1, max(1, self.lookback // 4)):
            change = x[lag:] - x[:-lag] if lag < self.lookback else torch.zeros_like(x[:1])
            statistics.append((change.square().mean(0).sqrt() + ROUGHNESS_FLOOR).log())
        if self.missing:
            statistics.append(batch["x"].isnan().to(x.dtype).mean(1))
        return torch.cat(statistics, -1).unsqueeze(1)

    def forward(self, batch: Batch) -> Encoded:  # noqa: D102
        x = batch["x"].mT  # b v l
        check_shape("x", batch["x"], "(batch, time, variables)", (-1, self.lookback, self.input_dim))
        check_dtype("x", x, self.identity.weight.dtype)
        check_known("x", x, self.missing)
        absent = torch.isnan(x)
        filled = interpolate_missing(batch["x"]) if self.missing else batch["x"]
        change, features = filled - filled[:, -1:], [level_of(filled, self.max_level).unsqueeze(-1)]
        if self.amplitudes is not None:
            size = amplitude(filled, self.amplitudes)
            change = change / size
            features.append((size / self.amplitudes).log().mT)
        if self.missing:
            features.append(absent.to(x.dtype))
        change = change.mT
        tokens = self.token(torch.cat([change, *features], -1)) + self.identity.weight
        mask = absent.all(-1) if self.missing else None
        if self.calendar is not None:
            tokens = torch.cat([tokens, self.calendar(batch["calendar"]).unsqueeze(1)], 1)
        if self.company is not None:
            tokens = torch.cat([tokens, self.company.weight.expand(len(tokens), 1, -1)], 1)
        if mask is not None and tokens.shape[1] > self.input_dim:
            mask = torch.nn.functional.pad(mask, (0, 1))
        known = tokens if mask is None else tokens.masked_fill(mask.unsqueeze(-1), 0)
        if self.query is None:
            query, skip = known[:, self.targets], change[:, self.targets]
        else:
            query, skip = self.query(known.flatten(1)).unsqueeze(1), change.flatten(1).unsqueeze(1)
        return Encoded(tokens, query, mask=mask, skip=skip if self.skip_dim else None)
