"""Permutation importance without targets: how much predictions change if the values of one feature are shuffled."""

import numpy as np
import pandas as pd
import torch

from nsac.estimators.windows import subsample
from nsac.explain.circuit import ExplainError
from nsac.explain.series import AbstractSeriesSubject
from nsac.explain.subjects import AbstractSubject, TableSubject
from nsac.models.encoder import Batch

MIN_ROWS = 3  # of which values can be shuffled
AGES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # last step of each age group of a channel, counted back from the origin


def importances(
    subject: AbstractSubject, num_repeats: int, max_rows: int, generator: np.random.Generator
) -> pd.DataFrame:
    """Mean squared change of the mean if a feature is shuffled among the rows, over the variance of the mean.

    It is 0 if predictions do not depend on the feature, and 2 if they depend on nothing else. No target is needed, so
    it tells what the model uses, not whether that is right; `permutation_importances` of a regressor tells the latter.

    Returns:
        One line per feature of a table, or per channel and age of a series, in their order: `feature` (`channel`,
        `from_step`, `to_step`), the `importance` of the whole model, and `lower` and `upper`, the range over the
        models that it is made of: networks, Gaussian process and trees, each against its own variance.
    """
    n = len(subject)
    if n < MIN_ROWS:
        raise ExplainError(f"`rows` must be at least {MIN_ROWS} to shuffle their values. Got {n} instead.")
    lines, blocks = _blocks(subject)
    chosen = torch.from_numpy(subsample(np.arange(n), max_rows))
    inputs, n = {name: each[chosen] for name, each in subject.inputs.items()}, len(chosen)
    orders = [_derangement(n, generator) for _ in range(num_repeats)]
    whole, parts = subject.predict(inputs).mean, subject.model_means(inputs)
    table = []
    for line, block in zip(lines, blocks, strict=True):
        shuffled = {
            name: torch.cat([torch.where(block[name], each[order], each) for order in orders])
            for name, each in inputs.items()
        }
        change = _relative_change(subject.predict(shuffled).mean, whole, num_repeats)
        found = subject.model_means(shuffled)
        each = [_relative_change(found[name], parts[name], num_repeats) for name in parts]
        table.append(line | {"importance": change, "lower": min(each), "upper": max(each)})
    return pd.DataFrame(table)


def _blocks(subject: AbstractSubject) -> tuple[list[dict], list[Batch]]:
    """What is shuffled together: masks of the inputs, and their names."""
    if isinstance(subject, TableSubject):
        lines: list[dict] = [{"feature": name} for name in subject.features]
        blocks = [
            {name: torch.as_tensor(subject.players[name] == j) for name in subject.inputs} for j in range(len(lines))
        ]
        return lines, blocks
    assert isinstance(subject, AbstractSeriesSubject)
    lines, blocks = [], []
    steps, channels = subject.inputs["x"].shape[1:]
    ends = [age for age in AGES if age < steps] + [steps]
    for channel in range(channels):
        for first, last in zip([0, *ends[:-1]], ends, strict=True):
            mask = torch.zeros(steps, channels, dtype=torch.bool)
            mask[steps - last : steps - first, channel] = True
            lines.append({"channel": subject.channels[channel], "from_step": -first, "to_step": 1 - last})
            blocks.append({"x": mask, "calendar": torch.zeros(subject.inputs["calendar"].shape[1], dtype=torch.bool)})
    return lines, blocks


def _derangement(n: int, generator: np.random.Generator) -> torch.Tensor:
    """An order in which no row keeps its place: a cycle through all rows in random order."""
    order, place = generator.permutation(n), np.empty(n, dtype=np.int64)
    place[order] = np.roll(order, 1)
    return torch.from_numpy(place)


def _relative_change(changed: np.ndarray, means: np.ndarray, repeats: int) -> float:
    """Averaged over outputs."""
    squared = np.square(changed.reshape(repeats, *means.shape) - means)
    return float((np.nanmean(squared, (0, 1)) / np.maximum(means.var(0), 1e-12)).mean())
