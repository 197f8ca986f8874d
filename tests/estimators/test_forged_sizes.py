"""Folders whose config was changed and signed anew: sizes must be those of the tensors, before anything is built."""

import copy
import tracemalloc
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch.overrides import TorchFunctionMode

from nsac import load
from nsac.circuit import wiring
from nsac.estimators import ModelError
from nsac.estimators.files import read_model, write_model
from support.table_problems import mixed, numbers, quick

SAVED = Path(__file__).with_name("saved")
MAX_NUMBERS = 1 << 20  # in a tensor that is created while a model is refused; the largest of these models has 1e5


class Allocations(TorchFunctionMode):
    """Refuses to create a tensor with storage that is larger than any of an honest model."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        made = func(*args, **kwargs or {})
        if isinstance(made, torch.Tensor) and made.device.type != "meta":
            assert made.numel() <= MAX_NUMBERS, f"{func} made {tuple(made.shape)}"
        return made


@contextmanager
def little_memory(monkeypatch):
    """No large tensor, no large array and no large circuit is created."""

    def small(units, *arguments, **options):
        assert units <= 100, f"a circuit of {units} neurons"
        return make(units, *arguments, **options)

    make = wiring.AutoNCP
    monkeypatch.setattr(wiring, "AutoNCP", small)
    tracemalloc.start()
    try:
        with Allocations():
            yield
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def refuse(folder, config, tensors, monkeypatch) -> str:
    write_model(folder / "forged", config, tensors)
    with little_memory(monkeypatch), pytest.raises(ModelError) as refused:
        load(folder / "forged")
    assert "AssertionError" not in str(refused.value), refused.value
    return str(refused.value)


def changed(config, changes):
    config = copy.deepcopy(config)
    for place, value in changes.items():
        *parents, key = place.split(".")
        target = config
        for parent in parents:
            target = target[parent]
        assert key in target, key
        target[key] = value
    return config


@pytest.mark.parametrize(
    "changes",
    [
        {"problem.network.hidden": 100_000},
        {"problem.network.hidden": 3000},
        {"problem.network.circuit_units": 8000},
        {"problem.network.circuit_units": 33},
        {"problem.network.d_model": 100_000},
        {"problem.network.d_model": 128},
        {"problem.network.num_heads": 2},
        {"problem.network.num_heads": 64},
        {"problem.network.topk": 100_000},
        {"problem.inputs": 100_000},
        {"problem.outputs": 100_000},
        {"problem.levels": [100_000, 100_000]},
        {"problem.levels": [3] * 50_000},
        {"problem.tokens": "features", "problem.inputs": 100_000},
        {"problem.kind": "frames", "problem.length": 100_000},
        {"problem.kind": "windows", "problem.length": 100_000},
        {"problem.kind": "series"},
        {"seeds": list(range(100_000))},
        {"parameters.method": "de"},
        {"parameters.method": "gbm"},
        {"parameters": {"method": "nsac", "num_samples": 10**6}},
    ],
    ids=str,
)
def test_a_regressor_with_sizes_that_are_not_those_of_its_tensors_is_refused(tmp_path, monkeypatch, changes):
    config, tensors = read_model(SAVED / "regressor-1" / "model")
    refuse(tmp_path, changed(config, changes), tensors, monkeypatch)


@pytest.mark.parametrize(
    "changes",
    [
        {"problem.length": 100_000, "parameters.lookback": 100_000},
        {"problem.outputs": 100_000, "parameters.horizon": 100_000},
        {"parameters.lookback": 100_000},
        {"parameters.horizon": 100_000},
        {"problem.inputs": 100_000},
        {"problem.calendar": 100_000},
        {"parameters.method": "nsac"},
        {"parameters.method": "nsac", "problem.network.circuit_units": 8000},
        {"parameters.method": "gbm"},
        {"seeds": []},
    ],
    ids=str,
)
def test_a_forecaster_with_sizes_that_are_not_those_of_its_tensors_is_refused(tmp_path, monkeypatch, changes):
    config, tensors = read_model(SAVED / "forecaster-1" / "model")
    refuse(tmp_path, changed(config, changes), tensors, monkeypatch)


def test_a_circuit_with_more_neurons_than_its_synapses_allow_is_refused(tmp_path, monkeypatch):
    config, tensors = read_model(SAVED / "regressor-1" / "model")
    name = "member.0.network.attention.backbone.inter.bias"
    forged = tensors | {name: torch.zeros(8000 - 32 + len(tensors[name]))}
    config = changed(config, {"problem.network.circuit_units": 8000})
    assert "too few synapses" in refuse(tmp_path, config, forged, monkeypatch)


def test_many_outputs_of_boosted_trees_need_as_many_trees(tmp_path, monkeypatch):
    quick(method="gbm", members=1).fit(*numbers(20)).save(tmp_path / "m")
    config, tensors = read_model(tmp_path / "m")
    many = {"calibration.scale": torch.ones(10_000), "calibration.scores": torch.ones(3, 10_000)}
    config = changed(config, {"problem.output_dim": 10_000})
    assert "sizes of the problem" in refuse(tmp_path, config, tensors | many, monkeypatch)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("regressor-1", "own.x.centre"),
        ("regressor-1", "own.x.scale"),
        ("regressor-1", "own.y.centre"),
        ("regressor-1", "own.y.scale"),
        ("regressor-1", "calibration.scale"),
        ("regressor-1", "member.0.novelty.centre"),
        ("regressor-1", "member.0.novelty.whiten"),
        ("forecaster-1", "own.centre"),
        ("forecaster-1", "own.unit"),
        ("forecaster-1", "own.change"),
        ("forecaster-1", "member.0.weight"),
    ],
)
def test_a_number_that_is_not_finite_is_refused(tmp_path, monkeypatch, model, name, value):
    config, tensors = read_model(SAVED / model / "model")
    forged = tensors[name].clone()
    forged.view(-1)[0] = value
    assert f"{name!r} must be finite" in refuse(tmp_path, config, tensors | {name: forged}, monkeypatch)


@pytest.mark.parametrize("name", ["own.unit", "own.change"])
def test_a_scale_that_is_not_above_0_is_refused(tmp_path, monkeypatch, name):
    config, tensors = read_model(SAVED / "forecaster-1" / "model")
    forged = tensors | {name: 0 * tensors[name]}
    assert f"{name!r} must be finite, and above 0" in refuse(tmp_path, config, forged, monkeypatch)


def test_a_forged_depth_of_trees_does_not_run_for_ever(tmp_path):
    model = quick(method="gbm", members=1).fit(*mixed())
    expected = model.predict(mixed()[0])
    model.save(tmp_path / "m")
    config, tensors = read_model(tmp_path / "m")
    write_model(tmp_path / "m", config, tensors | {"member.0.depth": torch.tensor(2**60)})
    assert (load(tmp_path / "m").predict(mixed()[0]) == expected).all()
