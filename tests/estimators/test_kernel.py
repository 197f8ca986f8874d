import numpy as np
import pytest
import torch

from nsac.estimators import kernel as module
from nsac.estimators.kernel import LOCAL_LENGTH, Kernel, LeftOut, _negative_log_likelihood


def made(n: int = 30, inputs: int = 2, outputs: int = 1, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, inputs))
    y = np.stack([np.sin(2 * x[:, 0] + j) + 0.2 * random.normal(size=n) for j in range(outputs)], 1)
    return torch.from_numpy(x), torch.from_numpy((y - y.mean(0)) / y.std(0))


def fitted(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor | None = None) -> tuple[Kernel, LeftOut]:
    return Kernel.fit(x, y, range(x.shape[1]), weight, torch.Generator().manual_seed(0))


def covariance(kernel: Kernel, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The formula of the docstring, written out."""
    u, v = (each * kernel.inverse_length.numpy() for each in (a, b))
    smooth, linear, local, _ = kernel.variances.numpy()
    r = np.sqrt(3) * np.sqrt(np.square(u[:, None] - v[None]).sum(-1))
    return smooth * (1 + r) * np.exp(-r) + linear * u @ v.T + local * np.exp(-r / LOCAL_LENGTH)


def posterior(
    kernel: Kernel, x: np.ndarray, y: np.ndarray, new: np.ndarray, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the exact Gaussian process."""
    noise = kernel.variances[3].item() / (np.ones(len(x)) if weight is None else weight)
    cross = covariance(kernel, new, x)
    solved = np.linalg.solve(covariance(kernel, x, x) + np.diag(noise), np.column_stack([y, cross.T]))
    mean, reduction = cross @ solved[:, : y.shape[1]], (cross.T * solved[:, y.shape[1] :]).sum(0)
    return mean, np.diag(covariance(kernel, new, new)) - reduction


@pytest.fixture(scope="module")
def few():
    x, y = made(outputs=2)
    return x, y, *fitted(x, y)


@pytest.mark.parametrize("offset", [0.0, 0.5, 5.0])
def test_a_small_table_has_the_exact_gaussian_process(few, offset):
    x, y, kernel, _ = few
    mean, variance = kernel.predict(x + offset)
    expected_mean, expected_variance = posterior(kernel, x.numpy(), y.numpy(), x.numpy() + offset)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(variance, expected_variance, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [[0], [3, 7, 11], list(range(15))])
def test_leaving_rows_out_is_fitting_without_them(few, rows):
    x, y, kernel, left_out = few
    rest = np.setdiff1d(np.arange(len(x)), rows)
    mean, variance = left_out.predict(np.array(rows))
    expected_mean, expected_variance = posterior(kernel, x[rest].numpy(), y[rest].numpy(), x[rows].numpy())
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(variance, expected_variance, rtol=1e-3, atol=1e-4)


def test_leaving_no_row_out_predicts_none(few):
    mean, variance = few[3].predict(np.array([], dtype=int))
    assert mean.shape == (0, 2) and variance.shape == (0,)


def test_rows_that_are_equal_keep_the_process_exact():
    x, y = made(12)
    x, y = torch.cat([x, x]), torch.cat([y, y + 0.1])
    kernel, left_out = fitted(x, y)
    assert len(kernel.inducing) == 12
    mean, variance = kernel.predict(x)
    expected_mean, expected_variance = posterior(kernel, x.numpy(), y.numpy(), x.numpy())
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(variance, expected_variance, rtol=1e-3, atol=1e-4)
    assert left_out.predict(np.arange(12))[0].isfinite().all()


def test_a_constant_input_changes_nothing_that_is_predicted_from_the_others():
    x, y = made(20)
    kernel, _ = fitted(torch.cat([x, torch.zeros(20, 1)], 1), y)
    assert kernel.predict(torch.cat([x, torch.zeros(20, 1)], 1))[0].isfinite().all()


def test_weight_two_is_the_row_twice():
    features, y = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6.0)[:, None]
    prior = features.square().sum(1) + 0.1
    weighted = LeftOut.fit(features, y, torch.tensor([2.0, 1, 1, 1, 1, 1]), prior)
    twice = [0, 0, 1, 2, 3, 4, 5]
    repeated = LeftOut.fit(features[twice], y[twice], torch.ones(7), prior[twice])
    torch.testing.assert_close(weighted.precision, repeated.precision)
    torch.testing.assert_close(weighted.moment, repeated.moment)
    torch.testing.assert_close(weighted.predict([0]), tuple(each[:1] for each in repeated.predict([0, 1])))


