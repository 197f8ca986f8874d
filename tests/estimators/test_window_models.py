import numpy as np
import pandas as pd
import pytest
import torch

from nsac import NSACForecaster
from nsac.estimators import window_models
from nsac.estimators.preprocessing import prepare
from nsac.estimators.steps import calendar_features
from nsac.estimators.window_models import LeadFeatures, WindowModels, design, model_weights, solve_linear
from nsac.estimators.windows import WindowShape
from nsac.methods import METHODS, fit
from nsac.training import Subset, batches
from nsac.uncertainty import Prediction

LOOKBACK, HORIZON = 30, 5


def frame(rows: int = 400) -> pd.DataFrame:
    random, hours = np.random.default_rng(0), np.arange(rows)
    y = np.sin(2 * np.pi * hours / 24) + 0.1 * random.normal(size=rows)
    return pd.DataFrame({"date": pd.date_range("2024-01-01", periods=rows, freq="h"), "y": y, "z": np.roll(y, 2)})


@pytest.fixture(scope="module")
def data():
    shape = WindowShape(LOOKBACK, HORIZON)
    return prepare(frame(), NSACForecaster(HORIZON, LOOKBACK)._find_columns(frame()), None, shape)


@pytest.fixture(scope="module")
def fitted(data):
    """Models, what was chosen, and the splits, with persistence as the ensemble."""
    splits = data.preprocessor.shape.member_splits(data.rest, data.times, 2)
    members = []
    for train, validation in splits:
        member = METHODS["persistence"](data.problem)
        fit(member, Subset(data.windows, train), Subset(data.windows, validation))
        members.append(member.double())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_models, "MAX_ROUNDS", 12)
        features = LeadFeatures.of(data.preprocessor)
        return WindowModels.fit(data.problem, features, data.windows, splits, members, 1, seed=0)


def first_rows(windows, n=7):
    return windows.batch(torch.arange(n))


def test_the_calendar_of_a_lead_time_is_that_of_its_date_and_the_same_number_for_every_origin(data):
    features, axis = LeadFeatures.of(data.preprocessor), data.preprocessor.axis
    lead = features._lead(first_rows(data.windows))
    origins = frame()["date"].to_numpy().astype("datetime64[ns]").astype(np.int64)[data.windows.ends[:7].numpy()]
    for step in range(1, HORIZON + 1):
        expected = calendar_features(origins + step * 3_600_000_000_000, axis.dtype, data.preprocessor.cycles)
        rounded = np.round(expected * window_models.CALENDAR_STEPS) / window_models.CALENDAR_STEPS
        np.testing.assert_array_equal(lead[:, step - 1, 1 : 1 + expected.shape[1]], rounded)


def test_the_seasonal_feature_is_the_change_from_the_last_value_to_a_day_before_the_lead_time(data):
    features, batch = LeadFeatures.of(data.preprocessor), first_rows(data.windows)
    assert features.season == 24
    for step in range(1, HORIZON + 1):
        expected = batch["x"][:, LOOKBACK - 1 + step - 24, 0] - batch["x"][:, -1, 0]
        torch.testing.assert_close(features._lead(batch)[:, step - 1, -2], expected)


def test_a_season_longer_than_a_window_is_not_a_feature(data):
    features = LeadFeatures(HORIZON, 0, LeadFeatures.of(data.preprocessor).angles)
    assert features.size(data.problem) == LeadFeatures.of(data.preprocessor).size(data.problem) - 2


def test_pairs_have_the_announced_size(data):
    features = LeadFeatures.of(data.preprocessor)
    assert features.pairs(first_rows(data.windows)).shape == (7, HORIZON, features.size(data.problem))


def test_the_linear_regression_solves_its_normal_equations(data):
    rows, penalty = data.rest, 0.1
    w = solve_linear(data.problem, data.windows, rows, [penalty])[0]
    batch = data.windows.batch(torch.from_numpy(rows))
    x, y = design(data.problem, batch, data.windows.roughness), batch["y"].double()
    gradient = x.T @ (y - x @ w)
    torch.testing.assert_close(gradient[:-1], penalty * len(rows) * w[:-1], rtol=1e-6, atol=1e-7)
    assert gradient[-1].abs().max() < 1e-5


def test_the_model_with_the_smallest_errors_has_the_largest_weight():
    random = torch.Generator().manual_seed(0)
    y = torch.randn(200, 2, generator=random, dtype=torch.float64)
    noise = torch.randn(3, 200, 2, generator=random, dtype=torch.float64)
    weights = model_weights(y + torch.tensor([2.0, 0.1, 1.0])[:, None, None] * noise, y)
    assert weights.shape == (3,) and (weights >= 0).all() and weights.argmax() == 1


