"""The encoder of windows of regular steps."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from nsac._checks import check_dtype, check_known, check_shape
from nsac.layers.clock import TimeMode
from nsac.layers.describe import ROUGHNESS_FLOOR
from nsac.layers.init import seeded, seeded_linear, seeded_mlp
from nsac.models.encoder import AbstractEncoder, Batch, Encoded

MIN_RELATIVE_AMPLITUDE = 0.3
"""Over the typical one, the amplitude that a window has at least: one at rest must not be blown up."""


def interpolate_missing(x: Tensor) -> Tensor:
    """Windows, (B, L, V), with straight lines across holes, level at the ends, and 0 where a variable is not known."""
    absent, most = x.isnan(), x.shape[1] - 1
    if not torch.compiler.is_compiling() and not absent.any():
        return x
    steps = torch.arange(x.shape[1], device=x.device)[:, None]
    before = _running_max(torch.where(absent, -1, steps))
    after = most - _running_max(torch.where(absent, -1, most - steps).flip(1)).flip(1)
    left = torch.where(before < 0, after, before)  # before the first known value it is that one, and so at the end
    right = torch.where(after > most, before, after)
    known = x.nan_to_num()
    a, b = (known.gather(1, place.clamp(0, most)) for place in (left, right))
    return a + (b - a) * (steps - left).clamp(min=0) / (right - left).clamp(min=1)


def _running_max(place: Tensor) -> Tensor:  # b l v
    """Largest number up to each step, at least -1. ONNX has no such operation, so a graph looks at all pairs."""
    if not torch.compiler.is_compiling():
        return place.cummax(1).values
    later = torch.ones(place.shape[1], place.shape[1], dtype=torch.bool, device=place.device).triu(1)
    return place.unsqueeze(1).masked_fill(later.unsqueeze(-1), -1).amax(2)


def amplitude(x: Tensor, typical: Tensor) -> Tensor:
    """Root mean square difference to the last value in windows without holes, (B, L, V) -> (B, 1, V); not near 0."""
    return ((x - x[:, -1:]).square().mean(1, keepdim=True) + (MIN_RELATIVE_AMPLITUDE * typical) ** 2).sqrt()


class WindowEncoder(AbstractEncoder):
    """Regular windows (`x`, (B, L, V), NaN = missing) to one token per variable; all of them ask.

    A variable's token sees its differences to its last known value, that value, and which variable it is. `calendar`,
    (B, G), known in advance, is one more token; a variable that would be alone gets a constant one. Holes are bridged
    by straight lines, and flags say where they are; a variable with no value in the window is masked. A linear map of
    all tokens side by side asks, so that it is known which variable moved. Of several targets each asks for itself,
    with its own token, and all share weights.

    Args:
        length: steps of a window.
        variables: number of series.
        calendar: numbers that describe the time of the forecast, 0 for none.
        missing: whether values may be missing.
        skip: whether the head sees the window directly.
        amplitudes: typical amplitude of each variable in a window. If given, differences are seen in units of the
            amplitude that the variable has in this window, and its logarithm is seen too.
        targets: positions of the variables that are predicted, if there are several.
        width: size of a token.
        seed: fixes the initial weights.
    """

    time: ClassVar[TimeMode] = "none"
    per_query: ClassVar[bool] = False
    amplitudes: Tensor

    def __init__(
        self,
        length: int,
        variables: int,
        calendar: int = 0,
        missing: bool = False,
        skip: bool = False,
        amplitudes: Sequence[float] = (),
        targets: Sequence[int] = (),
        width: int = 64,
        seed: int = 0,
    ):
        super().__init__()
        self.targets, self.queries_per_row = list(targets), max(1, len(targets))
        self.length, self.variables, self.missing, self.relative = length, variables, missing, bool(amplitudes)
        if self.relative:
            self.register_buffer("amplitudes", torch.tensor(list(amplitudes)))
        self.token_dim = self.query_dim = width
        self.skip_dim = length * (1 if targets else variables) if skip else 0
        self.token = seeded_mlp(length * (2 if missing else 1) + (2 if amplitudes else 1), width, width, seed)
        self.identity = seeded(lambda: nn.Embedding(variables, width), seed + 1)
        self.calendar = seeded_mlp(calendar, width, width, seed + 2) if calendar else None
        alone = variables == 1 and not calendar  # with a single key there is nothing to choose, hence nothing to doubt
        self.company = seeded(lambda: nn.Embedding(1, width), seed + 2) if alone else None
        whole = (variables + (calendar > 0 or alone)) * width
        self.query = None if targets else seeded_linear(whole, width, seed + 3)
        self.description_dim = (6 if missing else 5) * variables

    @override
    def describe(self, batch: Batch) -> Tensor:
        """Of each variable: last, smallest and largest value, roughness from step to step and over a quarter window."""
        x = batch["x"]  # b l v
        share = [x.isnan().to(x.dtype).mean(1)] if self.missing else []
        x = interpolate_missing(x) if self.missing else x
        x = x.transpose(0, 1).contiguous()  # l b v: sums over the first axis are the fastest
        parts = [x[-1], x.amin(0), x.amax(0)]
        for lag in (1, max(1, self.length // 4)):
            change = x[lag:] - x[:-lag] if lag < self.length else torch.zeros_like(x[:1])
            parts.append((change.square().mean(0).sqrt() + ROUGHNESS_FLOOR).log())
        return torch.cat(parts + share, -1).unsqueeze(1)

    @override
    def forward(self, batch: Batch) -> Encoded:
        x = batch["x"].mT  # b v l
        check_shape("x", batch["x"], "(batch, time, variables)", (-1, self.length, self.variables))
        check_dtype("x", x, self.identity.weight.dtype)
        check_known("x", x, self.missing)
        absent = torch.isnan(x)
        filled = interpolate_missing(batch["x"]) if self.missing else batch["x"]
        last = filled[:, -1:]
        change, scale = filled - last, []
        if self.relative:
            size = amplitude(filled, self.amplitudes)
            change, scale = change / size, [(size / self.amplitudes).log()]
        change = change.mT
        parts = [change, *(part.mT for part in (last, *scale)), *([absent.to(x.dtype)] if self.missing else [])]
        tokens = self.token(torch.cat(parts, -1)) + self.identity.weight
        mask = absent.all(-1) if self.missing else None
        if self.calendar is not None:
            tokens = torch.cat([tokens, self.calendar(batch["calendar"]).unsqueeze(1)], 1)
        if self.company is not None:
            tokens = torch.cat([tokens, self.company.weight.expand(len(tokens), 1, -1)], 1)
        if tokens.shape[1] > self.variables:
            mask = None if mask is None else torch.nn.functional.pad(mask, (0, 1))
        known = tokens if mask is None else tokens.masked_fill(mask.unsqueeze(-1), 0)
        if self.query is None:
            query, straight = known[:, self.targets], change[:, self.targets]
        else:
            query, straight = (each.unsqueeze(1) for each in (self.query(known.flatten(1)), change.flatten(1)))
        return Encoded(tokens, query, mask=mask, skip=straight if self.skip_dim else None)