def test_weights_divide_the_noise():
    x, y = made(20)
    weight = torch.linspace(0.2, 1.8, 20)
    kernel, _ = fitted(x, y, weight)
    mean, variance = kernel.predict(x + 0.3)
    expected = posterior(kernel, x.numpy(), y.numpy(), x.numpy() + 0.3, weight.numpy())
    np.testing.assert_allclose(mean, expected[0], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(variance, expected[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_gradient_of_the_likelihood_is_that_through_the_factor(generator, outputs):
    root = torch.randn(5, 5, generator=generator)
    y = torch.randn(5, outputs, generator=generator)
    ours, theirs = ((root @ root.T + torch.eye(5)).requires_grad_() for _ in range(2))
    value = _negative_log_likelihood(ours, y)
    factor = torch.linalg.cholesky((theirs + theirs.T) / 2)
    expected = torch.linalg.solve_triangular(factor, y, upper=False).square().sum() / 2
    expected = expected + outputs * factor.diagonal().log().sum()
    torch.testing.assert_close(value, expected)
    (gradient,), (expected_gradient,) = torch.autograd.grad(value, ours), torch.autograd.grad(expected, theirs)
    torch.testing.assert_close(gradient, expected_gradient)


def test_the_likelihood_is_that_of_a_gaussian(generator):
    root, y = torch.randn(4, 4, generator=generator), torch.randn(4, 1, generator=generator)
    matrix = root @ root.T + torch.eye(4)
    gaussian = torch.distributions.MultivariateNormal(torch.zeros(4), matrix)
    constant = 2 * np.log(2 * np.pi)
    torch.testing.assert_close(_negative_log_likelihood(matrix, y) + constant, -gaussian.log_prob(y[:, 0]))


@pytest.mark.parametrize("value", [-1.0, torch.nan, torch.inf])
def test_a_covariance_that_has_no_factor_is_a_large_finite_loss(value):
    assert _negative_log_likelihood(value * torch.eye(3), torch.ones(3, 1)).item() == 1e10


def test_inputs_of_a_category_share_a_length_scale():
    x, y = made(25, inputs=3)
    kernel, _ = Kernel.fit(x, y, [0, 1, 1], None, torch.Generator().manual_seed(0))
    assert kernel.inverse_length[1] == kernel.inverse_length[2] != kernel.inverse_length[0]


def test_an_input_that_matters_has_the_shorter_length_scale():
    x, y = made(60)
    kernel, _ = fitted(x, y)
    assert kernel.inverse_length[0] > 3 * kernel.inverse_length[1]


def test_a_large_table_is_carried_by_some_of_its_rows(monkeypatch):
    monkeypatch.setattr(module, "EXACT_ROWS", 50)
    monkeypatch.setattr(module, "MAX_INDUCING", 40)
    monkeypatch.setattr(module, "MAX_VARIANCE_INDUCING", 10)
    x, y = made(100, inputs=1)
    kernel, left_out = fitted(x, y)
    assert len(kernel.inducing) == 40 and len(kernel.variance_factor) == 10
    assert kernel.variances[2] == 0  # no local part
    mean, variance = kernel.predict(x)
    np.testing.assert_allclose(mean, posterior(kernel, x.numpy(), y.numpy(), x.numpy())[0], atol=0.1)
    assert (variance > 0).all() and (left_out.predict(np.arange(10))[1] > 0).all()


def test_the_same_generator_gives_the_same_process(few):
    x, y, kernel, _ = few
    again, _ = fitted(x, y)
    assert all(
        torch.equal(mine, theirs) for mine, theirs in zip(vars(kernel).values(), vars(again).values(), strict=True)
    )


def test_tensors_come_back(few):
    x, _, kernel, _ = few
    again = Kernel.from_tensors(kernel.to_tensors(), 2, 2)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(kernel.predict(x), again.predict(x), strict=True))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("inverse_length", lambda t: t[:1]),
        ("variances", lambda t: t[:3]),
        ("inducing", lambda t: t[:, :1]),
        ("factor", lambda t: t[1:]),
        ("factor", lambda t: -t),
        ("coefficient", lambda t: t[:, :1]),
        ("variance_factor", lambda t: t[:0, :0]),
        ("variance_factor", lambda t: torch.zeros_like(t)),
    ],
)
def test_wrong_tensors_are_refused(few, name, change):
    tensors = few[2].to_tensors()
    with pytest.raises(ValueError, match="of the kernel"):
        Kernel.from_tensors(tensors | {name: change(tensors[name])}, 2, 2)


def test_with_fewer_inducing_rows_what_they_do_not_carry_is_noise():
    x, y = made(60)
    kernel, left_out = fitted(x, y)
    rows, few = torch.arange(12), left_out.reduced(40)
    weight = 1 / (1 / left_out.weight[:, 0] + left_out.features[:, 40:].square().sum(1))
    torch.testing.assert_close(few.weight[:, 0], weight)
    mean, variance = few.predict(rows)
    exact, _ = left_out.predict(rows)
    assert (mean - exact).abs().mean() < 0.2 and (variance > 0).all()


@pytest.mark.parametrize("local", [0.0, 0.3])
@pytest.mark.parametrize("offset", [0.0, 3.0, 1e3])
def test_many_rows_have_the_same_moments_as_few(monkeypatch, offset, local):
    monkeypatch.setattr(module, "EXACT_ROWS", 50)
    monkeypatch.setattr(module, "MAX_INDUCING", 30)
    monkeypatch.setattr(module, "MAX_VARIANCE_INDUCING", 20)
    maximise = module._maximise_likelihood

    def with_local_part(*arguments):
        log_inverse_length, variances = maximise(*arguments)
        return log_inverse_length, torch.cat([variances[:2], torch.tensor([local]).double(), variances[3:]])

    monkeypatch.setattr(module, "_maximise_likelihood", with_local_part)
    kernel, _ = fitted(*made(n=200, outputs=2))
    x = made(n=module.MANY_ROWS * 20, seed=1)[0] + offset
    many = kernel.predict(x)
    few = zip(*(kernel.predict(some) for some in x.split(100)), strict=True)
    for mine, theirs in zip(many, map(torch.cat, few), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-8)
