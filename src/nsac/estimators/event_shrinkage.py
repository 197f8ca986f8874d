"""Networks of events are drawn towards their anchors, as far as rows say that none of them was trained on."""

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
    r"""Scale what the networks add to their anchors by one factor, which is returned.

    With the anchor a of the ensemble (the last value, means and 0, as the networks mix them), its mean m and the
    targets y, the factor is the least-squares one, $w = \sum (y - a) (m - a) / \sum (m - a)^2$, within [0, 1]. Means
    are then $a + w (m - a)$.
    """
    networks = [member for member in members if isinstance(member, NSACMethod)]
    product = square = 0.0
    for batch in batches(rows, BATCH) if networks else ():
        known = ~batch["y"].isnan()
        anchor = torch.stack([_anchor(member, batch)[known] for member in networks]).mean(0)
        change = torch.stack([member.predict(batch, DRAWS).mean[known] for member in networks]).mean(0) - anchor
        product += float((change * (batch["y"][known] - anchor)).sum())
        square += float(change.square().sum())
    factor = min(max(product / square, 0.0), 1.0) if square > 0 else 1.0
    for member in networks:
        outputs = member.problem.output_dim
        for layer in (member.reader.attended, member.reader.direct):
            layer.weight[:outputs] *= factor
            layer.bias[:outputs] *= factor
    return factor


def _anchor(member: NSACMethod, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    skip, anchor = member.reader.skip, member.network.encoder(batch).skip
    assert skip is not None and anchor is not None
    return skip(anchor)
