import pytest
import torch
from torch import nn

from nsac.layers.init import seeded, seeded_linear, seeded_mlp


def test_weights_have_the_inverse_fan_in_as_variance_and_biases_are_zero():
    layer = seeded_linear(400, 300, 0)
    assert layer.weight.std().item() == pytest.approx(400**-0.5, rel=0.02)  # 120,000 weights: 0.2 %
    assert abs(layer.weight.mean().item()) < 5 * (400 * 120_000) ** -0.5
    assert (layer.bias == 0).all()


def test_the_fan_in_of_a_convolution_includes_its_kernel():
    layer = seeded(lambda: nn.Conv2d(8, 200, 5), 0)
    assert layer.weight.std().item() == pytest.approx((8 * 25) ** -0.5, rel=0.02)


def test_embeddings_have_variance_one():
    layer = seeded(lambda: nn.Embedding(300, 200), 0)
    assert layer.weight.std().item() == pytest.approx(1, rel=0.02)


def test_the_seed_alone_determines_the_weights():
    before = torch.get_rng_state()
    one, two, other = seeded_mlp(3, 5, 2, 7), seeded_mlp(3, 5, 2, 7), seeded_mlp(3, 5, 2, 8)
    assert torch.equal(one[0].weight, two[0].weight) and torch.equal(one[2].weight, two[2].weight)
    assert not torch.equal(one[0].weight, other[0].weight)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_mlp_has_a_gelu_between_two_linear_layers():
    mlp, x = seeded_mlp(3, 5, 2, 0), torch.ones(4, 3)
    torch.testing.assert_close(mlp(x), mlp[2](nn.functional.gelu(mlp[0](x))))
