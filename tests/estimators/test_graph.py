from pathlib import Path

import numpy as np
import pytest
import torch

from nsac import load
from nsac.estimators.graph import Graph, MemberGraph, OutputGraph, graph_margin, make_graph, prediction_noise
from nsac.estimators.stacked import member_draws
from nsac.uncertainty import Link, conformal_margin
from support.table_problems import mixed, numbers, quick

SAVED = Path(__file__).with_name("saved")
NAMES = ["mean", "aleatoric", "epistemic", "lower_80", "upper_80"]
TOLERANCE = 1e-5  # in standard deviations of the target, and relative; members compute in single precision


@pytest.fixture(scope="module")
def regressor():
    return quick(members=2).fit(*numbers())


def outputs(estimator, X) -> dict[str, np.ndarray]:
    """What the module says about a table without further missing values."""
    graph, inputs = make_graph(estimator, 0.8)
    given = {"x": torch.as_tensor(X, dtype=torch.float64)}
    if "noise" in inputs:
        given["noise"] = inputs["noise"]
    with torch.no_grad():
        return dict(zip(NAMES, (each.numpy() for each in graph(**given)), strict=True))


def assert_same(said, estimator, X, units) -> None:
    frame = estimator.predict_frame(X, 0.8)
    for name in NAMES:
        unit = units**2 if name in ("aleatoric", "epistemic") else units
        expected = np.stack([frame[c] for c in frame.columns if c.startswith(name)], 1)
        np.testing.assert_allclose(said[name] / unit, expected / unit, TOLERANCE, TOLERANCE, err_msg=name)


def test_the_noise_has_the_draws_of_a_member(regressor):
    noise = prediction_noise(regressor)
    assert noise is not None and len(noise) == member_draws(regressor.num_samples, 2)


def test_a_method_without_noise_has_no_input_for_it():
    _, inputs = make_graph(quick(method="ridge", members=1).fit(*numbers()), 0.8)
    assert set(inputs) == {"x"}


def test_the_margin_is_conformal(regressor):
    torch.testing.assert_close(graph_margin(regressor, 0.8), conformal_margin(regressor.calibration_.scores, 0.8))


def test_the_margin_of_groups_is_that_of_a_new_group():
    x, y = numbers()
    grouped = quick().fit(x, y, groups=np.arange(60) % 8)
    torch.testing.assert_close(graph_margin(grouped, 0.8), grouped.calibration_.margin(0.8))
    assert_same(outputs(grouped, x), grouped, x, y.std())


def test_too_few_rows_of_calibration_give_a_gaussian_margin(regressor):
    with pytest.warns(UserWarning, match="Too few rows of calibration"):
        margin = graph_margin(regressor, 0.99)
    torch.testing.assert_close(margin, torch.tensor([2.5758293035489]))


def test_the_module_predicts_as_the_estimator(regressor):
    x, y = numbers(seed=1)
    assert_same(outputs(regressor, 3 * x), regressor, 3 * x, y.std())


def test_several_outputs_are_predicted_as_by_the_estimator():
    x, y = numbers(outputs=2)
    estimator = quick(members=1).fit(x, y)
    assert_same(outputs(estimator, x), estimator, x, y.std(0))


@pytest.mark.parametrize(
    ("name", "bounds"), [("log", (0.0, None)), ("softplus", (0.0, None)), ("softplus", (None, 9.0)), ("logit", (0, 9))]
)
def test_bounded_targets_are_predicted_as_by_the_estimator(regressor, monkeypatch, name, bounds):
    x, _ = numbers(seed=1)
    monkeypatch.setattr(regressor, "link_", Link(name, *bounds, margin=0.01))
    assert_same(outputs(regressor, x), regressor, x, regressor.predict(x).std())


def test_members_and_their_combination_make_the_graph(regressor):
    graph, inputs = make_graph(regressor, 0.8)
    assert isinstance(graph, Graph)
    with torch.no_grad():
        expected, draws = graph(**inputs), []
        for member in graph.members:
            one = MemberGraph(graph)
            one.member = member
            draws.append(one(**inputs))
        joined = [torch.cat(each) for each in zip(*draws, strict=True)]
        torch.testing.assert_close(OutputGraph(graph)(*joined, inputs["x"]), expected)


def test_an_old_model_is_a_mixture_in_the_graph_too():
    model, (frame, _) = load(SAVED / "regressor-1" / "model"), mixed(12, seed=5)
    graph, inputs = make_graph(model, 0.5)
    assert len(inputs["noise"]) == model.num_samples
    rows = model.columns_.tensors(frame)
    x = rows["x"].double() * torch.as_tensor(model.columns_.scale) + torch.as_tensor(model.columns_.centre)
    near = rows["x"].abs().amax(1) < 2  # standardised numbers are linear there
    with torch.no_grad():
        mean, *_ = graph(x, rows["c"], noise=inputs["noise"])
    known = near & ~mean[:, 0].isnan()
    expected = torch.as_tensor(model.predict(frame))
    assert known.any()
    torch.testing.assert_close(mean[known, 0], expected[known], rtol=1e-5, atol=1e-5)
