from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from nsac import NSACForecaster
from nsac.estimators import window_models
from nsac.estimators.preprocessing import MAX_LEVEL, prepare
from nsac.estimators.steps import calendar_features
from nsac.estimators.window_models import (
    LeadFeatures,
    WindowModels,
    design,
    model_weights,
    older_design,
    solve_linear,
)
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
        features = LeadFeatures.of(data.preprocessor, data.problem)
        return WindowModels.fit(data.problem, features, data.windows, splits, members, 1, seed=0)


def first_rows(windows, n=7):
    return windows.batch(torch.arange(n))


def test_the_calendar_of_a_lead_time_is_that_of_its_date_and_the_same_number_for_every_origin(data):
    features, axis = LeadFeatures.of(data.preprocessor, data.problem), data.preprocessor.axis
    lead = features._lead(first_rows(data.windows))
    origins = frame()["date"].to_numpy().astype("datetime64[ns]").astype(np.int64)[data.windows.ends[:7].numpy()]
    for step in range(1, HORIZON + 1):
        expected = calendar_features(origins + step * 3_600_000_000_000, axis.dtype, data.preprocessor.cycles)
        rounded = np.round(expected * window_models.CALENDAR_STEPS) / window_models.CALENDAR_STEPS
        np.testing.assert_array_equal(lead[:, step - 1, 1 : 1 + expected.shape[1]], rounded)


def test_the_seasonal_feature_is_the_change_from_the_last_value_to_a_day_before_the_lead_time(data):
    features, batch = LeadFeatures.of(data.preprocessor, data.problem), first_rows(data.windows)
    assert features.season == 24
    for step in range(1, HORIZON + 1):
        expected = batch["x"][:, LOOKBACK - 1 + step - 24, 0] - batch["x"][:, -1, 0]
        torch.testing.assert_close(features._lead(batch)[:, step - 1, -2], expected)


def test_a_season_longer_than_a_window_is_not_a_feature(data):
    features = LeadFeatures(HORIZON, 0, LeadFeatures.of(data.preprocessor, data.problem).angles)
    assert features.size(data.problem) == LeadFeatures.of(data.preprocessor, data.problem).size(data.problem) - 2


def test_pairs_have_the_announced_size(data):
    features = LeadFeatures.of(data.preprocessor, data.problem)
    assert features.pairs(first_rows(data.windows)).shape == (7, HORIZON, features.size(data.problem))


def test_the_linear_regression_solves_its_normal_equations(data):
    rows, penalty, features = data.rest, 0.1, LeadFeatures.of(data.preprocessor, data.problem)
    w = solve_linear(data.problem, features, data.windows, rows, [penalty])[0]
    batch = data.windows.batch(torch.from_numpy(rows))
    unit = data.windows.offset_and_scale(torch.from_numpy(rows))[1].double()
    x, y = design(data.problem, features, batch), unit * batch["y"].double()
    gradient = x.T @ (y - x @ w)
    torch.testing.assert_close(gradient[:-1], penalty * len(rows) * w[:-1], rtol=1e-6, atol=1e-7)
    assert gradient[-1].abs().max() < 1e-5


def test_all_models_see_the_same_beyond_the_largest_level(data, fitted):
    batch, unit, most = first_rows(data.windows), data.windows.offset_and_scale(torch.arange(7))[1], MAX_LEVEL
    high, higher = (batch | {"x": batch["x"] - batch["x"][:, -1:] + level} for level in (most, most + 3))
    encoder = data.problem.encoder(seed=0).float()
    torch.testing.assert_close(encoder(high).query, encoder(higher).query, rtol=1e-4, atol=1e-4)
    assert data.problem.max_level == most and fitted[0].features.max_level == most
    one, other = (fitted[0].linear_mean(each, unit) for each in (high, higher))
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(fitted[0].features.pairs(high), fitted[0].features.pairs(higher), rtol=1e-5, atol=1e-5)
    older, unlimited = replace(data.problem, max_level=None), replace(fitted[0].features, max_level=None)
    assert not torch.allclose(design(older, unlimited, high), design(older, unlimited, higher))


