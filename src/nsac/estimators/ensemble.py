"""Moments of the members of a stacked regressor, for few rows or many."""

from collections.abc import Sequence

import torch

from nsac._torch import single_threaded
from nsac.estimators.base import PREDICTION_BATCH, mixture
from nsac.estimators.components import Moments
from nsac.methods import AbstractMethod, NSACMethod
from nsac.methods.row_moments import RowMoments, supports
from nsac.models.encoder import Batch


def ensemble_moments(members: Sequence[AbstractMethod], columns: Batch, num_samples: int) -> Moments:
    """Averages over the members, and over `num_samples` draws of each, of standardised rows.

    Many rows are predicted in single precision, which changes the mean by a millionth of the target's standard
    deviation. Few are predicted in double precision, so that predictions of the same row agree to many digits.
    """
    rows = torch.arange(len(columns["x"])).split(PREDICTION_BATCH)
    batches = [{name: column[some] for name, column in columns.items()} for some in rows]
    dtype = torch.float64 if len(rows) == 1 else torch.float32
    with single_threaded(), torch.no_grad():
        able = [each for each in members if isinstance(each, NSACMethod) and supports(each)]
        if len(able) < len(members):
            return Moments.of(mixture(members, batches, num_samples), len(members))
        models = [RowMoments.of(each, num_samples, dtype) for each in able]
        chunks = []
        for batch in batches:
            moments = zip(*(model(batch) for model in models), strict=True)
            chunks.append([torch.stack(each).mean(0) for each in moments])
    return Moments(*(torch.cat(each) for each in zip(*chunks, strict=True)))
