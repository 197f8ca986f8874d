import numpy as np
import pytest
import torch
from scipy import stats

from nsac.methods import METHODS, SeriesProblem, TableProblem, WindowProblem, fit, method
from nsac.methods.der import nig_nll
from nsac.methods.ridge import PENALTIES
from nsac.training import TensorData, TrainConfig
from support.problems import scattered, sine, walk


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_evidential_likelihood_is_students(generator):
    gamma, y = torch.randn(2, 50, generator=generator).unbind(0)
    nu, alpha, beta = (0.5 + torch.rand(3, 50, generator=generator)).unbind(0)
    alpha = alpha + 1
    scale = (beta * (1 + nu) / (nu * alpha)).sqrt()
    expected = -stats.t.logpdf(y, 2 * alpha, gamma, scale)
    torch.testing.assert_close(nig_nll(gamma, nu, alpha, beta, y), torch.from_numpy(expected))


def test_evidential_draws_have_the_two_variances_of_the_formulas(generator):
    der = METHODS["der"](TableProblem(2, 1))
    with torch.no_grad():
        der.head.linear.bias[2] = 4.0  # more evidence, so that fourth moments exist and averages converge
    batch = {"x": torch.randn(3, 2, generator=generator)}
    gamma, nu, alpha, beta = der.evidence(batch)
    p = der.predict(batch, num_samples=200_000)
    torch.testing.assert_close(p.mean, gamma.detach(), rtol=0, atol=0.02)  # averages over 200,000 draws
    torch.testing.assert_close(p.aleatoric, (beta / (alpha - 1)).detach(), rtol=0.02, atol=0)
    torch.testing.assert_close(p.epistemic, (beta / (nu * (alpha - 1))).detach(), rtol=0.03, atol=0)


def test_dropout_drops_the_stated_share_and_only_before_the_head(generator, monkeypatch):
    mcd = METHODS["mcd"](TableProblem(2, 1))
    batch = {"x": torch.randn(5, 2, generator=generator)}
    seen = []
    monkeypatch.setattr(
        mcd.head, "forward", lambda features: seen.append(features.hidden) or (torch.zeros(1, 5, 1),) * 2
    )
    calls = []
    forward = mcd.trunk.forward
    monkeypatch.setattr(mcd.trunk, "forward", lambda *a: calls.append(1) or forward(*a))
    mcd.draws(batch, 2000, seeded())
    clean = forward(batch).hidden
    dropped = (seen[0] == 0).double().mean().item()
    assert dropped == pytest.approx(0.1, abs=0.01)  # 2,000 masks of 64 features
    torch.testing.assert_close(seen[0].mean(0), clean[0], rtol=0.05, atol=0)  # unbiased
    assert len(calls) == 1


def test_members_of_an_ensemble_differ_and_are_networks_of_their_own(generator):
    de = METHODS["de"](TableProblem(2, 1))
    first, second, third = de.learners()
    assert len({p.data_ptr() for p in de.parameters()}) == sum(len(list(m.parameters())) for m in de.members)
    batch = {"x": torch.randn(5, 2, generator=generator)}
    draws = de.draws(batch, 20, None)
    assert draws.mean.shape == (3, 5, 1)
    assert not torch.allclose(draws.mean[0], draws.mean[1]) and not torch.allclose(draws.mean[1], draws.mean[2])


def test_an_ensemble_of_trained_gaussians_is_their_mixture(generator):
    de = METHODS["de"](TableProblem(2, 1))
    batch = {"x": torch.randn(5, 2, generator=generator)}
    single = [member.predict(batch) for member in de.members]
    torch.testing.assert_close(de.predict(batch).mean, torch.stack([p.mean for p in single]).mean(0))


def test_the_diffusion_of_sdenet_learns_apart_from_the_rest(generator):
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