def test_the_linear_regression_learns_a_change_whose_size_depends_on_the_time_of_day():
    hours, random = np.arange(2000), np.random.default_rng(0)
    shocks, y = random.normal(size=2000), np.zeros(2000)
    for t in hours[1:]:  # a shock remains at noon, and has reversed by midnight
        y[t] = -np.cos(2 * np.pi * t / 24) * y[t - 1] + shocks[t]
    known = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=2000, freq="h"), "y": y})
    data = prepare(known, NSACForecaster(1, 6)._find_columns(known), None, WindowShape(6, 1))
    features = LeadFeatures.of(data.preprocessor, data.problem)
    w = solve_linear(data.problem, features, data.windows, data.rest, [1e-6])[0]
    rows = torch.arange(len(data.calibration))
    unit = data.calibration.offset_and_scale(rows)[1] * data.preprocessor.scale[0]
    batch = data.calibration.batch(rows)
    error = batch["y"] * unit - design(data.problem, features, batch) @ w * data.preprocessor.scale[0]
    assert error.square().mean() < 1.4  # the shocks have variance 1; without products it is above 1.5
    plain = LeadFeatures(1, 0, ())
    w = solve_linear(data.problem, plain, data.windows, data.rest, [1e-6])[0]
    error = batch["y"] * unit - design(data.problem, plain, batch) @ w * data.preprocessor.scale[0]
    assert error.square().mean() > 1.5


def test_targets_that_were_not_observed_are_interpolated_from_the_last_value_on(data):
    features, windows = LeadFeatures.of(data.preprocessor, data.problem), data.windows.with_ends(data.windows.ends[:60])
    ends = windows.ends
    sparse = windows.with_ends(ends)
    sparse.values = windows.values.clone()
    sparse.values[ends[-1] + 1] = torch.nan  # the first target of the last window
    sparse.__post_init__()
    between = windows.with_ends(ends)
    between.values = windows.values.clone()
    between.values[ends[-1] + 1] = (windows.values[ends[-1]] + windows.values[ends[-1] + 2]) / 2
    between.__post_init__()
    last = np.array([59])
    found, expected = (solve_linear(data.problem, features, each, last, [0.1]) for each in (sparse, between))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)  # windows are in single precision


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


def test_a_correction_moves_the_mean_and_weighs_the_draws_as_the_mean_of_the_ensemble(data, fitted):
    models, _ = fitted
    few = data.windows.with_ends(data.windows.ends[:9])
    random = torch.Generator().manual_seed(0)
    p = Prediction(*torch.randn(2, 4, 9, HORIZON, generator=random, dtype=torch.float64))
    corrected = models.correct(p, few)
    batch, unit = few.batch(torch.arange(9)), few.offset_and_scale(torch.arange(9))[1].double()
    trees = models.trees.predict(models.features.pairs(batch).flatten(0, 1).double()).reshape(9, HORIZON)
    means = [p.mean, design(data.problem, models.features, batch) @ models.linear / unit, trees]
    expected = sum(w * mean for w, mean in zip(models.weights, means, strict=True))
    share = max(float(models.weights[0]), window_models.MIN_DRAW_SHARE)
    torch.testing.assert_close(corrected.mean, expected)
    torch.testing.assert_close(corrected.aleatoric, p.aleatoric)
    torch.testing.assert_close(corrected.epistemic, share**2 * p.epistemic)


def test_models_are_fitted_again_with_what_was_chosen(data, fitted):
    models, recipe = fitted
    again = models.refit(recipe, data.windows, seed=0)
    assert again.weights is models.weights and again.trees.value.shape[0] == recipe.rounds
    rows = np.arange(len(data.windows))
    expected = solve_linear(data.problem, models.features, data.windows, rows, [recipe.penalty])[0]
    torch.testing.assert_close(again.linear, expected)


