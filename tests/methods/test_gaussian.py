import pytest
import torch

from nsac.methods import METHODS, TableProblem


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
    mcd.draws(batch, 2000, torch.Generator().manual_seed(0))
    clean = forward(batch).hidden
    dropped = (seen[0] == 0).double().mean().item()
    assert dropped == pytest.approx(0.1, abs=0.01)  # 2,000 masks of 64 features
    torch.testing.assert_close(seen[0].mean(0), clean[0], rtol=0.05, atol=0)  # unbiased
    assert len(calls) == 1


def test_members_of_an_ensemble_share_no_weights_and_differ(generator):
    de = METHODS["de"](TableProblem(2, 1))
    first, second, third = de.learners()
    assert len({p.data_ptr() for p in de.parameters()}) == sum(len(list(m.parameters())) for m in de.members)
    batch = {"x": torch.randn(5, 2, generator=generator)}
    draws = de.draws(batch, 20, None)
    assert draws.mean.shape == (3, 5, 1)
    assert not torch.allclose(draws.mean[0], draws.mean[1]) and not torch.allclose(draws.mean[1], draws.mean[2])


def test_the_mean_of_an_ensemble_is_the_mean_over_its_members(generator):
    de = METHODS["de"](TableProblem(2, 1))
    batch = {"x": torch.randn(5, 2, generator=generator)}
    single = [member.predict(batch) for member in de.members]
    torch.testing.assert_close(de.predict(batch).mean, torch.stack([p.mean for p in single]).mean(0))
