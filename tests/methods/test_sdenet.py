import torch

from nsac.methods import METHODS, TableProblem


def test_the_diffusion_is_small_on_data_and_large_on_perturbed_data(generator):
    net = METHODS["sdenet"](TableProblem(2, 1))
    batch = {"x": torch.randn(64, 2, generator=generator), "y": torch.randn(64, 1, generator=generator)}
    optimiser = torch.optim.Adam(net.diffusion.parameters(), lr=1e-2)
    for _ in range(100):
        optimiser.zero_grad()
        net.loss(batch, generator).backward()
        optimiser.step()
    with torch.no_grad():
        near, far = (torch.sigmoid(net.diffusion(net.trunk({"x": x}).hidden)) for x in (batch["x"], 8 * batch["x"]))
    assert near.mean() < 0.3 < far.mean()
    net.zero_grad()
    torch.nn.functional.softplus(net.diffusion(net.trunk(batch).hidden.detach())).sum().backward()
    assert all(p.grad is None for p in net.trunk.parameters())
