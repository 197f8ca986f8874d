import pytest
import torch

from nsac.estimators.graph import graph_margin, make_graph, prediction_noise
from nsac.uncertainty import conformal_margin
from support.table_problems import numbers, quick


@pytest.fixture(scope="module")
def regressor():
    return quick(members=1).fit(*numbers())


def test_the_noise_has_the_draws_of_the_estimator(regressor):
    noise = prediction_noise(regressor)
    assert noise is not None and len(noise) == regressor.num_samples


def test_a_method_without_noise_has_no_input_for_it():
    _, inputs = make_graph(quick(method="ridge", members=1).fit(*numbers()), 0.8)
    assert set(inputs) == {"x"}


def test_the_margin_is_conformal(regressor):
    torch.testing.assert_close(graph_margin(regressor, 0.8), conformal_margin(regressor.calibration_.scores, 0.8))


def test_too_few_rows_of_calibration_give_a_gaussian_margin(regressor):
    with pytest.warns(UserWarning, match="Too few rows of calibration"):
        margin = graph_margin(regressor, 0.99)
    torch.testing.assert_close(margin, torch.tensor([2.5758293035489]))


def test_the_module_predicts_as_the_estimator(regressor):
    graph, inputs = make_graph(regressor, 0.8)
    x, _ = numbers()
    mean, *_, lower, upper = graph(torch.as_tensor(x), noise=inputs["noise"])
    torch.testing.assert_close(
        mean[:, 0], torch.as_tensor(regressor.predict(x)), rtol=1e-4, atol=1e-4
    )  # single precision
    ends = torch.as_tensor(regressor.predict_interval(x, 0.8))
    torch.testing.assert_close(torch.cat([lower, upper], 1), ends, rtol=1e-4, atol=1e-4)
