import numpy as np
import pytest

from nsac import NSACRegressor
from nsac.estimators.archive import from_archive, to_archive
from support.table_problems import numbers, quick


@pytest.fixture(scope="module")
def archive():
    config, tensors = to_archive(quick(method="ridge", random_state=np.random.RandomState(0)).fit(*numbers()))
    assert config.pop("class") == "NSACRegressor"
    return config, tensors


def test_a_random_generator_is_not_saved(archive):
    assert archive[0]["parameters"]["random_state"] is None


def test_the_deprecated_argument_is_not_saved(archive):
    assert "folds" not in archive[0]["parameters"] and archive[0]["parameters"]["members"] == 2


def test_parameters_of_the_previous_version_are_read(archive):
    config, tensors = archive
    parameters = {name: value for name, value in config["parameters"].items() if name not in ("members", "num_samples")}
    regressor = from_archive(NSACRegressor, config | {"parameters": parameters | {"folds": 2}}, tensors)
    assert (regressor.members, regressor.num_samples, regressor.folds) == (2, 20, "deprecated")


def test_weights_of_single_precision_take_four_bytes(archive):
    weights = archive[1]["member.0.weight"]
    assert weights.element_size() == (4 if (weights.float().double() == weights).all() else 8)


@pytest.mark.parametrize(
    "change",
    [
        {"own": None},
        {"seeds": []},
        {"seeds": [1, 2, 3]},
        {"surprise": 1},
        {"parameters": {"method": "magic"}},
        {"parameters": {"num_samples": 10**9}},
    ],
)
def test_a_config_that_does_not_fit_is_refused(archive, change):
    config, tensors = archive
    with pytest.raises((ValueError, TypeError, KeyError)):
        from_archive(NSACRegressor, config | change, tensors)
