"""Networks of events are drawn towards their anchors, as far as validation rows say."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from nsac.methods import AbstractMethod
from nsac.methods.nsac import NSACMethod
from nsac.training import EventsData
from nsac.training.data import batches

BATCH = 256  # rows predicted at a time
DRAWS = 5  # of the logits, for the mean of a prediction


@torch.no_grad()
def shrink_changes(
    members: Sequence[AbstractMethod], rows: EventsData, splits: Sequence[tuple[Any, np.ndarray]]
) -> float:
    r"""Scale what the networks add to their anchors by one factor, which is returned.

    With the anchor a (the last value, means and 0, as the network mixes them), the prediction m of a member and its
    validation targets y, the factor is the least-squares one over all members,
    $w = \sum (y - a) (m - a) / \sum (m - a)^2$, within [0, 1]. Means are then $a + w (m - a)$.
    """
    members = [member for member in members if isinstance(member, NSACMethod)]
    product = square = 0.0
    for member, (_, validation) in zip(members, splits, strict=False):
        dtype = member.reader.direct.weight.dtype
        for batch in batches(rows.subset(validation, dtype=dtype), BATCH):
            known = ~batch["y"].isnan()
            anchor = _anchor(member, batch)[known]
            change = member.predict(batch, DRAWS).mean[known] - anchor
            product += float((change * (batch["y"][known] - anchor)).sum())
            square += float(change.square().sum())
    factor = min(max(product / square, 0.0), 1.0) if square > 0 else 1.0
    for member in members:
        outputs = member.problem.output_dim
        for layer in (member.reader.attended, member.reader.direct):
            layer.weight[:outputs] *= factor
            layer.bias[:outputs] *= factor
    return factor


def _anchor(member: NSACMethod, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    skip, anchor = member.reader.skip, member.network.encoder(batch).skip
    assert skip is not None and anchor is not None
    return skip(anchor)
