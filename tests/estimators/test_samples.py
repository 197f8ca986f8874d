import numpy as np
import pytest
import torch
from scipy import stats

import nsac
from nsac import Prediction
from nsac.estimators.files import read_model, write_model
from nsac.estimators.samples import fit_correlation, joint_samples, nearest_correlation, normal_scores
from support.series import daily_cycle, hourly, ridge

ALPHA = 1e-5
HORIZON = 8


def autoregression(rows, seed, phi=0.9):
    """Hourly values of an autoregressive process of order 1."""
    random = np.random.default_rng(seed)
    y = np.zeros(rows)
    for i, noise in enumerate(random.normal(size=rows - 1)):
        y[i + 1] = phi * y[i] + noise
    return hourly(rows, y=y)


def markov_correlation(horizon=HORIZON, phi=0.9):
    """Correlation of the errors of such a process at all lead times."""
    std = np.sqrt(1 - phi ** (2 * np.arange(1, horizon + 1)))
    lead = np.arange(horizon)
    late, early = np.maximum(lead[:, None], lead), np.minimum(lead[:, None], lead)
    return torch.as_tensor(phi ** (late - early) * std[early] / std[late])


def test_normal_scores_of_a_gaussian_are_its_standardised_errors():
    p = Prediction.gaussian(torch.tensor([[1.0, 2.0]]), torch.tensor([[2.0, 4.0]]))
    torch.testing.assert_close(normal_scores(p, torch.tensor([[3.0, torch.nan]]))[0, 0], torch.tensor(1.0))


def test_a_score_is_missing_where_the_value_is():
    p = Prediction.gaussian(torch.zeros(2, 1), torch.ones(2, 1))
    assert normal_scores(p, torch.tensor([[torch.nan], [0.0]])).isnan().flatten().tolist() == [True, False]


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_correlation_of_many_windows_is_found(generator, missing):
    true = markov_correlation()
    z = torch.randn(4000, HORIZON, generator=generator) @ torch.linalg.cholesky(true).T
    z[torch.rand(z.shape, generator=generator) < missing] = torch.nan
    torch.testing.assert_close(fit_correlation(z), true, atol=0.06, rtol=0)


def test_the_correlation_of_few_windows_is_that_of_neighbours(generator):
    true = markov_correlation()
    z = torch.randn(40, HORIZON, generator=generator) @ torch.linalg.cholesky(true).T
    torch.testing.assert_close(fit_correlation(z), true, atol=0.25, rtol=0)


def test_a_matrix_with_negative_eigenvalues_becomes_a_correlation():
    matrix = torch.tensor([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    found = nearest_correlation(matrix)
    assert torch.linalg.eigvalsh(found).min() > -1e-12
    torch.testing.assert_close(found.diagonal(), torch.ones(3))


def test_each_lead_time_of_the_samples_follows_the_mixture(generator):
    p = Prediction(torch.tensor([[[0.0, 5.0]], [[3.0, 5.0]]]), torch.tensor([[[0.0, -1.0]], [[0.5, 1.0]]]))
    samples = joint_samples(p, torch.tensor([[1.0, 0.8], [0.8, 1.0]]), 2000, generator)
    for h in range(2):
        one = Prediction(p.mean_draws[:, :, h].expand(-1, 2000), p.log_std_draws[:, :, h].expand(-1, 2000))
        assert stats.kstest(one.cdf(samples[:, 0, h]).numpy(), "uniform").pvalue > ALPHA


def test_lead_times_of_the_samples_are_correlated_and_series_are_not(generator):
    p = Prediction.gaussian(torch.zeros(2, 2), torch.ones(2, 2))
    samples = joint_samples(p, torch.tensor([[1.0, 0.8], [0.8, 1.0]]), 4000, generator)
    correlation = np.corrcoef(samples.flatten(1).T)
    np.testing.assert_allclose(correlation[[0, 2, 0, 1], [1, 3, 2, 3]], [0.8, 0.8, 0.0, 0.0], atol=0.06)


@pytest.fixture(scope="module")
def fitted():
    return ridge(horizon=HORIZON).fit(autoregression(3000, seed=1))


def sum_coverage(model, samples_of):
    """Share of sums over the horizon within their 90 % interval, from 150 origins."""
    frame, covered = autoregression(1500, seed=2), []
    for end in range(20, 1490, 10):
        sums = samples_of(model, frame.iloc[end - 12 : end]).sum(-1)
        lower, upper = np.quantile(sums, [0.05, 0.95], axis=0)
        covered.append(lower[0] <= frame["y"].iloc[end : end + HORIZON].sum() <= upper[0])
    return np.mean(covered)


def test_the_interval_of_the_sum_covers_where_that_of_independent_errors_does_not(fitted, generator):
    joint = sum_coverage(fitted, lambda model, frame: model.predict_samples(frame, 400))
    alone = sum_coverage(fitted, lambda model, frame: model.predict_distribution(frame).sample(400, generator).numpy())
    assert 0.85 <= joint <= 0.95 and alone < 0.75


def test_samples_have_an_axis_of_samples_series_and_lead_times(fitted):
    assert fitted.predict_samples(autoregression(50, seed=3), 7).shape == (7, 1, HORIZON)


def test_samples_depend_on_the_random_state_alone(fitted):
    frame = autoregression(50, seed=3)
    np.testing.assert_array_equal(fitted.predict_samples(frame, 5), fitted.predict_samples(frame, 5))
    assert (fitted.predict_samples(frame, 5) != fitted.predict_samples(frame, 5, random_state=1)).all()


def test_a_loaded_model_gives_the_same_samples(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    frame = autoregression(50, seed=3)
    again = nsac.load(tmp_path / "model").predict_samples(frame, 5)
    np.testing.assert_array_equal(again, fitted.predict_samples(frame, 5))


def test_a_model_of_an_earlier_version_has_no_samples(tmp_path):
    ridge().fit(daily_cycle()).save(tmp_path / "model")
    config, tensors = read_model(tmp_path / "model")
    del tensors["own.correlation"], config["own"]["horizon"], config["own"]["lookback"]
    write_model(tmp_path / "old", config, tensors)
    with pytest.raises(ValueError, match="fitted by an earlier version"):
        nsac.load(tmp_path / "old").predict_samples(daily_cycle())


@pytest.mark.parametrize("number", [0, 200_000])
def test_the_number_of_samples_is_checked(fitted, number):
    with pytest.raises(ValueError, match="`num_samples` must be"):
        fitted.predict_samples(autoregression(50, seed=3), number)
