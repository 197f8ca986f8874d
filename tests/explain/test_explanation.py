import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import nsac
from explain.conftest import series, table
from nsac import NSAC, NSACRegressor
from nsac.explain import ExplainError, attribution
from nsac.explain.explanation import explain

QUANTITIES = ("mean", "aleatoric", "epistemic")


@pytest.fixture(scope="module")
def explained(regressor):
    return nsac.explain(regressor, table(12, seed=1)[0])


def test_the_module_is_the_function(regressor):
    rows = table(2, seed=1)[0]
    one, other = nsac.explain(regressor, rows), explain(regressor, rows)
    assert all((one.attributions[q] == other.attributions[q]).all() for q in QUANTITIES)


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_attributions_of_a_table_add_up(explained, quantity):
    total = explained.base[quantity] + explained.attributions[quantity].sum(1)
    np.testing.assert_allclose(total, getattr(explained.prediction, quantity), rtol=1e-9)


def test_explained_predictions_are_those_of_the_model(explained, regressor):
    rows = table(12, seed=1)[0]
    np.testing.assert_allclose(explained.prediction.mean[:, 0], regressor.predict(rows), rtol=1e-12)
    interval = regressor.predict_interval(rows)
    np.testing.assert_allclose(np.stack([explained.prediction.lower, explained.prediction.upper], 1)[..., 0], interval)


def test_few_evaluations_add_up_as_well(regressor, monkeypatch):
    monkeypatch.setattr(attribution, "EVALUATED_ROWS", 1)
    explained = nsac.explain(regressor, table(4, seed=1)[0])
    np.testing.assert_allclose(
        explained.base["mean"] + explained.attributions["mean"].sum(1), explained.prediction.mean, rtol=1e-9
    )


def test_a_single_feature_has_the_whole_difference():
    x = np.random.default_rng(0).normal(size=(80, 1))
    model = NSACRegressor(random_state=0, members=2, training={"max_steps": 5}).fit(x, x[:, 0])
    explained = nsac.explain(model, x[:3])
    np.testing.assert_allclose(explained.attributions["mean"][:, 0], explained.prediction.mean - explained.base["mean"])


def test_attributions_of_a_linear_function_are_its_terms(monkeypatch):
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 3))
    model = NSACRegressor(random_state=0, members=2, training={"max_steps": 5}).fit(x, 3 * x[:, 0] - x[:, 2])
    monkeypatch.setattr(attribution, "EVALUATED_ROWS", 10_000)
    explained = nsac.explain(model, x[:8])
    centre = explained.subject.baselines["x"].double().numpy() * model.columns_.scale + model.columns_.centre
    expected = (x[:8] - centre.mean(0)) * [3, 0, -1]
    np.testing.assert_allclose(explained.attributions["mean"][..., 0], expected, atol=0.15)


def test_the_share_of_the_networks_is_reported(explained):
    assert {name: share.round(3).tolist() for name, share in explained.shares.items()} == {
        "networks": [0.4], "Gaussian process": [0.4], "trees": [0.2],
    }  # fmt: skip


def test_leaving_out_a_value_runs_the_model_without_it(explained, regressor):
    rows = table(12, seed=1)[0]
    without = rows.iloc[[3]].assign(**{"a": np.nan})
    found = explained.leave_one_out(3).set_index("feature").loc["a"]
    mean, std = regressor.predict(without, return_std=True)
    assert found["mean"] == pytest.approx(mean[0]) and found["std"] == pytest.approx(std[0])
    width = np.diff(regressor.predict_interval(without))[0, 0] / np.diff(regressor.predict_interval(rows.iloc[[3]]))
    assert found["width_ratio"] == pytest.approx(width.item())


def test_a_frame_has_one_line_per_row_and_feature(explained):
    frame = explained.to_frame()
    assert len(frame) == 12 * 4 and list(frame.columns) == ["row", "output", "feature", *QUANTITIES]
    assert frame.groupby("row", sort=False)["mean"].sum().to_numpy() == pytest.approx(
        (explained.prediction.mean - explained.base["mean"])[:, 0]
    )


def test_a_row_that_does_not_exist_is_refused(explained):
    with pytest.raises(ExplainError, match=r"`rows` must be row numbers from 0 to 11. Got 12 instead"):
        explained.leave_one_out(12)


def test_an_origin_that_does_not_exist_is_refused(forecaster):
    with pytest.raises(ExplainError, match=r"from 0 to 39. Got 40 instead"):
        nsac.explain(forecaster, series(40), origins=[40])


def test_a_model_without_a_circuit_is_refused():
    x = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ExplainError, match="must contain a circuit"):
        nsac.explain(NSACRegressor("ridge", random_state=0).fit(x, x[:, 0]), x[:2])


def test_a_layer_is_refused():
    with pytest.raises(ExplainError, match="Got NSAC instead. For a layer call its `trace`"):
        nsac.explain(NSAC(2, 1), np.zeros((1, 2)))


def test_a_model_must_be_fitted():
    with pytest.raises(NotFittedError):
        nsac.explain(NSACRegressor(), np.zeros((1, 2)))


def test_origins_are_for_series(regressor):
    with pytest.raises(ExplainError, match="`origins` must be None for a table"):
        nsac.explain(regressor, table(2)[0], origins=[0])


def planted(seed: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    random = np.random.default_rng(seed)
    x, chosen = random.normal(size=(200, 12)), sorted(random.choice(12, 2, replace=False).tolist())
    return x, 2 * x[:, chosen[0]] + 1.5 * np.sin(2 * x[:, chosen[1]]) + 0.3 * random.normal(size=200), chosen


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_two_features_that_matter_rank_first(seed):
    x, y, chosen = planted(seed)
    model = NSACRegressor(effort="fast", random_state=seed).fit(x[:150], y[:150])
    explained = nsac.explain(model, x[150:])
    by_size = np.abs(explained.attributions["mean"]).mean((0, 2)).argsort()[::-1]
    by_shuffling = explained.importances(2)["importance"].to_numpy().argsort()[::-1]
    assert sorted(by_size[:2].tolist()) == sorted(by_shuffling[:2].tolist()) == chosen