def older(models, data, roughness):
    """Tensors of a folder of an earlier version, whose linear regression has random coefficients."""
    inputs = older_design(data.problem, first_rows(data.windows), roughness).shape[1]
    linear = torch.randn(inputs, HORIZON, generator=torch.Generator().manual_seed(0)).double()
    tensors = models.to_tensors() | {"linear": linear}
    del tensors["draw_share"]
    return tensors if roughness is None else tensors | {"roughness": torch.tensor(roughness)}


def test_in_a_folder_of_an_earlier_version_twice_the_changes_are_read_as_root_two_times_the_changes(data):
    batch, roughness = first_rows(data.windows), data.windows.roughness
    last = batch["x"][:, -1:]
    large, doubled = (batch | {"x": last + factor * (batch["x"] - last)} for factor in (1000, 2000))
    changes = (LOOKBACK - 1) * data.problem.input_dim
    once, twice = (older_design(data.problem, each, roughness) for each in (large, doubled))
    torch.testing.assert_close(twice[:, :changes], 2**0.5 * once[:, :changes], rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(twice[:, changes:], once[:, changes:])


@pytest.mark.parametrize("roughness", [None, 0.5])
def test_models_of_an_older_folder_predict_in_the_unit_of_the_networks_and_keep_all_variances(data, fitted, roughness):
    models = fitted[0]
    tensors = older(models, data, roughness)
    read = WindowModels.from_tensors(tensors, models.features, data.problem)
    batch, unit = first_rows(data.windows), torch.full((7, HORIZON), torch.nan)
    p = Prediction(*torch.randn(2, 4, 7, HORIZON, generator=torch.Generator().manual_seed(0)).double())
    trees = read.trees.predict(read.features.pairs(batch).flatten(0, 1).double()).reshape(7, HORIZON)
    linear = older_design(data.problem, batch, roughness) @ tensors["linear"]
    expected = read.weights[0] * p.mean + read.weights[1] * linear + read.weights[2] * trees
    moved = read.move(p, batch, unit, read.trees.predict)
    torch.testing.assert_close(moved.mean, expected)
    torch.testing.assert_close(moved.epistemic, p.epistemic)
    again = WindowModels.from_tensors(read.to_tensors(), models.features, data.problem)
    assert (again.draw_share, again.roughness) == (None, roughness)


def test_the_oldest_folders_read_differences_in_units_of_each_variable(data):
    batch = first_rows(data.windows)
    flat = torch.cat([data.problem.flatten(batch).double(), torch.ones(7, 1).double()], 1)
    torch.testing.assert_close(older_design(data.problem, batch, None), flat)


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


@pytest.mark.parametrize("name", ["draw_share", "roughness"])
def test_a_number_that_is_not_positive_is_refused(data, fitted, name):
    tensors = fitted[0].to_tensors() | {name: torch.zeros(())}
    with pytest.raises(ValueError, match=f"`{name}` must be one positive number"):
        WindowModels.from_tensors(tensors, fitted[0].features, data.problem)


def test_trees_learn_from_pairs_whose_target_was_observed(data):
    features = LeadFeatures.of(data.preprocessor, data.problem)
    windows = data.windows.with_ends(data.windows.ends)
    windows.values = windows.values.clone()
    windows.values[::7] = torch.nan
    windows.__post_init__()
    model = window_models.grow(features, windows, data.rest, 3, seed=0, max_pairs=10_000)
    batch = next(batches(windows, 50))
    assert np.isfinite(model.predict(features.pairs(batch).flatten(0, 1).double().numpy())).all()


def test_a_forecaster_of_another_method_has_no_other_models():
    assert NSACForecaster(3, 6, method="persistence", members=1).fit(frame(80)).components_ is None