def test_ridge_is_scikit_learns(generator):
    from sklearn.linear_model import Ridge

    x, noise = torch.randn(300, 4, generator=generator), torch.randn(300, 2, generator=generator)
    y = x @ torch.randn(4, 2, generator=generator) + 2 + 0.1 * noise
    train, validation = TensorData(x=x[:200], y=y[:200]), TensorData(x=x[200:], y=y[200:])
    ridge = METHODS["ridge"](TableProblem(4, 2))
    ridge.solve(train, validation)
    fits = [Ridge(alpha=a * 200).fit(x[:200], y[:200]) for a in PENALTIES]
    best = min(fits, key=lambda fit: ((fit.predict(x[200:]) - y[200:].numpy()) ** 2).mean())
    p = ridge.predict(validation.columns)
    np.testing.assert_allclose(p.mean, best.predict(x[200:]), rtol=1e-8)
    torch.testing.assert_close(p.std[0] ** 2, (p.mean - y[200:]).square().mean(0))


def test_boosted_trees_as_tensors_are_the_trees(generator):
    from sklearn.ensemble import HistGradientBoostingRegressor

    split = sine(900, generator)
    gbm = METHODS["gbm"](split.problem, rounds=20)
    gbm.solve(split.train, split.validation)
    median = HistGradientBoostingRegressor(
        loss="quantile", quantile=0.5, max_iter=20, max_leaf_nodes=15, learning_rate=0.05, early_stopping=False,
        random_state=0,
    ).fit(split.train.columns["x"].numpy(), split.train.columns["y"].numpy()[:, 0])  # fmt: skip
    x = split.test.columns["x"]
    np.testing.assert_allclose(gbm.predict({"x": x}).mean[:, 0], median.predict(x.numpy()), rtol=1e-10)


def test_persistence_repeats_what_the_data_says_with_the_error_of_training(generator):
    split = walk(generator=generator)
    naive = METHODS["persistence"](split.problem)
    naive.solve(split.train, split.validation)
    p = naive.predict(split.test.columns)
    assert (p.mean == 0).all()  # no change
    torch.testing.assert_close(p.variance[0], split.train.columns["y"].square().mean(0))
    assert (p.variance[0].diff() > 0).all()  # a walk spreads


def test_a_naive_method_without_its_key_says_which():
    naive = METHODS["seasonal"](WindowProblem(1, 2, lookback=4))
    with pytest.raises(ValueError, match="'seasonal'"):
        naive.predict({"x": torch.zeros(1, 4, 1)})


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="'gmle'"):
        method("gmle")(METHODS["mcd"])


def test_data_a_method_cannot_take_is_refused_by_name():
    with pytest.raises(ValueError, match=r"'persistence'.*'windows'.*'table'"):
        METHODS["persistence"](TableProblem(1, 1))


@pytest.mark.parametrize(
    ("problem", "arguments", "word"),
    [
        (TableProblem, {"input_dim": 1, "output_dim": 1, "tokens": "feature"}, "tokens"),
        (WindowProblem, {"input_dim": 1, "output_dim": 1, "lookback": 0}, "lookback"),
        (TableProblem, {"input_dim": 0, "output_dim": 1}, "input_dim"),
        (SeriesProblem, {"input_dim": 1, "output_dim": 1, "time_scale": 0.0}, "time_scale"),
        (WindowProblem, {"input_dim": 3, "output_dim": 7, "lookback": 6, "targets": (0, 1)}, "output_dim"),
        (WindowProblem, {"input_dim": 3, "output_dim": 8, "lookback": 6, "targets": (0, 3)}, "targets"),
    ],
)
def test_an_impossible_problem_is_refused_by_name(problem, arguments, word):
    with pytest.raises(ValueError, match=f"`{word}`"):
        problem(**arguments)


@pytest.mark.parametrize("name", ["nsac", "gmle", "ridge", "gbm"])
@pytest.mark.parametrize("tokens", ["slots", "features"])
def test_tables_with_holes_and_categories(name, tokens, generator):
    x = torch.randn(200, 3, generator=generator)
    y = x[:, :1].clone()
    x[torch.rand(200, 3, generator=generator) < 0.3] = float("nan")
    x[0] = float("nan")
    c = torch.randint(0, 3, (200, 2), generator=generator)
    c[0] = 0  # a row of which nothing is known
    data = TensorData(x=x, c=c, y=y)
    method_ = METHODS[name](TableProblem(3, 1, categories=(2, 2), missing=True, tokens=tokens))
    fit(method_, data, data, TrainConfig(max_steps=3, batch_size=64))
    p = method_.predict(data.columns)
    assert p.mean.isfinite().all() and p.variance.isfinite().all()


