import numpy as np
import pytest
import torch

import nsac
from explain.conftest import series, table
from nsac.explain import ExplainError, Neuron, lesions, prune
from nsac.explain.lesions import neurons, silence, silenced


@pytest.fixture(scope="module")
def rows():
    return table(30, seed=1)


def test_a_silenced_neuron_has_no_potential_downstream(regressor):
    frame, member = table(3, seed=1)[0], regressor.members_[0]
    before = nsac.explain(regressor, frame).traces[0]
    with silenced(member, [Neuron(0, "value", 5)]):
        assert nsac.explain(regressor, frame).traces[0].v[:, 0, :, 5].tolist() == np.zeros((3, 8)).tolist()
    with silenced(member, [Neuron(0, "motor", 1)]):
        assert not nsac.explain(regressor, frame).traces[0].gates["phi"].any()
    after = nsac.explain(regressor, frame).traces[0]
    assert (after.weights == before.weights).all() and (after.v == before.v).all()  # restored


@pytest.mark.parametrize("layer", ["inter", "command"])
def test_silencing_a_neuron_of_the_circuit_changes_the_motor_neurons(regressor, layer):
    frame, before = table(3, seed=1)[0], nsac.explain(regressor, table(3, seed=1)[0]).traces[0]
    with silenced(regressor.members_[0], [Neuron(0, layer, 2)]):
        after = nsac.explain(regressor, frame).traces[0]
    assert (before.motor != after.motor).any() and (before.inter == after.inter).all()


def test_every_neuron_is_silenced_once(regressor, rows):
    study = lesions(regressor, *rows, layers=("inter", "motor"))
    assert len(study) == 2 * (18 + 3) and study["network_error"].is_monotonic_decreasing
    assert list(study.columns) == ["member", "layer", "neuron", "error", "aleatoric", "epistemic", "network_error"]


def test_a_lesion_is_the_effect_of_a_silenced_model(regressor, rows):
    study = lesions(regressor, *rows, layers=("motor",))
    line = study[(study["member"] == 1) & (study["neuron"] == 2)].iloc[0]
    frame, y = rows
    z = (regressor.link_.forward(torch.tensor(y)).numpy() - regressor.centre_) / regressor.scale_

    def error():
        return np.square(next(regressor._chunks(frame)).mean[:, 0].numpy() - z).mean()

    before = error()
    with silenced(regressor.members_[1], [Neuron(1, "motor", 2)]):
        assert error() / before - 1 == pytest.approx(line["error"], abs=1e-9)


def test_a_series_has_lesions(forecaster):
    study = lesions(forecaster, series(80, seed=1), layers=("command",))
    assert set(study["member"]) == {0, 1} and np.isfinite(study["error"]).all()


def test_a_pruned_model_is_saved_and_used(regressor, rows, tmp_path):
    pruned, gone = prune(regressor, *rows, tolerance=0.05)
    pruned.save(tmp_path / "model")
    loaded = nsac.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict(rows[0]), pruned.predict(rows[0]))
    assert 0 < len(gone) < len(neurons(regressor, ("inter", "command", "motor")))
    assert (pruned.predict(rows[0]) != regressor.predict(rows[0])).any()


def test_silencing_nothing_changes_nothing(regressor, rows):
    before = regressor.predict(rows[0])
    silence(regressor, [])
    assert (regressor.predict(rows[0]) == before).all()


def test_an_unknown_layer_is_refused(regressor, rows):
    with pytest.raises(ExplainError, match="`layers` must be among query, key, value, inter, command, motor. Got 'x'"):
        lesions(regressor, *rows, layers=("x",))


def test_lesions_of_a_table_need_targets(regressor, rows):
    with pytest.raises(ExplainError, match="`y` must hold the targets"):
        lesions(regressor, rows[0])
