import torch

from nsac.methods import METHODS, TableProblem


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
