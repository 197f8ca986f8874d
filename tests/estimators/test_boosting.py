import numpy as np
import pytest
import sklearn.ensemble
import torch
from sklearn.ensemble import HistGradientBoostingRegressor

from nsac.estimators import boosting
from nsac.estimators.boosting import Trees

ROUNDS = 20


def made(n: int = 90, outputs: int = 2) -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    random = np.random.default_rng(0)
    x = random.normal(size=(n, 3))
    y = np.stack([np.sign(x[:, j]) + 0.1 * random.normal(size=n) for j in range(outputs)], 1)
    folds = np.array_split(random.permutation(n), 4)[:3]
    return x, y, [(np.setdiff1d(np.arange(n), fold), fold) for fold in folds]


@pytest.fixture(scope="module")
def fitted():
    """Trees with few rounds, and the models of scikit-learn that grew them, (splits, outputs)."""
    x, y, splits = made()
    models = []

    class Recorded(HistGradientBoostingRegressor):
        def fit(self, *arguments, **more):
            models.append(self)
            return super().fit(*arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosting, "MAX_ROUNDS", ROUNDS)
        patch.setattr(sklearn.ensemble, "HistGradientBoostingRegressor", Recorded)
        trees, left_out = Trees.fit(x, y, splits, None, seed=0)
    return trees, left_out, np.array(models, dtype=object).reshape(len(splits), 2)


def staged(model: HistGradientBoostingRegressor, x: np.ndarray, trees: Trees) -> np.ndarray:
    rounds = len(trees.value) // trees.start.numel()
    return list(model.staged_predict(x))[rounds - 1]


def test_the_prediction_is_the_mean_of_the_models_of_scikit_learn(fitted):
    trees, _, models = fitted
    x = 2 * made()[0]
    expected = [[staged(model, x, trees) for model in row] for row in models]
    np.testing.assert_allclose(trees.predict(torch.from_numpy(x)), np.mean(expected, 0).T, atol=1e-9)


def test_left_out_rows_are_predicted_by_the_model_that_did_not_see_them(fitted):
    trees, left_out, models = fitted
    x, _, splits = made()
    for (_, rows), row in zip(splits, models, strict=True):
        expected = np.stack([staged(model, x[rows], trees) for model in row], 1)
        np.testing.assert_allclose(left_out[rows], expected, atol=1e-9)


def test_rows_that_no_split_leaves_out_have_no_prediction(fitted):
    splits = made()[2]
    inside = np.setdiff1d(np.arange(90), np.concatenate([rows for _, rows in splits]))
    assert np.isnan(fitted[1][inside]).all() and not np.isnan(fitted[1]).all(1)[splits[0][1]].any()


def test_the_number_of_rounds_is_the_best_on_left_out_rows(fitted):
    trees, _, models = fitted
    x, y, splits = made()
    squares = []
    for (_, rows), row in zip(splits, models, strict=True):
        predicted = np.stack([list(model.staged_predict(x[rows])) for model in row], -1)
        squares.append(np.square(predicted - y[rows]).mean(-1))
    errors = np.concatenate(squares, 1).mean(1)
    assert len(trees.value) == (errors.argmin() + 1) * trees.start.numel()


def test_a_row_of_weight_zero_is_not_learned(monkeypatch):
    monkeypatch.setattr(boosting, "MAX_ROUNDS", 3)
    x, y, splits = made(outputs=1)
    weight = np.ones(90)
    weight[::3] = 0
    changed = y.copy()
    changed[::3] += 100
    (one, _), (other, _) = (Trees.fit(x, each, splits, weight, seed=0) for each in (y, changed))
    assert torch.equal(one.predict(torch.from_numpy(x)), other.predict(torch.from_numpy(x)))


def test_tensors_come_back(fitted):
    x = torch.from_numpy(made()[0])
    again = Trees.from_tensors(fitted[0].to_tensors(), 3, 2)
    assert torch.equal(again.predict(x), fitted[0].predict(x))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("value", lambda t: t[:, 1:], "do not fit each other"),
        ("feature", lambda t: t.double(), "do not fit each other"),
        ("value", lambda t: t[0], "do not fit each other"),
        ("start", lambda t: t[:, :1], "number of outputs"),
        ("start", lambda t: t[0], "number of outputs"),
        ("feature", lambda t: t + 3, "`feature` from 0 to 2"),
        ("left", lambda t: t - 1000, "`left` from 0"),
        ("right", lambda t: t + 1000, "`right` from 0"),
        ("threshold", lambda t: t * torch.nan, "must not be NaN"),
        ("depth", lambda t: t + 1000, "depth"),
        ("depth", lambda t: t[None], "depth"),
        ("depth", lambda t: -t, "depth"),
    ],
)
def test_damaged_trees_are_refused(fitted, name, change, message):
    tensors = fitted[0].to_tensors()
    with pytest.raises(ValueError, match=message):
        Trees.from_tensors(tensors | {name: change(tensors[name])}, 3, 2)


def test_trees_that_never_end_are_refused():
    tensors = dict.fromkeys(("feature", "left", "right"), torch.zeros(1, 3, dtype=torch.int64))
    tensors |= dict.fromkeys(("threshold", "value"), torch.zeros(1, 3, dtype=torch.float64))
    tensors |= {"start": torch.zeros(1, 1).double(), "depth": torch.tensor(1)}
    cycle = {"left": torch.tensor([[1, 0, 2]]), "right": torch.tensor([[2, 0, 2]])}  # node 1 leads back to node 0
    with pytest.raises(ValueError, match="children after their parents"):
        Trees.from_tensors(tensors | cycle, 1, 1)
