import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingRegressor

from nsac.methods.trees import NODE, evaluate_trees, store_trees


def grown(
    rounds: int = 12, leaves: int = 8, constant: bool = False
) -> tuple[np.ndarray, HistGradientBoostingRegressor]:
    random = np.random.default_rng(0)
    x = random.normal(size=(120, 3))
    y = np.zeros(120) if constant else np.where(x[:, 0] > 0, x[:, 1], -x[:, 2])
    model = HistGradientBoostingRegressor(max_iter=rounds, max_leaf_nodes=leaves, random_state=0, early_stopping=False)
    return x, model.fit(x, y)


def total(x: np.ndarray, model: HistGradientBoostingRegressor, rounds: int, nodes: int = 15) -> np.ndarray:
    stored, depth = store_trees(model, rounds, nodes)
    return evaluate_trees(torch.from_numpy(x), stored, depth).sum(0).numpy() + float(
        model._baseline_prediction.ravel()[0]
    )


@pytest.mark.parametrize("rounds", [1, 5, 12])
def test_stored_trees_predict_what_scikit_learn_predicts(rounds):
    x, model = grown()
    new = np.concatenate([x, 3 * x])
    np.testing.assert_allclose(total(new, model, rounds), list(model.staged_predict(new))[rounds - 1], atol=1e-9)


def test_a_value_on_a_threshold_goes_left():
    x, model = grown(rounds=1)
    root = model._predictors[0][0].nodes[0]
    x = np.zeros((1, 3))
    x[0, root["feature_idx"]] = root["num_threshold"]
    np.testing.assert_allclose(total(x, model, 1), model.predict(x), atol=1e-9)


def test_a_tree_that_is_one_leaf_is_a_constant():
    x, model = grown(rounds=2, constant=True)
    stored, depth = store_trees(model, 2, 15)
    assert depth == 0
    np.testing.assert_allclose(total(x, model, 2), model.predict(x), atol=1e-9)


def test_further_steps_stay_in_the_leaf():
    x, model = grown()
    stored, depth = store_trees(model, 12, 15)
    rows = torch.from_numpy(x)
    assert torch.equal(evaluate_trees(rows, stored, depth), evaluate_trees(rows, stored, depth + 5))


def test_every_field_has_its_type_and_is_padded():
    _, model = grown()
    stored, _ = store_trees(model, 7, 40)
    assert {name: each.dtype for name, each in stored.items()} == NODE
    assert {each.shape for each in stored.values()} == {(7, 40)}
