import torch

from nsac import NAC
from support.layers import series


def test_every_parameter_of_nac_has_a_gradient(generator):
    x, times = series(8, 12, generator)
    layer = NAC(3)
    layer(x, times).square().sum().backward()
    assert all((p.grad != 0).all() for p in layer.parameters())


def test_nac_is_deterministic(generator):
    x, times = series(generator=generator)
    layer = NAC(3, d_model=16, num_heads=4, topk=4)
    assert torch.equal(layer(x, times), layer(x, times))
    cell = layer.trace(x, times)
    gamma, omega, t = cell["gamma"], cell["omega"], cell["t"]
    torch.testing.assert_close(cell["mu"], gamma / omega * (1 - torch.exp(-omega * t)))
    assert "sigma" not in cell
