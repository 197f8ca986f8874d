import pytest
import torch

from nsac.methods import METHODS, TableProblem


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_dropout_drops_the_stated_fraction_of_features_before_the_head(generator, monkeypatch):
    mcd = METHODS["mcd"](TableProblem(2, 1))
    batch = {"x": torch.randn(5, 2, generator=generator)}
    seen = []
    monkeypatch.setattr(
        mcd.head, "forward", lambda features: seen.append(features.hidden) or (torch.zeros(1, 5, 1),) * 2
    )
    calls = []
    forward = mcd.trunk.forward
    monkeypatch.setattr(mcd.trunk, "forward", lambda *a: calls.append(1) or forward(*a))
    mcd.draws(batch, 2000, seeded())
    clean = forward(batch).hidden
    dropped = (seen[0] == 0).double().mean().item()
    assert dropped == pytest.approx(0.1, abs=0.01)  # 2,000 masks of 64 features
    torch.testing.assert_close(seen[0].mean(0), clean[0], rtol=0.05, atol=0)  # unbiased
    assert len(calls) == 1
