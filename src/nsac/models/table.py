"""The encoder of table rows."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, one_hot
from typing_extensions import override

from nsac._checks import check_dtype, check_known, check_shape
from nsac.layers.clock import TimeMode
from nsac.layers.init import seeded, seeded_linear
from nsac.models.encoder import AbstractEncoder, Batch, Encoded


class TableEncoder(AbstractEncoder):
    """Rows of numbers (`x`, NaN = missing) and categories (`c`, 0 = missing) to tokens; the row itself asks.

    A missing value is never replaced silently: with a token per feature its token is masked, and with slots, as in the
    query and the straight path, its number is left out and a flag says so.

    Args:
        numbers: number of numeric columns.
        levels: for each categorical column, how many levels it has besides "missing".
        tokens: `"slots"`: learned mixtures of all features; `"features"`: one token each.
        missing: whether numbers may be missing.
        columns: positions of the numeric columns that are seen, if not all are.
        width: size of a token.
        slots: number of slots.
        seed: fixes the initial weights.
    """

    time: ClassVar[TimeMode] = "none"
    per_query: ClassVar[bool] = False

    def __init__(
        self,
        numbers: int,
        levels: Sequence[int] = (),
        tokens: str = "slots",
        missing: bool = False,
        columns: Sequence[int] = (),
        width: int = 32,
        slots: int = 8,
        seed: int = 0,
    ):
        super().__init__()
        self.numbers, self.tokens, self.missing, self.columns = numbers, tokens, missing, list(columns)
        numbers = len(columns) or numbers
        self.token_dim = self.query_dim = width
        self.levels = nn.ModuleList(
            seeded(lambda n=n: nn.Embedding(n + 1, width), seed + i) for i, n in enumerate(levels)
        )
        self.skip_dim = numbers * (2 if missing else 1) + width * len(levels)
        if tokens == "slots":
            self.slots = seeded(lambda: nn.Linear(self.skip_dim, slots * width), seed)
        else:
            self.value = seeded(lambda: _PerFeature(numbers, width), seed)
        self.query = seeded_linear(self.skip_dim, width, seed + 1)
        self.sizes = [n + 1 for n in levels]
        self.description_dim = numbers * (2 if missing else 1) + sum(self.sizes)

    @override
    def describe(self, batch: Batch) -> Tensor:
        """The row: numbers, 0 and a flag where one is missing, and categories one-hot."""
        x = self._seen(batch)
        absent = torch.isnan(x)
        parts = [x.masked_fill(absent, 0)] + ([absent.to(x.dtype)] if self.missing else [])
        parts += [one_hot(batch["c"][:, i], n).to(x.dtype) for i, n in enumerate(self.sizes)]
        return torch.cat(parts, -1).unsqueeze(1)

    @override
    def forward(self, batch: Batch) -> Encoded:
        x = batch["x"]
        check_shape("x", x, "(rows, features)", (-1, self.numbers))
        check_dtype("x", x, self.query.weight.dtype)
        x = self._seen(batch)
        check_known("x", x, self.missing)
        if self.levels:
            self._check_levels(batch)
        absent = torch.isnan(x)
        known = x.masked_fill(absent, 0)
        kinds = [embed(batch["c"][:, i]) for i, embed in enumerate(self.levels)]
        row = torch.cat([known, *([absent.to(x.dtype)] if self.missing else []), *kinds], -1)
        query = self.query(row).unsqueeze(1)
        if self.tokens == "slots":
            return Encoded(gelu(self.slots(row)).unflatten(-1, (-1, self.token_dim)), query, skip=row.unsqueeze(1))
        tokens = torch.cat([self.value(known), *(kind.unsqueeze(1) for kind in kinds)], 1)
        mask = None
        if self.missing or kinds:
            mask = torch.cat([absent, *((batch["c"][:, i : i + 1] == 0) for i in range(len(kinds)))], 1)
        return Encoded(tokens, query, mask=mask, skip=row.unsqueeze(1))

    def _seen(self, batch: Batch) -> Tensor:
        return batch["x"][:, self.columns] if self.columns else batch["x"]

    def _check_levels(self, batch: Batch) -> None:
        sizes = [len(embed.weight) for embed in self.levels]  # pyright: ignore[reportArgumentType]
        if "c" not in batch:
            raise ValueError(f"A batch must hold 'c', {len(sizes)} categorical columns. Got {sorted(batch)} instead.")
        check_shape("c", batch["c"], "(rows, categorical columns)", (batch["x"].shape[0], len(sizes)))
        if torch.compiler.is_compiling():
            return  # what follows looks at values
        low, high = batch["c"].amin(0), batch["c"].amax(0)
        for column, size in enumerate(sizes):
            if low[column] < 0 or high[column] >= size:
                raise ValueError(
                    f"`c` must be between 0 (missing) and {size - 1} in column {column}. "
                    f"Got {int(low[column])} to {int(high[column])} instead. Give unknown levels the number 0."
                )


class _PerFeature(nn.Module):
    """A token per number: GELU(value * direction + place)."""

    def __init__(self, numbers: int, width: int):
        super().__init__()
        self.direction = nn.Parameter(torch.empty(1, numbers, width))
        self.place = nn.Parameter(torch.empty(1, numbers, width))

    def forward(self, x: Tensor) -> Tensor:  # b f -> b f w
        scale = self.direction[0].numel() ** 0.5  # weights were scaled for that fan-in, but a token sees one number
        return gelu(scale * (x.unsqueeze(-1) * self.direction + self.place))