def test_categories_out_of_range_or_absent_are_named(generator):
    gmle = METHODS["gmle"](TableProblem(1, 1, categories=(2,)))
    with pytest.raises(ValueError, match="column 0"):
        gmle.predict({"x": torch.zeros(2, 1), "c": torch.tensor([[1], [3]])})
    with pytest.raises(ValueError, match="'c'"):
        gmle.predict({"x": torch.zeros(2, 1)})


def test_a_single_token_warns_that_nothing_can_be_epistemic():
    nsac = METHODS["nsac"](TableProblem(1, 1, tokens="features"))
    with pytest.warns(UserWarning, match="epistemic variance is 0"):
        assert (nsac.predict({"x": torch.randn(3, 1)}).epistemic < 1e-12).all()


def test_a_lone_series_has_a_second_token_to_be_unsure_about():
    nsac = METHODS["nsac"](WindowProblem(1, 1, lookback=6))
    assert (nsac.predict({"x": torch.randn(3, 6, 1)}).epistemic > 0).all()


def test_the_training_mean_is_the_mean_and_deviation_of_training(generator):
    split = sine(generator=generator)
    naive = METHODS["mean"](split.problem)
    fit(naive, split.train, split.validation)
    p = naive.predict(split.test.columns)
    y = split.train.columns["y"]
    torch.testing.assert_close(p.mean[:2, 0], y.mean().expand(2))
    torch.testing.assert_close(p.std[0], y.std(0, correction=0))


def test_the_training_mean_of_series_depends_on_the_time_asked(generator):
    split = scattered(n=3000, generator=generator)
    columns = {**split.train.columns, "y": split.train.columns["query_times"].unsqueeze(-1)}
    naive = METHODS["mean"](split.problem)
    fit(naive, type(split.train)(**columns), split.validation)
    asked = split.test.columns["query_times"]
    assert (naive.predict(split.test.columns).mean.squeeze(-1) - asked).abs().max() < 1 / 200  # a bin


@pytest.mark.parametrize("name", ["nsac", "gmle", "mcd", "de", "sdenet"])
def test_far_from_the_data_deviations_stay_in_range(name):
    method = METHODS[name](TableProblem(3, 1))
    log_std = method.predict({"x": torch.full((4, 3), 1e6), "y": torch.zeros(4, 1)}).log_std_draws
    assert log_std.min() >= -10 and log_std.max() <= 3


@pytest.mark.parametrize("name", ["nsac", "gmle"])
def test_targets_share_weights_and_take_turns_in_a_row(name):
    method = METHODS[name](WindowProblem(3, 8, lookback=6, skip=True, targets=(2, 0)))
    for part, parameter in method.named_parameters():
        if part.split(".")[-2] in ("linear", "attended", "direct"):
            parameter.data.zero_()
    weight, bias = (parameter for part, parameter in method.named_parameters() if ".skip." in f".{part}")
    x = torch.randn(5, 6, 3, generator=torch.Generator().manual_seed(0))
    mean = method.predict({"x": x, "y": torch.zeros(5, 8)}).mean.unflatten(-1, (4, 2))  # step, target
    expected = (x - x[:, -1:]).mT[:, [2, 0]] @ weight.T + bias
    torch.testing.assert_close(mean, expected.mT, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["ridge", "gbm", "gmle"])
def test_columns_are_all_that_is_seen(name, generator):
    x = torch.randn(80, 3, generator=generator)
    rows = TensorData(x=x, y=x.sum(-1, keepdim=True))
    method = METHODS[name](TableProblem(3, 1, columns=(2,)))
    fit(method, rows, rows, TrainConfig(max_steps=5, accelerator="cpu"))
    seen = method.predict({"x": x}).mean
    assert torch.equal(seen, method.predict({"x": x * torch.tensor([5.0, -1.0, 1.0])}).mean) and seen.std() > 0
