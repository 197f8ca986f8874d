import threading

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from nsac import NSACRegressor
from nsac._torch import single_threaded
from support.table_problems import numbers, quick

LEARNING = {"max_steps": 60, "learning_rate": 0.02, "ema": None, "batch_size": 32}
"""Numbers with which a single small run learns enough for the checks of scores."""
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "folds and batches are random: rows that repeat are split apart"
}
"""Checks that fail, and why."""
REFUSED = "methods other than nsac refuse weights"
EXPECTED_OF_RIDGE = {
    "check_sample_weight_equivalence_on_dense_data": REFUSED, "check_sample_weights_not_overwritten": REFUSED,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API:UserWarning")
@pytest.mark.filterwarnings("ignore:.*rows of calibration are too few:UserWarning")
@pytest.mark.filterwarnings("ignore:Rows look grouped:UserWarning")
@pytest.mark.parametrize(
    ("regressor", "expected"),
    [
        (quick(method="ridge"), EXPECTED_OF_RIDGE),
        pytest.param(quick(members=1, training=LEARNING), EXPECTED, marks=pytest.mark.slow),
    ],
    ids=["ridge", "nsac"],
)
def test_every_check_of_scikit_learn_passes_but_those_of_weights(regressor, expected):
    assert failures(regressor, expected) == []


def failures(regressor, expected):
    """Checks that fail, or that pass although they are expected to fail."""
    results = check_estimator(regressor, on_fail=None, expected_failed_checks=expected)
    unexpected = [(each["check_name"], each["exception"]) for each in results if each["status"] == "failed"]
    known = {each["check_name"] for each in results if each["status"] == "xfail"}
    return unexpected + sorted(set(expected) - known)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API:UserWarning")
@pytest.mark.filterwarnings("ignore:Rows look grouped:UserWarning")
def test_every_check_of_scikit_learn_passes_with_defaults_but_that_of_weights():
    names = {check.func.__name__ for _, check in estimator_checks_generator(NSACRegressor())}  # pyright: ignore
    assert len(names) > 40
    assert failures(NSACRegressor(), EXPECTED) == []


def test_it_works_in_pipelines_searches_and_clones():
    x, y = numbers()
    pipeline = make_pipeline(StandardScaler(), quick(method="ridge"))
    assert cross_val_score(pipeline, x, y, cv=2).min() > 0.8
    search = GridSearchCV(quick(), {"method": ["ridge", "mean"], "members": [1, 2]}, cv=2).fit(x, y)
    assert search.best_params_["method"] == "ridge"
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_parallel_fits_and_predictions_are_those_of_one_process(backend):
    from joblib import Parallel, delayed

    x, y = numbers()
    fitted = [quick(random_state=k).fit(x, y) for k in range(2)]
    with Parallel(n_jobs=2, backend=backend) as parallel:
        same = parallel(delayed(quick(random_state=k).fit)(x, y) for k in range(2))
        predicted = parallel(delayed(each.predict)(x) for each in fitted)
    for mine, other, values in zip(fitted, same, predicted, strict=True):
        assert np.array_equal(mine.predict(x), other.predict(x)) and np.array_equal(mine.predict(x), values)


def test_threads_leave_the_callers_settings_as_they_were():
    entered, leave = threading.Event(), threading.Event()

    def first():
        with single_threaded():
            entered.set()
            leave.wait(10)

    def second():
        with single_threaded():
            seen.append(torch.get_default_dtype())

    seen: list[torch.dtype] = []
    threads = [threading.Thread(target=each) for each in (first, second)]
    threads[0].start()
    assert entered.wait(10)
    threads[1].start()
    assert not seen  # the second waits for its turn
    leave.set()
    for each in threads:
        each.join(10)
    assert seen == [torch.float32] and torch.get_default_dtype() == torch.float64
