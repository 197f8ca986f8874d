import torch
from scipy import stats

from nsac.methods import METHODS, TableProblem
from nsac.methods.der import nig_nll


def test_the_evidential_likelihood_is_that_of_student_t(generator):
    gamma, y = torch.randn(2, 50, generator=generator).unbind(0)
    nu, alpha, beta = (0.5 + torch.rand(3, 50, generator=generator)).unbind(0)
    alpha = alpha + 1
    scale = (beta * (1 + nu) / (nu * alpha)).sqrt()
    expected = -stats.t.logpdf(y, 2 * alpha, gamma, scale)
    torch.testing.assert_close(nig_nll(gamma, nu, alpha, beta, y), torch.from_numpy(expected))


def test_evidential_draws_have_the_variances_of_the_closed_forms(generator):
    der = METHODS["der"](TableProblem(2, 1))
    with torch.no_grad():
        der.head.linear.bias[2] = 4.0  # more evidence, so that fourth moments exist and averages converge
    batch = {"x": torch.randn(3, 2, generator=generator)}
    gamma, nu, alpha, beta = der.evidence(batch)
    p = der.predict(batch, num_samples=200_000)
    torch.testing.assert_close(p.mean, gamma.detach(), rtol=0, atol=0.02)  # averages over 200,000 draws
    torch.testing.assert_close(p.aleatoric, (beta / (alpha - 1)).detach(), rtol=0.02, atol=0)
    torch.testing.assert_close(p.epistemic, (beta / (nu * (alpha - 1))).detach(), rtol=0.03, atol=0)
