import numpy as np
import pytest
import torch

import nsac
from explain.conftest import series, table
from nsac import METHODS, NAC, NSAC
from nsac.explain import ExplainError, trace_layer, trace_member
from nsac.explain.circuit import find_network, synapses
from nsac.methods import TableProblem


def test_a_network_predicts_what_its_traced_weights_and_values_give(regressor):
    explained = nsac.explain(regressor, table(5, seed=1)[0])
    batch = {name: each.double() if name == "x" else each for name, each in explained.subject.network_inputs().items()}
    for trace, member in zip(explained.traces, regressor.members_, strict=True):
        np.testing.assert_allclose(
            trace.mean[:, 0], member.predict(batch, explained.subject.num_samples).mean, atol=1e-12
        )


def test_the_stacked_mean_is_that_of_the_traced_networks_and_the_other_models(regressor):
    explained = nsac.explain(regressor, table(5, seed=1)[0])
    means = explained.subject.model_means(explained.subject.inputs)
    networks = np.mean([trace.mean[:, 0] for trace in explained.traces], 0)
    joined = np.stack([networks, means["Gaussian process"], means["trees"]])
    weights = regressor.components_.stack.weights.numpy()
    raw = next(regressor._chunks(table(5, seed=1)[0])).mean
    np.testing.assert_allclose((weights[:, None] * joined).sum(0), raw, atol=1e-9)


def test_a_forecast_is_that_of_the_traced_networks_and_the_other_models(forecaster):
    explained = nsac.explain(forecaster, series(40, seed=1), origins=[20, 39])
    means = explained.subject.model_means(explained.subject.inputs)
    last, unit = (each.numpy() for each in explained.subject._last_and_unit(explained.subject.inputs))
    networks = last + unit * np.mean([trace.mean[:, 0] for trace in explained.traces], 0)
    weights = forecaster.components_.weights.numpy()
    changes = np.stack([networks, means["linear regression"], means["trees"]]) - last
    np.testing.assert_allclose(last + (weights[:, None, None] * changes).sum(0), explained.prediction.mean, atol=1e-9)


def test_attended_values_follow_from_the_sensory_neurons(regressor):
    trace = nsac.explain(regressor, table(3, seed=1)[0]).traces[0]
    member = regressor.members_[0]
    v = np.take_along_axis(trace.v[:, :, None], trace.index[..., None], 3)  # b h q k d
    attended = (trace.weights[..., None] * v).sum(3).transpose(0, 2, 1, 3).reshape(3, 1, -1)
    batch = {
        name: each.double() if name == "x" else each
        for name, each in regressor.columns_.tensors(table(3, seed=1)[0]).items()
    }
    encoded = member.network.encoder(batch)
    np.testing.assert_allclose(attended, member.network.attend(encoded)[0].detach(), atol=1e-12)


def test_gates_and_logits_follow_from_the_command_neurons(regressor):
    trace = nsac.explain(regressor, table(3, seed=1)[0]).traces[0]
    backbone = regressor.members_[0].network.attention.backbone
    weights = synapses(regressor.members_[0].network.attention)
    motor = trace.command @ weights["motor"] + backbone.motor.bias.detach().numpy()
    np.testing.assert_allclose(trace.motor, motor, atol=1e-12)
    np.testing.assert_allclose(trace.gates["phi"], np.tanh(motor[..., 1]), atol=1e-12)
    kappa, phi, psi = (trace.gates[name] for name in ("kappa", "phi", "psi"))
    np.testing.assert_allclose(trace.mu, phi * -np.expm1(-kappa * trace.t), atol=1e-12)
    np.testing.assert_allclose(trace.sigma**2, psi**2 / (2 * kappa) * -np.expm1(-2 * kappa * trace.t), atol=1e-12)


def test_weights_of_the_keys_add_up_to_one_and_have_a_standard_deviation(regressor):
    explained = nsac.explain(regressor, table(3, seed=1)[0])
    found = explained.attention()
    assert found.groupby("row")["weight"].sum().to_numpy() == pytest.approx(np.ones(3))
    assert (found["std"] > 0).all() and list(found["key"][:2]) == ["slot 1", "slot 2"]


def test_keys_of_a_window_are_its_variables(forecaster):
    explained = nsac.explain(forecaster, series(40, seed=1))
    assert explained.keys[:2] == ["y", "z"] and explained.traces[0].k.shape[2] == len(explained.keys)


@pytest.mark.parametrize("name", ["nsac", "gmle", "de", "mcd", "der"])
def test_every_method_with_attention_has_a_trace(name):
    member = METHODS[name](TableProblem(3, 1), seed=0).double()
    trace = trace_member(member, {"x": torch.randn(4, 3, generator=torch.Generator().manual_seed(0))}, 4)
    assert trace.weights.sum(-1) == pytest.approx(np.ones((4, 4, 1)))
    assert set(trace.gates) == ({"kappa", "phi", "psi"} if name == "nsac" else {"gamma", "omega"})


def test_layers_have_traces():
    x = torch.randn(2, 6, 3)
    assert trace_layer(NSAC(3, 1), x).sigma.min() > 0 and trace_layer(NAC(3), x).sigma.max() == 0


def test_a_method_without_a_circuit_is_refused():
    with pytest.raises(ExplainError, match=r"must contain a circuit.*'ridge'.*method='nsac'"):
        find_network(METHODS["ridge"](TableProblem(3, 1), seed=0))
