import pytest
import torch

from nsac import NSACLoss
from nsac.models import SeriesModel


def problem(generator, batch=6, length=20, queries=7):
    x = torch.randn(batch, length, 2, generator=generator)
    times = torch.rand(batch, length, generator=generator).sort(-1).values
    return x, times, torch.rand(batch, queries, generator=generator)


def drawn(model, *args, **kwargs):
    return model(*args, generator=torch.Generator().manual_seed(0), **kwargs)


def test_it_predicts_at_any_time(generator):
    x, times, asked = problem(generator)
    draws = SeriesModel(2, 3)(x, times, asked + 10, num_samples=4)
    assert draws.mean.shape == draws.log_std.shape == (4, 6, 7, 3)


def test_every_parameter_has_a_gradient(generator):
    x, times, asked = problem(generator)
    model = SeriesModel(2, 2)
    y = torch.randn(6, 7, 2, generator=generator)
    NSACLoss()(model, x, y, generator=generator, times=times, query_times=asked).backward()
    assert all((p.grad != 0).all() for p in model.parameters())


def test_shifting_all_times_changes_nothing(generator):
    x, times, asked = problem(generator)
    model = SeriesModel(2, 2)
    here, there = drawn(model, x, times, asked), drawn(model, x, times + 64, asked + 64)
    torch.testing.assert_close(here, there, rtol=1e-9, atol=1e-9)  # rounding of times near 64


@pytest.mark.parametrize("poison", [7.0, float("nan")])
def test_what_is_masked_does_not_matter(poison, generator):
    x, times, asked = problem(generator)
    mask = torch.rand(6, 20, generator=generator) < 0.5
    mask[0, 0] = True
    model = SeriesModel(2, 2)
    results = []
    for value in (0.0, poison):
        model.zero_grad()
        draws = drawn(model, x.masked_fill(mask[..., None], value), times.masked_fill(mask, value), asked, mask=mask)
        draws.mean.sum().backward()
        results.append((draws.mean, *(p.grad for p in model.parameters())))
    assert all(torch.equal(clean, poisoned) for clean, poisoned in zip(*results, strict=True))


def test_bad_input_is_named(generator):
    x, times, asked = problem(generator)
    with pytest.raises(ValueError, match="`times`"):
        SeriesModel(2, 2)(x, times[:, :3], asked)
