import torch

from nsac.core import masked_softmax, weigh


def test_softmax_with_nothing_kept_is_zero_and_its_gradient_finite():
    logits = torch.randn(3, 4, requires_grad=True)
    keep = torch.tensor([[True] * 4, [True, False, False, True], [False] * 4])
    weights = masked_softmax(logits, keep)
    torch.testing.assert_close(weights.sum(-1), torch.tensor([1.0, 1.0, 0.0]))
    assert (weights[~keep] == 0).all()
    weights.square().sum().backward()
    assert logits.grad.isfinite().all() and (logits.grad[~keep] == 0).all()


def test_weigh_is_a_sum_over_keys(generator):
    weights, values = torch.rand(2, 3, 4, 5, generator=generator), torch.randn(6, 3, 4, 5, generator=generator)
    torch.testing.assert_close(weigh(weights, values), torch.einsum("nkab,dkab->ndab", weights, values))
