"""Means of event forecasts are drawn towards their anchors, as far as rows say that no member was trained on."""

from collections.abc import Sequence

import torch

from nsac.methods import AbstractMethod
from nsac.methods.nsac import NSACMethod
from nsac.training import EventsData
from nsac.training.data import batches

BATCH = 256  # rows predicted at a time
DRAWS = 5  # of the logits, for the mean of a prediction


@torch.no_grad()
def shrink_changes(members: Sequence[AbstractMethod], rows: EventsData) -> float:
    r"""Scale what networks and trees add to the anchors of the networks by one factor, which is returned.

    With the anchor a of the ensemble (the last value, means and 0, as the networks mix them), its mean m and the
    targets y, the factor is the least-squares one, $w = \sum (y - a) (m - a) / \sum (m - a)^2$, within [0, 1]. Means
    are then $a + w (m - a)$. Members without trees stay as they are.
    """
    stacked = [member for member in members if isinstance(member, NSACMethod) and member.stack is not None]
    product = square = 0.0
    for batch in batches(rows, BATCH) if stacked else ():
        known = ~batch["y"].isnan()
        anchors = [member.anchor(member.network.encoder(batch))[known] for member in stacked]
        anchor = torch.stack(anchors).mean(0)
        change = torch.stack([member.predict(batch, DRAWS).mean[known] for member in stacked]).mean(0) - anchor
        product += float((change * (batch["y"][known] - anchor)).sum())
        square += float(change.square().sum())
    factor = min(max(product / square, 0.0), 1.0) if square > 0 else 1.0
    for member in stacked:
        assert member.stack is not None
        member.stack.shrink(factor)
    return factor
