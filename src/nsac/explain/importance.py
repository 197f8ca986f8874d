"""Permutation importance without targets: how much predictions change if the values of one feature are shuffled."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nsac.estimators.windows import subsample
from nsac.explain.circuit import ExplainError
from nsac.explain.events import EventSubject
from nsac.explain.series import WindowSubject
from nsac.explain.subjects import AbstractSubject, TableSubject
from nsac.models.encoder import Batch

MIN_ROWS = 3  # of which values can be shuffled
AGES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # last step of each age group of a channel, counted back from the origin

Shuffle = Callable[[Batch, Tensor], Batch]  # inputs, and rows in another order -> inputs with some values of those


def importances(
    subject: AbstractSubject, num_repeats: int, max_rows: int, generator: np.random.Generator
) -> pd.DataFrame:
    """Mean squared change of the mean if a feature is shuffled among the rows, over the variance of the mean.

    It is 0 if predictions do not depend on the feature, and 2 if they depend on nothing else. No target is needed, so
    it tells what the model uses, not whether that is right; `permutation_importances` of a regressor tells the latter.

    Returns:
        One line per feature of a table, or per channel and age of a series, in their order: `feature` (`channel`,
        `from_step`, `to_step`; of an irregular series ages are counted in its typical steps), the `importance` of the
        whole model, and `lower` and `upper`, the range over the models that it is made of: networks, Gaussian process
        and trees, each against its own variance.
    """
    n = len(subject)
    if n < MIN_ROWS:
        raise ExplainError(f"`rows` must be at least {MIN_ROWS} to shuffle their values. Got {n} instead.")
    if isinstance(subject, EventSubject):
        subject = subject.asking(subject.explained)
    lines, blocks = _blocks(subject)
    chosen = torch.from_numpy(subsample(np.arange(n), max_rows))
    inputs, n = {name: each[chosen] for name, each in subject.inputs.items()}, len(chosen)
    orders = [_derangement(n, generator) for _ in range(num_repeats)]
    whole, parts = subject.predict(inputs).mean, subject.model_means(inputs)
    table = []
    for line, block in zip(lines, blocks, strict=True):
        found = [block(inputs, order) for order in orders]
        shuffled = {name: torch.cat([each[name] for each in found]) for name in inputs}
        change = _relative_change(subject.predict(shuffled).mean, whole, num_repeats)
        found = subject.model_means(shuffled)
        each = [_relative_change(found[name], parts[name], num_repeats) for name in parts]
        table.append(line | {"importance": change, "lower": min(each), "upper": max(each)})
    return pd.DataFrame(table)


def _blocks(subject: AbstractSubject) -> tuple[list[dict], list[Shuffle]]:
    """What is shuffled together, and its names."""
    lines: list[dict] = []
    blocks: list[Shuffle] = []
    if isinstance(subject, TableSubject):
        for j, name in enumerate(subject.features):
            mask = {key: torch.as_tensor(subject.players[key] == j) for key in subject.inputs}
            lines.append({"feature": name})
            blocks.append(_replace_where(mask))
        return lines, blocks
    if isinstance(subject, EventSubject):
        step, oldest = subject.maker.horizon / subject.model.horizon_, subject.maker.lookback
        ends = [age for age in AGES if age * step < oldest] + [int(np.ceil(oldest / step))]
        for channel, name in enumerate(subject.channels):
            for first, last in zip([0, *ends[:-1]], ends, strict=True):
                lines.append({"channel": name, "from_step": -first, "to_step": 1 - last})
                blocks.append(_replace_events(channel, first * step, last * step))
        return lines, blocks
    assert isinstance(subject, WindowSubject)
    steps, channels = subject.inputs["x"].shape[1:]
    ends = [age for age in AGES if age < steps] + [steps]
    for channel in range(channels):
        for first, last in zip([0, *ends[:-1]], ends, strict=True):
            mask = torch.zeros(steps, channels, dtype=torch.bool)
            mask[steps - last : steps - first, channel] = True
            lines.append({"channel": subject.channels[channel], "from_step": -first, "to_step": 1 - last})
            rest = torch.zeros(subject.inputs["calendar"].shape[1], dtype=torch.bool)
            blocks.append(_replace_where({"x": mask, "calendar": rest}))
    return lines, blocks


def _replace_where(masks: Batch) -> Shuffle:
    return lambda inputs, order: {n: torch.where(masks[n], each[order], each) for n, each in inputs.items()}


def _replace_events(channel: int, youngest: float, oldest: float) -> Shuffle:
    """The observations of a channel of some ages are those of another row, with their times."""

    def shuffle(inputs: Batch, order: Tensor) -> Batch:
        age = -inputs["times"]
        inside = (inputs["channel"] == channel) & (age >= youngest) & (age < oldest)
        kept, taken = inputs["x"].masked_fill(inside, torch.nan), inputs["x"].masked_fill(~inside, torch.nan)[order]
        joined = {name: torch.cat([inputs[name], inputs[name][order]], 1) for name in ("channel", "times")}
        return {"x": torch.cat([kept, taken], 1), **joined, "row": inputs["row"]}

    return shuffle


def _derangement(n: int, generator: np.random.Generator) -> torch.Tensor:
    """An order in which no row keeps its place: a cycle through all rows in random order."""
    order, place = generator.permutation(n), np.empty(n, dtype=np.int64)
    place[order] = np.roll(order, 1)
    return torch.from_numpy(place)


def _relative_change(changed: np.ndarray, means: np.ndarray, repeats: int) -> float:
    """Averaged over outputs."""
    squared = np.square(changed.reshape(repeats, *means.shape) - means)
    return float((np.nanmean(squared, (0, 1)) / np.maximum(means.var(0), 1e-12)).mean())