def test_targets_that_were_not_observed_do_not_count_for_the_weights():
    random = torch.Generator().manual_seed(0)
    y = torch.randn(60, 1, generator=random, dtype=torch.float64)
    means = y + torch.randn(3, 60, 1, generator=random, dtype=torch.float64)
    hidden = y.clone()
    hidden[40:] = torch.nan
    torch.testing.assert_close(model_weights(means, hidden), model_weights(means[:, :40], y[:40]))


def test_a_correction_moves_the_mean_and_keeps_the_variances(data, fitted):
    models, _ = fitted
    few = data.windows.with_ends(data.windows.ends[:9])
    random = torch.Generator().manual_seed(0)
    p = Prediction(*torch.randn(2, 4, 9, HORIZON, generator=random, dtype=torch.float64))
    corrected = models.correct(p, few)
    batch = few.batch(torch.arange(9))
    trees = models.trees.predict(models.features.pairs(batch).flatten(0, 1).double()).reshape(9, HORIZON)
    means = [p.mean, design(data.problem, batch, models.roughness) @ models.linear, trees]
    expected = sum(w * mean for w, mean in zip(models.weights, means, strict=True))
    torch.testing.assert_close(corrected.mean, expected)
    torch.testing.assert_close(corrected.aleatoric, p.aleatoric)
    torch.testing.assert_close(corrected.epistemic, p.epistemic)


def test_models_are_fitted_again_with_what_was_chosen(data, fitted):
    models, recipe = fitted
    again = models.refit(recipe, data.windows, seed=0)
    assert again.weights is models.weights and again.trees.value.shape[0] == recipe.rounds
    rows = np.arange(len(data.windows))
    torch.testing.assert_close(again.linear, solve_linear(data.problem, data.windows, rows, [recipe.penalty])[0])


def test_the_linear_regression_of_twice_the_changes_reads_root_two_times_the_changes(data):
    batch, roughness = first_rows(data.windows), data.windows.roughness
    last = batch["x"][:, -1:]
    large, doubled = (batch | {"x": last + factor * (batch["x"] - last)} for factor in (1000, 2000))
    changes = (LOOKBACK - 1) * data.problem.input_dim
    once, twice = (design(data.problem, each, roughness) for each in (large, doubled))
    torch.testing.assert_close(twice[:, :changes], 2**0.5 * once[:, :changes], rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(twice[:, changes:], once[:, changes:])


def test_models_of_an_older_folder_read_differences_in_units_of_each_variable(data, fitted):
    tensors = fitted[0].to_tensors()
    del tensors["roughness"]
    read = WindowModels.from_tensors(tensors, fitted[0].features, data.problem)
    batch = first_rows(data.windows)
    p = Prediction(*torch.zeros(2, 1, 7, HORIZON).double())
    flat = torch.cat([data.problem.flatten(batch).double(), torch.ones(7, 1).double()], 1)
    trees = read.trees.predict(read.features.pairs(batch).flatten(0, 1).double()).reshape(7, HORIZON)
    expected = read.weights[1] * (flat @ read.linear) + read.weights[2] * trees
    torch.testing.assert_close(read.move(p, batch, read.trees.predict).mean, expected)


def test_a_file_gives_the_models_back(data, fitted):
    models, _ = fitted
    read = WindowModels.from_tensors(models.to_tensors(), models.features, data.problem)
    few = data.windows.with_ends(data.windows.ends[:9])
    p = Prediction(*torch.zeros(2, 1, 9, HORIZON).double())
    assert torch.equal(read.correct(p, few).mean, models.correct(p, few).mean)


@pytest.mark.parametrize(
    ("name", "change"), [("weights", lambda t: -t), ("weights", lambda t: t[:2]), ("linear", lambda t: t[1:])]
)
def test_damaged_models_are_refused(data, fitted, name, change):
    tensors = fitted[0].to_tensors()
    with pytest.raises(ValueError, match="must have shapes"):
        WindowModels.from_tensors(tensors | {name: change(tensors[name])}, fitted[0].features, data.problem)


def test_a_roughness_that_is_not_positive_is_refused(data, fitted):
    tensors = fitted[0].to_tensors() | {"roughness": torch.zeros(())}
    with pytest.raises(ValueError, match="one positive number"):
        WindowModels.from_tensors(tensors, fitted[0].features, data.problem)


def test_trees_learn_from_pairs_whose_target_was_observed(data):
    features = LeadFeatures.of(data.preprocessor)
    windows = data.windows.with_ends(data.windows.ends)
    windows.values = windows.values.clone()
    windows.values[::7] = torch.nan
    windows.__post_init__()
    model = window_models.grow(features, windows, data.rest, 3, seed=0, max_pairs=10_000)
    batch = next(batches(windows, 50))
    assert np.isfinite(model.predict(features.pairs(batch).flatten(0, 1).double().numpy())).all()


def test_a_forecaster_of_another_method_has_no_other_models():
    assert NSACForecaster(3, 6, method="persistence", members=1).fit(frame(80)).components_ is None
