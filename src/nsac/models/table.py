"""Encoder of table rows."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, one_hot

from nsac._checks import check_dtype, check_known, check_shape
from nsac.layers.init import seeded, seeded_linear
from nsac.models.encoder import AbstractEncoder, Batch, Encoded

SLOTS = 8  # tokens that are learned mixtures of all features


class TableEncoder(AbstractEncoder):
    """Rows of numbers (`x`, NaN = missing) and categories (`c`, 0 = missing) to tokens.

    The query is a linear map of the row. Missing values are marked: with one token per feature the token is masked; in
    slots, in the query and in the skip features the value is 0 and a flag is set.

    Args:
        input_dim: number of numeric columns.
        categories: number of categories of each categorical column, not counting "missing".
        tokens: `"slots"`: learned mixtures of all features; `"features"`: one token each.
        missing: whether numbers may be missing.
        columns: positions of the numeric columns in use, if not all are.
    """

    token_dim: ClassVar[int] = 32
    query_dim: ClassVar[int] = 32

    def __init__(
        self,
        input_dim: int,
        categories: Sequence[int] = (),
        tokens: str = "slots",
        missing: bool = False,
        columns: Sequence[int] = (),
        seed: int = 0,
    ):
        super().__init__()
        self.input_dim, self.tokens, self.missing, self.columns = input_dim, tokens, missing, list(columns)
        used_dim, width = len(columns) or input_dim, self.token_dim
        numeric_dim = used_dim * (2 if missing else 1)  # with flags of missing values
        embeddings = [seeded(lambda n=n: nn.Embedding(n + 1, width), seed + i) for i, n in enumerate(categories)]
        self.levels = nn.ModuleList(embeddings)  # of categories; the attribute is a key of saved weights
        self.skip_dim = numeric_dim + width * len(categories)
        if tokens == "slots":
            self.slots = seeded(lambda: nn.Linear(self.skip_dim, SLOTS * width), seed)
        else:
            self.value = seeded(lambda: _PerFeature(used_dim, width), seed)
        self.query = seeded_linear(self.skip_dim, width, seed + 1)
        self.sizes = [n + 1 for n in categories]
        self.description_dim = numeric_dim + sum(self.sizes)

    def describe(self, batch: Batch) -> Tensor:
        """The row: numbers, with 0 and a flag where one is missing, and one-hot categories."""
        numbers, _ = self._numbers(batch)
        categories = [one_hot(batch["c"][:, i], n).to(numbers[0].dtype) for i, n in enumerate(self.sizes)]
        return torch.cat(numbers + categories, -1).unsqueeze(1)

    def row(self, batch: Batch) -> Tensor:
        """Checked numbers, with flags of missing values, and embedded categories, (rows, skip_dim)."""
        return torch.cat(self._checked(batch)[0], -1)

    def forward(self, batch: Batch) -> Encoded:  # noqa: D102
        parts, absent = self._checked(batch)
        row, numbers, embedded = torch.cat(parts, -1), parts[0], parts[len(parts) - len(self.levels) :]
        query, skip, mask = self.query(row).unsqueeze(1), row.unsqueeze(1), None
        if self.tokens == "slots":
            return Encoded(gelu(self.slots(row)).unflatten(-1, (-1, self.token_dim)), query, skip=skip)
        tokens = torch.cat([self.value(numbers), *(category.unsqueeze(1) for category in embedded)], 1)
        if embedded:
            mask = torch.cat([absent, batch["c"] == 0], 1)
        elif self.missing:
            mask = absent
        return Encoded(tokens, query, mask=mask, skip=skip)

    def _checked(self, batch: Batch) -> tuple[list[Tensor], Tensor]:
        """The numbers, perhaps their flags, and one embedding per category; and which numbers are missing."""
        check_shape("x", batch["x"], "(rows, features)", (-1, self.input_dim))
        check_dtype("x", batch["x"], self.query.weight.dtype)
        check_known("x", self._used_columns(batch), self.missing)
        if self.levels:
            self._check_categories(batch)
        numbers, absent = self._numbers(batch)
        return numbers + [embed(batch["c"][:, i]) for i, embed in enumerate(self.levels)], absent

    def _used_columns(self, batch: Batch) -> Tensor:
        return batch["x"][:, self.columns] if self.columns else batch["x"]

    def _numbers(self, batch: Batch) -> tuple[list[Tensor], Tensor]:
        """Numbers, with 0 where one is missing, and flags if any may be; and which are missing."""
        x = self._used_columns(batch)
        absent = torch.isnan(x)
        known = x.masked_fill(absent, 0)
        return [known, absent.to(x.dtype)] if self.missing else [known], absent

    def _check_categories(self, batch: Batch) -> None:
        n = len(self.sizes)
        if "c" not in batch:
            raise ValueError(f"A batch must contain 'c', {n} categorical columns. Got {sorted(batch)} instead.")
        check_shape("c", batch["c"], "(rows, categorical columns)", (batch["x"].shape[0], n))
        if torch.compiler.is_compiling():
            return  # the check below depends on values
        low, high = batch["c"].amin(0), batch["c"].amax(0)
        for column, size in enumerate(self.sizes):
            if low[column] < 0 or high[column] >= size:
                raise ValueError(
                    f"`c` must be between 0 (missing) and {size - 1} in column {column}. "
                    f"Got {int(low[column])} to {int(high[column])} instead. Encode unknown categories as 0."
                )


class _PerFeature(nn.Module):
    """A token per number: GELU(value * direction + place)."""

    def __init__(self, input_dim: int, width: int):
        super().__init__()
        self.direction = nn.Parameter(torch.empty(1, input_dim, width))
        self.place = nn.Parameter(torch.empty(1, input_dim, width))

    def forward(self, x: Tensor) -> Tensor:  # b f -> b f w
        scale = self.direction[0].numel() ** 0.5  # `seeded` scales for this fan-in, but the fan-in of a token is 1
        return gelu(scale * (x.unsqueeze(-1) * self.direction + self.place))
