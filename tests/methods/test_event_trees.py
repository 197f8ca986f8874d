import numpy as np
import pytest
import torch

from nsac.methods import METHODS
from support.problems import sporadic


@pytest.fixture
def fitted(generator):
    split = sporadic(600, generator=generator)
    trees = METHODS["trees"](split.problem)
    trees.solve(split.train, split.validation)
    return split, trees


def test_trees_predict_the_last_value_plus_what_scikit_learn_grew(fitted):
    from sklearn.ensemble import HistGradientBoostingRegressor

    from nsac.methods import event_trees as module

    split, trees = fitted
    rounds = int((trees.value[0] != 0).any(1).nonzero().max()) + 1
    known = trees._targets(split.train)
    rows = known.channel == 0
    grown = HistGradientBoostingRegressor(
        learning_rate=module.LEARNING_RATE, max_iter=rounds, max_leaf_nodes=module.LEAVES, l2_regularization=module.L2,
        min_samples_leaf=max(module.MIN_LEAF, int(module.MIN_LEAF_SHARE * rows.sum())), random_state=0,
        max_features=module.FEATURE_SHARE, early_stopping=False,
    ).fit(known.x[rows], known.y[rows])  # fmt: skip
    batch = split.test.columns
    x, last = trees.features(batch)
    asked = batch["query_channel"] == 0
    wanted = last[asked].numpy() + grown.predict(x[asked].numpy())
    close = np.isclose(trees.predict(batch).mean[asked].squeeze(-1), wanted, atol=1e-5)
    assert close.mean() > 0.99  # thresholds are in single precision


def test_trees_beat_the_last_value(fitted):
    split, trees = fitted
    last = METHODS["persistence"](split.problem)
    last.solve(split.train, split.validation)
    batch = split.test.columns
    errors = [(method.predict(batch).mean - batch["y"]).square().mean().item() for method in (trees, last)]
    assert errors[0] < 0.7 * errors[1]


def test_the_standard_deviation_is_the_error_on_validation_rows(fitted):
    split, trees = fitted
    batch = split.validation.columns
    p = trees.predict(batch)
    error = (p.mean - batch["y"]).square()
    assert error.mean().item() == pytest.approx(p.variance.mean().item(), rel=0.05)


def test_a_channel_with_few_targets_has_its_last_value(generator):
    split = sporadic(24, generator=generator)
    trees = METHODS["trees"](split.problem)
    trees.solve(split.train, split.validation)
    assert not trees.grown.any()
    batch = split.test.columns
    last = METHODS["persistence"](split.problem).predict(batch).mean
    torch.testing.assert_close(trees.predict(batch).mean, last, atol=1e-6, rtol=1e-6)


def test_a_stored_node_that_does_not_exist_is_refused(fitted):
    _, trees = fitted
    trees.check_nodes()
    trees.feature[0, 0, 0] = 30_000
    with pytest.raises(ValueError, match="`feature` from 0 to"):
        trees.check_nodes()


def test_a_channel_that_is_constant_in_validation_rows_has_a_standard_deviation(fitted):
    split, trees = fitted
    trees.log_std.fill_(-14.0)
    assert trees.predict(split.test.columns).std.min().item() == pytest.approx(0.01)
