import numpy as np

from nsac.methods import METHODS
from support.problems import sine


def test_trees_as_tensors_predict_the_same_as_scikit_learn(generator):
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
