import math

import torch

from nsac.lab.datasets import make_spirals


def test_spirals_are_archimedean(generator):
    data = make_spirals(n=50, noise=0.0, generator=generator)
    radius = data.truth.norm(dim=-1)
    torch.testing.assert_close(radius.diff(n=2, dim=1), torch.zeros(50, 148))  # linear in the angle
    angle = torch.atan2(data.truth[..., 1], data.truth[..., 0])
    turned = (angle.diff(dim=1) + math.pi) % (2 * math.pi) - math.pi
    torch.testing.assert_close(turned.sum(1).abs(), torch.full((50,), 6 * math.pi))
    assert 10 < (turned.sum(1) > 0).sum() < 40  # both directions


def test_spirals_of_one_direction_all_turn_the_same_way(generator):
    data = make_spirals(n=20, noise=0.0, both=False, generator=generator)
    assert (data.truth[:, 1, 1] > 0).all()


def test_observations_are_irregularly_sampled_points_of_the_first_half(generator):
    data = make_spirals(n=20, generator=generator)
    assert data.x.shape == (20, 50, 2) and data.times.shape == (20, 50) and data.y.shape == (20, 150, 2)
    assert (data.times.diff(dim=1) > 0).all() and data.times.max() < 0.5
    assert len({tuple(row.tolist()) for row in data.times}) == 20
    place = torch.searchsorted(data.query_times, data.times)
    torch.testing.assert_close(data.x, data.y.gather(1, place[..., None].expand(-1, -1, 2)))


def test_noise_has_its_standard_deviation(generator):
    data = make_spirals(n=2000, generator=generator)
    assert math.isclose((data.y - data.truth).std().item(), 0.02, rel_tol=0.01)  # 600,000 numbers


def test_spirals_differ_by_the_variation(generator):
    data = make_spirals(n=2000, generator=generator)
    slope = data.truth.norm(dim=-1).diff(dim=1).mean(1)
    assert math.isclose((slope.std() / slope.mean()).item(), 0.2, rel_tol=0.1)  # five standard errors


def test_the_same_generator_gives_the_same_spirals(seed):
    one, two = (make_spirals(n=3, generator=torch.Generator().manual_seed(seed)) for _ in range(2))
    assert torch.equal(one.y, two.y) and torch.equal(one.times, two.times)
