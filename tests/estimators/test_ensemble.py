import pytest
import torch

from nsac.estimators import ensemble as module
from nsac.estimators.base import mixture
from nsac.estimators.components import Moments
from nsac.estimators.ensemble import ensemble_moments
from nsac.methods import NSACMethod, TableProblem
from nsac.training import TensorData

PROBLEM = TableProblem(3, 2)


def member(seed: int) -> NSACMethod:
    method = NSACMethod(PROBLEM, seed=seed).double().eval()
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    method.prepare(TensorData(x=x, y=torch.zeros(50, 2)))
    assert method.novelty is not None
    method.novelty.log_amplitude.fill_(0.0)
    return method


@pytest.mark.parametrize(("size", "tolerance"), [(64, 1e-9), (16, 1e-4)], ids=["one batch", "several batches"])
def test_averages_over_members_are_those_of_their_draws(monkeypatch, size, tolerance):
    monkeypatch.setattr(module, "PREDICTION_BATCH", size)
    members, x = [member(0), member(1)], torch.randn(50, 3, generator=torch.Generator().manual_seed(9))
    expected = Moments.of(mixture(members, [{"x": x}], 4), 2)
    for mine, theirs in zip(ensemble_moments(members, {"x": x}, 4), expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


def test_a_member_of_another_form_is_averaged_over_its_draws():
    members, x = [member(0), NSACMethod(PROBLEM, seed=1).double()], torch.zeros(3, 3)
    expected = Moments.of(mixture(members, [{"x": x}], 4), 2)
    assert all(map(torch.equal, ensemble_moments(members, {"x": x}, 4), expected))
